// Counter-based random numbers: value i of stream s of a seed is a pure function, so a request's draws never
// depend on its neighbours or on how often somebody else drew.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), Philox4x32-10.
#pragma once

#include <array>
#include <cstdint>

namespace lithe {

/// The Philox4x32-10 block for (key, counter).
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 2> key, std::array<std::uint32_t, 4> counter);

/// A stream of one request: `seed` is the user's, `stream` tells its uses apart.
class Rng {
 public:
  explicit Rng(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  /// Jumps to draw number `index`: the next uniform() is that draw.
  void seek(std::uint64_t index) { index_ = index; }
  std::uint64_t next_u64();
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Standard normal (Box-Muller; two draws a value).
  double normal();

 private:
  std::uint64_t seed_, stream_, index_ = 0;
};

}  // namespace lithe
