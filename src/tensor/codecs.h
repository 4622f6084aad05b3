// The encoders and decoders behind the table of block_format.cpp: internal to src/tensor.
// Contracts as in BlockFormat. Layouts: docs/formats.md.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/half.h"

namespace lithe::codec {

static_assert(std::endian::native == std::endian::little,
              "GGUF blocks are little-endian and are read in place");

#define LITHE_DECLARE_CODEC(name)                                              \
  void encode_##name(const float* values, std::int64_t count, std::byte* out); \
  void decode_##name(const std::byte* blocks, std::int64_t count, float* values)
LITHE_DECLARE_CODEC(f32);
LITHE_DECLARE_CODEC(f16);
LITHE_DECLARE_CODEC(bf16);
LITHE_DECLARE_CODEC(q8_0);
LITHE_DECLARE_CODEC(q4_0);
LITHE_DECLARE_CODEC(q4_1);
LITHE_DECLARE_CODEC(q5_0);
LITHE_DECLARE_CODEC(q5_1);
LITHE_DECLARE_CODEC(q4_k);
LITHE_DECLARE_CODEC(q5_k);
LITHE_DECLARE_CODEC(q6_k);
LITHE_DECLARE_CODEC(q2_k);
LITHE_DECLARE_CODEC(q3_k);
LITHE_DECLARE_CODEC(iq4_nl);
LITHE_DECLARE_CODEC(iq4_xs);
LITHE_DECLARE_CODEC(tq1_0);
LITHE_DECLARE_CODEC(tq2_0);
LITHE_DECLARE_CODEC(mxfp4);
#undef LITHE_DECLARE_CODEC

#define LITHE_DECLARE_DECODER(name) \
  void decode_##name(const std::byte* blocks, std::int64_t count, float* values)
LITHE_DECLARE_DECODER(iq1_s);
LITHE_DECLARE_DECODER(iq1_m);
LITHE_DECLARE_DECODER(iq2_xxs);
LITHE_DECLARE_DECODER(iq2_xs);
LITHE_DECLARE_DECODER(iq2_s);
LITHE_DECLARE_DECODER(iq3_xxs);
LITHE_DECLARE_DECODER(iq3_s);
LITHE_DECLARE_DECODER(q1_0);
LITHE_DECLARE_DECODER(q2_0);
LITHE_DECLARE_DECODER(nvfp4);
#undef LITHE_DECLARE_DECODER

inline float load_f16(const std::byte* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return f16_to_f32(bits);
}

inline void store_f16(std::byte* at, float value) {
  const std::uint16_t bits = f32_to_f16(value);
  std::memcpy(at, &bits, sizeof bits);
}

/// 1 / x, or 0 where that is not a finite number (x = 0, or so small that its f16 is 0 anyway).
inline float reciprocal_or_zero(float x) {
  const float inverse = 1.0f / x;
  return inverse - inverse == 0.0f ? inverse : 0.0f;
}

/// The nearest integer, ties to even, of a value within [low, high]; what lies outside, and NaN, is clamped
/// first. Adding 1.5 * 2^23 leaves the rounded integer in the low bits of the float: unlike lrintf it
/// vectorises on every ISA.
inline int round_clamped(float value, float low, float high) {
  value = value > low ? value : low;
  value = value < high ? value : high;
  return std::bit_cast<std::int32_t>(value + 0x1.8p23f) - std::bit_cast<std::int32_t>(0x1.8p23f);
}

}  // namespace lithe::codec
