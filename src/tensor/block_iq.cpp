// Types that Lithe decodes and does not compute with: IQ1, IQ2 and IQ3, whose codes choose points of a grid, and the small
// Q1_0, Q2_0 and NVFP4. Layouts: docs/formats.md.
#include <bit>
#include <cmath>

#include "tensor/block_layout.h"
#include "tensor/codecs.h"
#include "tensor/iq_grids.h"
#include "tensor/super_block.h"

namespace lithe::codec {
namespace {

constexpr std::array<std::int8_t, 3> kIq2Levels = {8, 25, 43}, kIq1Levels = {-1, 0, 1};
constexpr std::array<std::int8_t, 8> kIq3XxsLevels = {4, 12, 20, 28, 36, 44, 52, 62},
                                     kIq3SLevels = {1, 3, 5, 7, 9, 11, 13, 15};

unsigned byte_at(const std::byte* p, int i) {
  return std::to_integer<unsigned>(p[i]);
}
template <typename T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Seven signs; the eighth makes their number even.
unsigned eight_signs(unsigned seven) {
  seven &= 127;
  return seven | (static_cast<unsigned>(std::popcount(seven)) & 1) << 7;
}

// values[j] = scale * point[j], negated where bit j of `signs` is set.
template <int kDigits>
void put_point(const std::int8_t* point, unsigned signs, float scale, float* values) {
  for (int j = 0; j < kDigits; ++j) {
    const float magnitude = scale * static_cast<float>(point[j]);
    values[j] = (signs >> j & 1) != 0 ? -magnitude : magnitude;
  }
}

float quarter_scale(float d, unsigned bits) {
  return d * (0.5f + static_cast<float>(bits)) * 0.25f;
}

// One value of an IQ1 type lies an eighth above or below each level.
void put_shifted(const std::int8_t* point, bool below, float scale, float* values) {
  const float shift = below ? -0.125f : 0.125f;
  for (int j = 0; j < 8; ++j) values[j] = scale * (static_cast<float>(point[j]) + shift);
}

const Grid<2048, 8>& iq1_grid() {
  static const Grid<2048, 8> grid(k_iq1_points, kIq1Levels);
  return grid;
}

}  // namespace

void decode_iq2_xxs(const std::byte* blocks, std::int64_t count, float* values) {
  static const Grid<256, 8> grid(k_iq2_xxs_points, kIq2Levels);
  for (; count > 0; count -= kSuper, blocks += 66) {
    const float d = load_f16(blocks);
    for (int group = 0; group < 8; ++group) {
      const std::byte* p = blocks + 2 + 8 * group;
      const auto rest = load<std::uint32_t>(p + 4);
      const float scale = quarter_scale(d, rest >> 28);
      for (int l = 0; l < 4; ++l, values += 8) {
        put_point<8>(grid[byte_at(p, l)], eight_signs(rest >> 7 * l), scale, values);
      }
    }
  }
}

void decode_iq2_xs(const std::byte* blocks, std::int64_t count, float* values) {
  static const Grid<512, 8> grid(k_iq2_xs_points, kIq2Levels);
  for (; count > 0; count -= kSuper, blocks += 74) {
    const float d = load_f16(blocks);
    for (int i = 0; i < 32; ++i, values += 8) {
      const auto code = load<std::uint16_t>(blocks + 2 + 2 * i);
      const float scale = quarter_scale(d, byte_at(blocks, 66 + i / 4) >> i / 2 % 2 * 4 & 15);
      put_point<8>(grid[code & 511u], eight_signs(code >> 9), scale, values);
    }
  }
}

void decode_iq2_s(const std::byte* blocks, std::int64_t count, float* values) {
  static const Grid<1024, 8> grid(k_iq2_s_points, kIq2Levels);
  for (; count > 0; count -= kSuper, blocks += 82) {
    const float d = load_f16(blocks);
    for (int i = 0; i < 32; ++i, values += 8) {
      const unsigned code = byte_at(blocks, 2 + i) | (byte_at(blocks, 66 + i / 4) >> i % 4 * 2 & 3) << 8;
      const float scale = quarter_scale(d, byte_at(blocks, 74 + i / 4) >> i / 2 % 2 * 4 & 15);
      put_point<8>(grid[code], byte_at(blocks, 34 + i), scale, values);
    }
  }
}

void decode_iq3_xxs(const std::byte* blocks, std::int64_t count, float* values) {
  static const Grid<256, 4> grid(k_iq3_xxs_points, kIq3XxsLevels);
  for (; count > 0; count -= kSuper, blocks += 98) {
    const float d = load_f16(blocks);
    for (int group = 0; group < 8; ++group) {
      const auto rest = load<std::uint32_t>(blocks + 66 + 4 * group);
      const float scale = d * (0.5f + static_cast<float>(rest >> 28)) * 0.5f;
      for (int i = 0; i < 8; ++i, values += 4) {
        const unsigned signs = eight_signs(rest >> i / 2 * 7) >> i % 2 * 4;
        put_point<4>(grid[byte_at(blocks, 2 + 8 * group + i)], signs, scale, values);
      }
    }
  }
}

void decode_iq3_s(const std::byte* blocks, std::int64_t count, float* values) {
  static const Grid<512, 4> grid(k_iq3_s_points, kIq3SLevels);
  for (; count > 0; count -= kSuper, blocks += 110) {
    const float d = load_f16(blocks);
    for (int i = 0; i < 64; ++i, values += 4) {
      const unsigned code = byte_at(blocks, 2 + i) | (byte_at(blocks, 66 + i / 8) >> i % 8 & 1) << 8;
      const unsigned bits = byte_at(blocks, 106 + i / 16) >> i / 8 % 2 * 4 & 15;
      const float scale = d * static_cast<float>(1 + 2 * bits);
      put_point<4>(grid[code], byte_at(blocks, 74 + i / 2) >> i % 2 * 4, scale, values);
    }
  }
}

void decode_iq1_s(const std::byte* blocks, std::int64_t count, float* values) {
  const Grid<2048, 8>& grid = iq1_grid();
  for (; count > 0; count -= kSuper, blocks += 50) {
    const float d = load_f16(blocks);
    for (int i = 0; i < 32; ++i, values += 8) {
      const unsigned high = load<std::uint16_t>(blocks + 34 + i / 4 * 2);
      const unsigned code = byte_at(blocks, 2 + i) | (high >> i % 4 * 3 & 7) << 8;
      put_shifted(grid[code], (high & 0x8000) != 0, d * static_cast<float>(2 * (high >> 12 & 7) + 1), values);
    }
  }
}

// The scale of the super-block is spread over the top four bits of the four words of scales.
void decode_iq1_m(const std::byte* blocks, std::int64_t count, float* values) {
  const Grid<2048, 8>& grid = iq1_grid();
  for (; count > 0; count -= kSuper, blocks += 56) {
    unsigned bits = 0, scales[4];
    for (int i = 0; i < 4; ++i) {
      scales[i] = load<std::uint16_t>(blocks + 48 + 2 * i);
      bits |= scales[i] >> 12 << 4 * i;
    }
    const float d = f16_to_f32(static_cast<std::uint16_t>(bits));
    for (int i = 0; i < 32; ++i, values += 8) {
      const unsigned high = byte_at(blocks, 32 + i / 2) >> i % 2 * 4;
      const float scale = d * static_cast<float>(2 * (scales[i / 8] >> i / 2 % 4 * 3 & 7) + 1);
      put_shifted(grid[byte_at(blocks, i) | (high & 7) << 8], (high & 8) != 0, scale, values);
    }
  }
}

void decode_q1_0(const std::byte* blocks, std::int64_t count, float* values) {
  for (; count > 0; count -= 128, values += 128, blocks += 18) {
    const float d = load_f16(blocks);
    for (int i = 0; i < 128; ++i) values[i] = (byte_at(blocks, 2 + i / 8) >> i % 8 & 1) != 0 ? d : -d;
  }
}

void decode_q2_0(const std::byte* blocks, std::int64_t count, float* values) {
  for (; count > 0; count -= 64, values += 64, blocks += 18) {
    const float d = load_f16(blocks);
    for (int i = 0; i < 64; ++i) {
      const auto code = static_cast<int>(byte_at(blocks, 2 + i / 4) >> i % 4 * 2 & 3);
      values[i] = static_cast<float>(code - 1) * d;
    }
  }
}

// A scale is half of an unsigned float of four bits of exponent and three of mantissa; its NaN counts as 0.
void decode_nvfp4(const std::byte* blocks, std::int64_t count, float* values) {
  for (; count > 0; count -= 64, values += 64, blocks += 36) {
    for (int i = 0; i < 64; ++i) {
      const unsigned bits = byte_at(blocks, i / 16), exponent = bits >> 3 & 15, mantissa = bits & 7;
      const float scale = bits == 127 ? 0.0f
                          : exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -10)
                              : std::ldexp(static_cast<float>(8 + mantissa), static_cast<int>(exponent) - 11);
      const unsigned pair = byte_at(blocks, 4 + i / 16 * 8 + i % 8);
      values[i] = static_cast<float>(kMxfp4Values[pair >> i % 16 / 8 * 4 & 15]) * scale;
    }
  }
}

}  // namespace lithe::codec
