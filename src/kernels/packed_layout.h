// Where everything lies inside a panel, as constants that the packer, the reference and the vector kernels share.
//
// A panel of a quantised matrix is one linear stream of groups, because decoding reads every byte once and a hardware
// prefetcher follows one stream best. A group is a header of scales and then its blocks of 32 columns:
//
//   q8_0 q4_0 q5_0 iq4_nl   group = 2 blocks: d f16[2][16]; per block: body
//   mxfp4                   group = 4 blocks: e8m0 u8[4][16]; per block: body
//   q4_1 q5_1               group = 1 block:  d f16[16], m f16[16]; body
//   q4_k q5_k               group = 256 cols: d f16[16], dmin f16[16]; scale u8[8][16]; min u8[8][16]; 8 x body
//   q2_k                    group = 256 cols: d f16[16], dmin f16[16]; u8[8][16][2]: scale, above it min; 8 x body
//   q6_k                    group = 512 cols: d f16[2][16]; per super-block: scale s8[16][16]; 8 x body
//   q3_k                    group = 512 cols: d f16[2][16]; per super-block: scale s8[8][16][2]; 8 x body
//   iq4_xs                  group = 512 cols: d f16[2][16]; per super-block: scale s8[8][16]; 8 x body
//   tq1_0 tq2_0             group = 512 cols: d f16[2][16]; per super-block: 8 x body
//
//   body of a block    8-bit      u8[8 quads][16 rows][4]: code + 128
//                      4-bit      u8[4][16][4]: low nibble = quad i, high nibble = quad i + 4
//                      5-bit      the 4-bit body, then u8[16][4]: bit q = bit 4 of quad q's code
//                      6-bit      the 4-bit body, then u8[2][16][4]: bits 2i, 2i+1 of plane h = bits 4, 5 of quad 4h + i
//                      2-bit      u8[2][16][4]: bits 2i, 2i+1 of plane h = quad 4h + i
//                      3-bit      u8[3][16][4]: bits 0-2 and 3-5 of line i = quads 2i, 2i + 1; bits 6-7 of lines 0, 1 = the
//                                 low bits of quads 6, 7, whose third bits are bits 6 and 7 of line 2
//
// Quad q of a block is its columns 4q .. 4q + 3: a 32-bit lane holds four neighbouring columns of one row, which is
// what vpdpbusd and the NEON dot products consume. The last group of a row may be short; its header is not.
// The trits of tq1_0 are kept as two bits: a row takes what one of tq2_0 takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "tensor/block_format.h"
#include "tensor/block_layout.h"

namespace lithe::kernels {

inline constexpr int kBlockCols = 32;  // columns that share an activation scale
inline constexpr int kQuadsPerBlock = 8;
inline constexpr std::size_t kQuadBytes = 64;  // 16 rows x 4 columns

/// How a weight comes from its code.
enum class ScaleKind : std::uint8_t {
  none,
  simple,       // d (code - zero)
  with_min,     // d code + m
  k_with_min,   // d s code - dmin t, s and t per 32
  k_signed,     // d s (code - zero), s per 16
  k_signed_32,  // d s (code - zero), s per 32
  k_pairs,      // d s (code - zero), s per 16 and small enough for integer arithmetic
  k_pairs_min,  // d s code - dmin t, s and t per 16, likewise
  centred,      // d (code - 1)
  e8m0,         // 2^(e - 128) (code - zero)
};

/// What four stored bits stand for where they are no number themselves.
enum class Codebook : std::uint8_t { none, iq4, mxfp4 };

/// The layout of one quantised format. All byte counts are multiples of 64. "Code" is what products multiply: the stored
/// bits, or the codebook's value + zero().
struct PackedLayout {
  ScaleKind kind;
  int stored_bits;         // 8, 4, 5, 6, 2, 3
  int code_bits;           // of the code, rounded up to what the kernels distinguish: 8, 4, 5, 6
  int code_shift;          // symmetric formats: (code << shift) - 128 = signed code << shift
  int group_blocks;        // blocks of 32 in a group
  int super_blocks;        // blocks of 32 in what GGUF calls a block
  std::size_t header;      // bytes before the first super-block of a group
  std::size_t sub_header;  // bytes of scales before the bodies of a super-block
  std::size_t body;        // bytes of a block's codes
  Codebook codebook = Codebook::none;

  bool operator==(const PackedLayout&) const = default;
  constexpr bool has_min() const {
    return kind == ScaleKind::with_min || kind == ScaleKind::k_with_min || kind == ScaleKind::k_pairs_min ||
           kind == ScaleKind::centred;
  }
  /// A scale for each 16 columns, multiplied as integers or as floats.
  constexpr bool pairs() const { return kind == ScaleKind::k_pairs || kind == ScaleKind::k_pairs_min; }
  constexpr int halves() const { return pairs() || kind == ScaleKind::k_signed ? 2 : 1; }
  /// The code of weight 0, in formats without a minimum.
  constexpr int zero() const { return 128 >> code_shift; }
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
  /// Which row of the header, and of how many bytes, holds the (super-)scale of block b.
  constexpr std::size_t scale_row_bytes() const { return kind == ScaleKind::e8m0 ? 16 : 32; }
  constexpr int scale_row(std::int64_t b) const { return static_cast<int>(b % group_blocks / super_blocks); }
};

constexpr PackedLayout packed_layout(DType dtype) {
  using enum ScaleKind;
  switch (dtype) {
    case DType::q8_0:
      return {simple, 8, 8, 0, 2, 1, 64, 0, 512};
    case DType::q4_0:
      return {simple, 4, 4, 4, 2, 1, 64, 0, 256};
    case DType::q5_0:
      return {simple, 5, 5, 3, 2, 1, 64, 0, 320};
    case DType::q4_1:
      return {with_min, 4, 4, 0, 1, 1, 64, 0, 256};
    case DType::q5_1:
      return {with_min, 5, 5, 0, 1, 1, 64, 0, 320};
    case DType::q4_k:
      return {k_with_min, 4, 4, 0, 8, 8, 64, 256, 256};
    case DType::q5_k:
      return {k_with_min, 5, 5, 0, 8, 8, 64, 256, 320};
    case DType::q6_k:
      return {k_signed, 6, 6, 2, 16, 8, 64, 256, 384};
    case DType::q2_k:
      return {k_pairs_min, 2, 4, 0, 8, 8, 64, 256, 128};
    case DType::q3_k:
      return {k_pairs, 3, 4, 5, 16, 8, 64, 256, 192};
    case DType::iq4_nl:
      return {simple, 4, 8, 0, 2, 1, 64, 0, 256, Codebook::iq4};
    case DType::iq4_xs:
      return {k_signed_32, 4, 8, 0, 16, 8, 64, 128, 256, Codebook::iq4};
    case DType::tq1_0:
    case DType::tq2_0:
      return {centred, 2, 4, 0, 16, 8, 64, 0, 128};
    case DType::mxfp4:
      return {e8m0, 4, 5, 3, 4, 1, 64, 0, 256, Codebook::mxfp4};
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      break;
  }
  return {none, 0, 0, 0, 1, 1, 0, 0, 0};
}

/// The value behind four stored bits, as an integer code.
constexpr int codebook_code(const PackedLayout& layout, unsigned bits) {
  return (layout.codebook == Codebook::iq4 ? kIq4Values : kMxfp4Values)[bits] + layout.zero();
}

/// The first type with the layout of each type: types that share one share their kernels.
inline constexpr auto kKernelTypes = [] {
  std::array<DType, kDTypeCount> types{};
  for (int i = 0; i < kDTypeCount; ++i) {
    int first = 0;
    while (!(packed_layout(static_cast<DType>(first)) == packed_layout(static_cast<DType>(i)))) ++first;
    types[static_cast<std::size_t>(i)] = static_cast<DType>(first);
  }
  return types;
}();

template <int kCandidate, typename F>
decltype(auto) dispatch_kernel_type(DType type, F&& f) {
  constexpr auto kType = static_cast<DType>(kCandidate);
  if constexpr (kCandidate + 1 == kDTypeCount) {
    LITHE_CHECK(type == kType);
    return f(std::integral_constant<DType, kType>());
  } else {
    if constexpr (packed_layout(kType).kind != ScaleKind::none && kKernelTypes[kCandidate] == kType) {
      if (type == kType) return f(std::integral_constant<DType, kType>());
    }
    return dispatch_kernel_type<kCandidate + 1>(type, static_cast<F&&>(f));
  }
}

/// f(integral_constant<DType, ...>) with the kernel type of a quantised format.
template <typename F>
decltype(auto) dispatch_quantized(DType dtype, F&& f) {
  return dispatch_kernel_type<0>(kKernelTypes[static_cast<std::size_t>(dtype)], static_cast<F&&>(f));
}

constexpr bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace lithe::kernels
