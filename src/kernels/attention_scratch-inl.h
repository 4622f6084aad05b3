// How a worker's scratch is cut, and what a register tile is told of its lines. Per target, like simd-inl.h.
#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/attention.h"
#include "kernels/attention_tiles-inl.h"
#include "kernels/kv_layout.h"

#if defined(LITHE_KERNELS_ATTENTION_SCRATCH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_ATTENTION_SCRATCH_INL_H
#undef LITHE_KERNELS_ATTENTION_SCRATCH_INL_H
#else
#define LITHE_KERNELS_ATTENTION_SCRATCH_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

constexpr std::int64_t padded(std::int64_t dim) {
  return (dim + 15) / 16 * 16;
}
constexpr std::int64_t tiles(std::int64_t lines) {
  return (lines + kTileLines - 1) / kTileLines;
}

/// Parts of a worker's scratch, each a whole number of cache lines. Sizes are counted in floats, 16 a line.
class Carver {
 public:
  explicit Carver(std::span<std::byte> bytes) : at_(bytes.data()) {}
  /// Room for `count` numbers of type T.
  template <typename T = float>
  T* take(std::int64_t count) {
    T* const out = reinterpret_cast<T*>(at_);
    at_ += static_cast<std::size_t>(floats<T>(count)) * sizeof(float);
    return out;
  }
  template <typename T = float>
  static constexpr std::int64_t floats(std::int64_t count) {
    constexpr std::int64_t kFloat = sizeof(float), kOne = sizeof(T);
    return padded((count * kOne + kFloat - 1) / kFloat);
  }

 private:
  std::byte* at_;
};

inline State take_state(Carver& carver, std::int64_t lines, std::int64_t value_dim) {
  float* const max = carver.take(tiles(lines) * kLineSlots);
  float* const sum = carver.take(tiles(lines) * kLineSlots);
  return {max, sum, carver.take(lines * padded(value_dim)), padded(value_dim)};
}
inline std::int64_t state_floats(std::int64_t lines, std::int64_t value_dim) {
  return 2 * tiles(lines) * kLineSlots + lines * padded(value_dim);
}

inline State tile_of(const State& state, std::int64_t first_line) {
  const std::int64_t slot = first_line / kTileLines * kLineSlots;
  return {state.max + slot, state.sum + slot, state.output + first_line * state.stride, state.stride};
}

inline void clear(const State& state, std::int64_t lines) {
  std::fill(state.max, state.max + tiles(lines) * kLineSlots, kMinusInfinity);
  std::fill(state.sum, state.sum + tiles(lines) * kLineSlots, 0.0f);
  std::fill(state.output, state.output + lines * state.stride, 0.0f);
}

/// The parts of a register tile that lines go through, and where their results come out.
struct TileRange {
  std::int64_t line;                                // first line
  int count;                                        // lines, at most kTileLines
  std::int64_t begin[kTileLines], end[kTileLines];  // keys of the block that each sees; equal when none

  /// The keys that any of the lines sees, in whole panels; empty when none does.
  KeyRange panels() const {
    KeyRange keys{kKeyBlock, 0};
    for (int l = 0; l < count; ++l) {
      if (begin[l] == end[l]) continue;
      keys.begin = std::min(keys.begin, begin[l] / kKeyLanes * kKeyLanes);
      keys.end = std::max(keys.end, (end[l] + kKeyLanes - 1) / kKeyLanes * kKeyLanes);
    }
    return keys;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_ATTENTION_SCRATCH_INL_H
