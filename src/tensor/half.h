// Scalar conversions between float and the two 16-bit formats; the reference for every vector one.
#pragma once

#include <bit>
#include <cstdint>

namespace lithe {

inline float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Round to nearest even; NaN stays a (quiet) NaN.
inline std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

float f16_to_f32(std::uint16_t bits);

/// Round to nearest even; overflow becomes infinity, as the hardware's conversion does.
std::uint16_t f32_to_f16(float value);

}  // namespace lithe
