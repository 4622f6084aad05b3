// The tables and bit fields of block formats that both the scalar decoders and the packer of the kernels read.
// Layouts: docs/formats.md.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace lithe {

/// The values that the four bits of IQ4_NL and IQ4_XS choose from.
inline constexpr std::array<std::int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};
/// MXFP4: twice the values of E2M1, so that they are integers. 8 is minus zero.
inline constexpr std::array<std::int8_t, 16> kMxfp4Values = {0, 1,  2,  3,  4,  6,  8,  12,
                                                             0, -1, -2, -3, -4, -6, -8, -12};

/// Half the scale that an E8M0 exponent stands for, 2^(e - 128), to go with kMxfp4Values. Finite for every e; the least
/// two are subnormal.
inline float e8m0_half(std::uint8_t e) {
  return std::bit_cast<float>(e < 2 ? std::uint32_t{0x00200000} << e : (std::uint32_t{e} - 1) << 23);
}

/// Scale j of the 16 that Q3_K packs into 12 bytes, -32 to 31: the low four bits in byte j mod 8 (upper half from j = 8
/// on), the high two in byte 8 + j mod 4 at bit 2 (j div 4).
inline int q3_k_scale(const std::byte* scales, int j) {
  const int low = std::to_integer<int>(scales[j % 8]) >> j / 8 * 4 & 15;
  return (low | (std::to_integer<int>(scales[8 + j % 4]) >> j / 4 * 2 & 3) << 4) - 32;
}

/// Scale j of the 8 of an IQ4_XS block, -32 to 31: the low four bits in byte 4 + j div 2, the high two at bit 2 j of the
/// u16 at byte 2.
inline int iq4_xs_scale(const std::byte* block, int j) {
  const int low = std::to_integer<int>(block[4 + j / 2]) >> j % 2 * 4 & 15;
  return (low | (std::to_integer<int>(block[2 + j / 4]) >> j % 4 * 2 & 3) << 4) - 32;
}

/// Which values byte `at` of a TQ1_0 block (0 to 51) holds: first, first + stride, ..., the first as its leading trit.
struct TritByte {
  int first, stride, count;
};
constexpr TritByte trit_byte(int at) {
  if (at < 32) return {at, 32, 5};
  if (at < 48) return {160 + at - 32, 16, 5};
  return {240 + at - 48, 4, 4};
}

/// The 256 codes (0 to 2) of a TQ1_0 block. A byte is a fraction of 256: times 3 its trits come out one by one.
inline void unpack_trits(const std::byte* block, std::uint8_t* codes) {
  for (int at = 0; at < 52; ++at) {
    const TritByte byte = trit_byte(at);
    auto rest = std::to_integer<unsigned>(block[at]);
    for (int n = 0; n < byte.count; ++n) {
      codes[byte.first + n * byte.stride] = static_cast<std::uint8_t>(rest * 3 >> 8);
      rest = rest * 3 & 255;
    }
  }
}

}  // namespace lithe
