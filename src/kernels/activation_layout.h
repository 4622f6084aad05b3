// How activations lie in memory between prepare() and matmul(): the same on every ISA, row by row.
//
//   f32    float[cols]
//   bf16   u16[cols rounded up to even], the odd one zero
//   int8   per block of 32 columns: s8[32] codes, then Int8Params; after the last block s32[2 * blocks]: half_init,
//          s16[2 * blocks]: pair_sums
//
// A row's bytes are an odd multiple of 64, so that the rows of a tile never fall into the same set of a cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.h"
#include "kernels/packed_layout.h"

namespace lithe::kernels {

/// Symmetric int8 activations, a scale per block of 32: x = scale * code.
///
/// Integer sums become floats without a conversion. An accumulator that starts at the bits of 1.5 * 2^23 and gathers
/// an integer sum t, |t| < 2^22, is the float C + t. One FMA gives round(t * scale) = fma(C + t, scale, -C * scale),
/// because C * scale is exact: prepare() rounds scale to 22 bits. It replaces a conversion and a multiplication.
/// Codes of symmetric weights are kept as unsigned bytes c = signed + 128; starting at C - 128 * sum takes it off.
struct Int8Params {
  std::int32_t init;  // bits(C) - 128 * (sum of the 32 codes)
  float scale;  // absmax / 127, rounded to 22 bits; 0 for a block of zeros, NaN for one that is not finite
  float minus_c_scale;  // -C * scale
  float scaled_sum;     // scale * (sum of the 32 codes): what a format's minimum is multiplied by
};
static_assert(sizeof(Int8Params) == 16);

inline constexpr std::int32_t kMagicBits = 0x4b400000;  // 1.5 * 2^23
inline constexpr float kMagic = 12582912.0f;
inline constexpr std::size_t kInt8BlockBytes = 32 + sizeof(Int8Params);

/// Magnitudes outside [2^-100, 2^100] are no activations: below they count as zero, above as overflow (NaN).
inline constexpr float kInt8Smallest = 0x1p-100f, kInt8Largest = 0x1p100f;

/// The row's s32[2 * blocks]: bits(C) - 128 * (sum of 16 codes), for the format with a scale per 16 (q6_k).
constexpr std::size_t half_init_offset(std::int64_t cols) {
  return static_cast<std::size_t>(cols / kBlockCols) * kInt8BlockBytes;
}

/// The row's s16[2 * blocks]: -kPairFactor * (sum of 16 codes), for the formats whose scales per 16 are integers. q3_k
/// multiplies them by its scales: its zero is code 4. q2_k by its minima, and divides by the factor again.
inline constexpr int kPairFactor = 4;
static_assert(kPairFactor == packed_layout(DType::q3_k).zero());
constexpr std::size_t pair_sums_offset(std::int64_t cols) {
  return half_init_offset(cols) + static_cast<std::size_t>(cols / kBlockCols) * 2 * sizeof(std::int32_t);
}

constexpr std::size_t activation_row_bytes(Arithmetic arithmetic, std::int64_t cols) {
  const auto n = static_cast<std::size_t>(cols);
  std::size_t bytes = n * 4;
  if (arithmetic == Arithmetic::bf16) bytes = (n + 1) / 2 * 4;
  if (arithmetic == Arithmetic::int8)
    bytes = pair_sums_offset(cols) + n / kBlockCols * 2 * sizeof(std::int16_t);
  return ((bytes + 63) / 64 | 1) * 64;
}

}  // namespace lithe::kernels
