// Where everything lies inside a panel, as constants that the packer, the reference and the vector kernels share.
//
// A panel of a quantised matrix is one linear stream of groups, because decoding reads every byte once and a hardware
// prefetcher follows one stream best. A group is a header of scales and then its blocks of 32 columns:
//
//   q8_0 q4_0 q5_0   group = 2 blocks: d f16[2][16]; per block: body
//   q4_1 q5_1        group = 1 block:  d f16[16], m f16[16]; body
//   q4_k q5_k        group = 256 cols: d f16[16], dmin f16[16]; scale u8[8][16]; min u8[8][16]; 8 x body
//   q6_k             group = 512 cols: d f16[2][16]; per super-block: scale s8[16][16]; 8 x body
//
//   body of a block  q8_0       u8[8 quads][16 rows][4]: code + 128
//                    4-bit      u8[4][16][4]: low nibble = quad i, high nibble = quad i + 4
//                    5-bit      the 4-bit body, then u8[16][4]: bit q = bit 4 of quad q's code
//                    6-bit      the 4-bit body, then u8[2][16][4]: bits 2i, 2i+1 of plane h = bits 4, 5 of quad 4h + i
//
// Quad q of a block is its columns 4q .. 4q + 3: a 32-bit lane holds four neighbouring columns of one row, which is
// what vpdpbusd and the NEON dot products consume. The last group of a row may be short; its header is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "tensor/block_format.h"

namespace lithe::kernels {

inline constexpr int kBlockCols = 32;  // columns that share an activation scale
inline constexpr int kQuadsPerBlock = 8;
inline constexpr std::size_t kQuadBytes = 64;  // 16 rows x 4 columns

enum class ScaleKind : std::uint8_t { none, simple, with_min, k_with_min, k_signed };

/// The layout of one quantised format. All byte counts are multiples of 64.
struct PackedLayout {
  ScaleKind kind;
  int code_bits;           // 8, 4, 5, 6
  int code_shift;          // symmetric formats: (code << shift) - 128 = signed code << shift
  int group_blocks;        // blocks of 32 in a group
  int super_blocks;        // blocks of 32 in what GGUF calls a block
  std::size_t header;      // bytes before the first super-block of a group
  std::size_t sub_header;  // bytes of scales before the bodies of a super-block
  std::size_t body;        // bytes of a block's codes

  constexpr bool has_min() const { return kind == ScaleKind::with_min || kind == ScaleKind::k_with_min; }
  constexpr std::size_t super_bytes() const {
    return sub_header + static_cast<std::size_t>(super_blocks) * body;
  }
  constexpr std::size_t group_bytes() const {
    return header + static_cast<std::size_t>(group_blocks / super_blocks) * super_bytes();
  }
  constexpr std::size_t panel_bytes(std::int64_t cols) const {
    const auto supers = static_cast<std::size_t>(cols / kBlockCols / super_blocks);
    const auto per_group = static_cast<std::size_t>(group_blocks / super_blocks);
    return (supers + per_group - 1) / per_group * header + supers * super_bytes();
  }
  /// The header of the group that holds block b, and b's scales and codes, as offsets into the panel.
  constexpr std::size_t header_at(std::int64_t b) const {
    return static_cast<std::size_t>(b / group_blocks) * group_bytes();
  }
  constexpr std::size_t super_at(std::int64_t b) const {
    return header_at(b) + header + static_cast<std::size_t>(b % group_blocks / super_blocks) * super_bytes();
  }
  constexpr std::size_t body_at(std::int64_t b) const {
    return super_at(b) + sub_header + static_cast<std::size_t>(b % super_blocks) * body;
  }
  /// Which f16[16] row of the header holds the (super-)scale of block b.
  constexpr int scale_row(std::int64_t b) const { return static_cast<int>(b % group_blocks / super_blocks); }
};

constexpr PackedLayout packed_layout(DType dtype) {
  switch (dtype) {
    case DType::q8_0:
      return {ScaleKind::simple, 8, 0, 2, 1, 64, 0, 512};
    case DType::q4_0:
      return {ScaleKind::simple, 4, 4, 2, 1, 64, 0, 256};
    case DType::q5_0:
      return {ScaleKind::simple, 5, 3, 2, 1, 64, 0, 320};
    case DType::q4_1:
      return {ScaleKind::with_min, 4, 0, 1, 1, 64, 0, 256};
    case DType::q5_1:
      return {ScaleKind::with_min, 5, 0, 1, 1, 64, 0, 320};
    case DType::q4_k:
      return {ScaleKind::k_with_min, 4, 0, 8, 8, 64, 256, 256};
    case DType::q5_k:
      return {ScaleKind::k_with_min, 5, 0, 8, 8, 64, 256, 320};
    case DType::q6_k:
      return {ScaleKind::k_signed, 6, 2, 16, 8, 64, 256, 384};
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      break;
  }
  return {ScaleKind::none, 0, 0, 1, 1, 0, 0, 0};
}

/// f(integral_constant<DType, dtype>) for a quantised format.
template <typename F>
decltype(auto) dispatch_quantized(DType dtype, F&& f) {
  using enum DType;
  switch (dtype) {
    case q8_0:
      return f(std::integral_constant<DType, q8_0>());
    case q4_0:
      return f(std::integral_constant<DType, q4_0>());
    case q4_1:
      return f(std::integral_constant<DType, q4_1>());
    case q5_0:
      return f(std::integral_constant<DType, q5_0>());
    case q5_1:
      return f(std::integral_constant<DType, q5_1>());
    case q4_k:
      return f(std::integral_constant<DType, q4_k>());
    case q5_k:
      return f(std::integral_constant<DType, q5_k>());
    case q6_k:
      return f(std::integral_constant<DType, q6_k>());
    case f32:
    case f16:
    case bf16:
      break;
  }
  LITHE_CHECK(!"not a quantised format");
  __builtin_unreachable();
}

constexpr bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace lithe::kernels
