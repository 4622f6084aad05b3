// The register tile of the floating-point products: rows of x times vectors of weights, one FMA chain per output over
// the columns in order, whatever the tile. Per target: no classic include guard.
#include "kernels/matmul.h"
#include "kernels/panel-inl.h"

#if defined(LITHE_KERNELS_FLOAT_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_FLOAT_TILE_INL_H
#undef LITHE_KERNELS_FLOAT_TILE_INL_H
#else
#define LITHE_KERNELS_FLOAT_TILE_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

/// One tile's place. A step is one column (f32) or two (bf16): 4 bytes of a row of x, 64 bytes of a panel.
struct FloatTile {
  static constexpr int kMaxVecs = 16;
  const std::byte* weights[kMaxVecs];  // at the vector's lanes; step k at + k * weight_step
  OutputVector output[kMaxVecs];       // used when `last`
  const std::byte* x = nullptr;        // first row, first step
  std::size_t x_stride = 0;            // bytes between rows
  std::int64_t steps = 0;
  std::int64_t out_offset = 0, out_stride = 0;  // floats: the first row in the output, and from row to row
  float* sums = nullptr;  // partial sums between chunks, [rows][kSumsStride], vectors side by side
  bool accumulate = false, first = true, last = true;
};

/// acc += w * x for one step.
struct MultiplyF32 {
  HWY_INLINE VF operator()(VF acc, VF w, VF x) const { return hn::MulAdd(w, x, acc); }
};

/// Vectors as they lie in memory.
struct LoadPlain {
  static constexpr std::size_t kStep = 64;
  static constexpr int kSteps = 1;  // steps per load
  HWY_INLINE void operator()(const std::byte* p, VF (&w)[1]) const {
    w[0] = hn::Load(df, reinterpret_cast<const float*>(p));
  }
};

template <typename Load, typename Multiply, int kRows, int kVectors>
HWY_NOINLINE void float_tile(const FloatTile& tile) {
  constexpr int kSteps = Load::kSteps;
  VF acc[kRows][kVectors];
  const std::byte* w[kVectors];
  constexpr int kBases = (kRows + 2) / 3;  // one register for three rows: [p], [p + stride], [p + 2 stride]
  const std::byte* x[kBases];
  const std::size_t x_stride = tile.x_stride;
  unroll<kBases>([&](auto i) LITHE_SIMD { x[i] = opaque(tile.x + i * 3 * x_stride); });
  unroll<kVectors>([&](auto t) LITHE_SIMD {
    w[t] = tile.weights[t];
    unroll<kRows>([&](auto r) LITHE_SIMD {
      acc[r][t] = tile.first ? hn::Zero(df) : hn::LoadU(df, tile.sums + r * kSumsStride + t * kLanes);
    });
  });
  // Inside a line of x; the rows of the next tile come from L2 into L1 meanwhile, a line each.
  constexpr std::int64_t kLineSteps = 16;
  static_assert(kLineSteps % kSteps == 0);
  for (std::int64_t line = 0; line < tile.steps; line += kLineSteps) {
    unroll<kRows>([&](auto r) LITHE_SIMD { __builtin_prefetch(x[r / 3] + (r % 3 + kRows) * x_stride); });
    const std::int64_t end = HWY_MIN(line + kLineSteps, tile.steps);
    for (std::int64_t k = line; k < end; k += kSteps) {
      VF weights[kVectors][kSteps];
      unroll<kVectors>([&](auto t) LITHE_SIMD {
        if constexpr (kRows == 1) __builtin_prefetch(w[t] + kAhead / kVectors);
        Load()(w[t], weights[t]);
        w[t] += Load::kStep;
      });
      unroll<kSteps>([&](auto s) LITHE_SIMD {
        unroll<kRows>([&](auto r) LITHE_SIMD {
          const VF xr = hn::Set(df, load_float(x[r / 3] + r % 3 * x_stride + s * 4));
          unroll<kVectors>([&](auto t) LITHE_SIMD { acc[r][t] = Multiply()(acc[r][t], weights[t][s], xr); });
        });
      });
      unroll<kBases>([&](auto i) LITHE_SIMD { x[i] += kSteps * 4; });
    }
  }
  unroll<kRows>([&](auto r) LITHE_SIMD {
    unroll<kVectors>([&](auto t) LITHE_SIMD {
      if (tile.last) {
        finish_output(tile.output[t], tile.out_offset + r * tile.out_stride, tile.accumulate, acc[r][t]);
      } else {
        hn::StoreU(acc[r][t], df, tile.sums + r * kSumsStride + t * kLanes);
      }
    });
  });
}

#if HWY_TARGET == HWY_AVX3
inline constexpr int kFloatRows = 12;  // 12 x 2 accumulators of 32 registers
#else
inline constexpr int kFloatRows = 6;  // 6 x 2 of 16
#endif
inline constexpr int kFloatVecs = 2;

using FloatKernel = void (*)(const FloatTile&);
template <typename Load, typename Multiply, int kVectors, std::size_t... kRow>
constexpr std::array<FloatKernel, sizeof...(kRow)> float_kernels(std::index_sequence<kRow...>) {
  return {&float_tile<Load, Multiply, static_cast<int>(kRow) + 1, kVectors>...};
}

/// All `rows` rows from tile.x on, in tiles of nearly equal height.
template <typename Load, typename Multiply>
HWY_INLINE void float_tiles(FloatTile tile, std::int64_t rows) {
  static constexpr auto kKernels =
      float_kernels<Load, Multiply, kFloatVecs>(std::make_index_sequence<kFloatRows>());
  const std::int64_t tiles = (rows + kFloatRows - 1) / kFloatRows;
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t height = rows / tiles + (i < rows % tiles ? 1 : 0);
    kKernels[static_cast<std::size_t>(height - 1)](tile);
    tile.x += static_cast<std::size_t>(height) * tile.x_stride;
    tile.out_offset += height * tile.out_stride;
    tile.sums += height * kSumsStride;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_FLOAT_TILE_INL_H
