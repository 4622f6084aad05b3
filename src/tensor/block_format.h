// The tables of storage formats: one row each. A new format is one row here plus its kernels, nothing else; tests loop
// over all rows. Formats that Lithe decodes and does not run have a table of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace lithe {

enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k,
  q2_k,
  q3_k,
  iq4_nl,
  iq4_xs,
  tq1_0,
  tq2_0,
  mxfp4
};
inline constexpr int kDTypeCount = 18;

/// One storage format. Encode and decode are scalar, exact and slow: the reference that every kernel is
/// tested against. Bit layouts follow GGUF (docs/formats.md).
struct BlockFormat {
  DType dtype;              // of a decode-only format: the near one that its matrices run as
  std::string_view name;    // "q4_0": our spelling in flags and tables; compared without case
  std::uint32_t gguf_id;    // the number in a GGUF tensor info
  int block_elems;          // values per block; 1 for the float types
  int block_bytes;          // bytes per block
  std::uint32_t file_type;  // GGUF's general.file_type of a model that is mostly of this format
  DType fallback;           // what a row is stored as where the block does not divide it
  /// values: [count], count a multiple of block_elems, finite. out: count / block_elems * block_bytes bytes.
  /// Null: decode-only.
  void (*encode)(const float* values, std::int64_t count, std::byte* out);
  /// blocks: count / block_elems * block_bytes bytes. values: [count].
  void (*decode)(const std::byte* blocks, std::int64_t count, float* values);

  double bits_per_weight() const { return 8.0 * block_bytes / block_elems; }
  bool quantized() const { return block_elems > 1; }
  bool decode_only() const { return encode == nullptr; }
};

std::span<const BlockFormat> block_formats();  // those that run, in the order of DType
std::span<const BlockFormat> decode_only_formats();
const BlockFormat& block_format(DType dtype);
const BlockFormat* find_format(std::string_view name);        // of those that run; nullptr: no such name
const BlockFormat* find_format_by_gguf_id(std::uint32_t id);  // of both tables; nullptr: not one of ours

/// Bytes of one row of `cols` values, or nothing if cols is no multiple of the block or the size overflows.
std::optional<std::uint64_t> row_bytes(const BlockFormat& format, std::uint64_t cols);
std::optional<std::uint64_t> row_bytes(DType dtype, std::uint64_t cols);

}  // namespace lithe
