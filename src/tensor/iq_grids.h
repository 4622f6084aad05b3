// The grids of GGUF's IQ types: internal to src/tensor.
//
// A grid lists points of 8 coordinates with 3 levels each, or of 4 with 8 levels, in ascending order of the number that
// the levels are the digits of, the first the lowest. So it is kept as a set of bits: bit k, where k is a point.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lithe::codec {

extern const std::array<std::uint64_t, 103> k_iq2_xxs_points, k_iq2_xs_points, k_iq2_s_points, k_iq1_points;
extern const std::array<std::uint64_t, 64> k_iq3_xxs_points, k_iq3_s_points;

/// The coordinates of `kCount` points.
template <int kCount, int kDigits>
struct Grid {
  std::array<std::array<std::int8_t, kDigits>, kCount> points{};

  template <std::size_t kWords, std::size_t kLevels>
  Grid(const std::array<std::uint64_t, kWords>& bits, const std::array<std::int8_t, kLevels>& levels) {
    std::size_t count = 0;
    for (std::size_t k = 0; k < kWords * 64; ++k) {
      if ((bits[k / 64] >> k % 64 & 1) == 0) continue;
      std::size_t rest = k;
      for (std::int8_t& value : points[count]) {
        value = levels[rest % kLevels];
        rest /= kLevels;
      }
      ++count;
    }
  }
  const std::int8_t* operator[](std::size_t i) const { return points[i].data(); }
};

}  // namespace lithe::codec
