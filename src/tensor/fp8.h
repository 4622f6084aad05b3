// The two 8-bit float formats of checkpoints, decoded exactly. Encoding is nobody's business here.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace lithe {

/// One sign bit, `kExponentBits` and the rest mantissa, both formats with IEEE's meaning of subnormal numbers.
template <int kExponentBits>
inline float fp8_finite_to_f32(std::uint8_t bits) {
  constexpr int kMantissaBits = 7 - kExponentBits, kBias = (1 << (kExponentBits - 1)) - 1;
  const std::uint32_t sign = std::uint32_t{bits & 0x80u} << 24;
  const std::uint32_t exponent = (bits & 0x7fu) >> kMantissaBits;
  const std::uint32_t mantissa = bits & ((1u << kMantissaBits) - 1);
  if (exponent != 0) {
    return std::bit_cast<float>(sign | (exponent + 127 - kBias) << 23 | mantissa << (23 - kMantissaBits));
  }
  const float unit = std::bit_cast<float>(std::uint32_t{127 + 1 - kBias - kMantissaBits} << 23);
  const float value = static_cast<float>(mantissa) * unit;
  return sign != 0 ? -value : value;
}

/// F8_E4M3 of safetensors, PyTorch's float8_e4m3fn: no infinities, 0x7f and 0xff are NaN, the largest is 448.
inline float f8_e4m3_to_f32(std::uint8_t bits) {
  if ((bits & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  return fp8_finite_to_f32<4>(bits);
}

/// F8_E5M2: infinities and NaN as IEEE has them, the largest is 57344.
inline float f8_e5m2_to_f32(std::uint8_t bits) {
  const int magnitude = bits & 0x7f;
  if (magnitude > 0x7c) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude == 0x7c)
    return bits == 0x7c ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
  return fp8_finite_to_f32<5>(bits);
}

}  // namespace lithe
