// The register tile of the int8 product: see matmul_int8.cpp for the arithmetic. Per target: no classic include guard.
#include <array>

#include "kernels/int8_tile-inl.h"

#if defined(LITHE_KERNELS_INT8_TILE_KERNEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_INT8_TILE_KERNEL_INL_H
#undef LITHE_KERNELS_INT8_TILE_KERNEL_INL_H
#else
#define LITHE_KERNELS_INT8_TILE_KERNEL_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

template <CodeKind kKind, int kRows>
HWY_NOINLINE void tile_kernel(const Int8Tile& tile) {
  constexpr int kCols = kTile<kKind>.vecs;
  using In = Unpacked<kKind>;
  const std::size_t stride = tile.x_stride;
  float* const sums = tile.sums;
  VF acc[kRows][kCols];
  const std::byte* w[kCols];
  const std::byte* x[kRows];
  const std::byte* tail[kRows] = {};  // of formats with a scale per 16
  unroll<kRows>([&](auto r) LITHE_SIMD {
    unroll<kCols>([&](auto t) LITHE_SIMD {
      acc[r][t] = tile.first ? hn::Zero(df) : hn::LoadU(df, sums + r * kSumsStride + t * kLanes);
    });
    x[r] = opaque(tile.x + r * stride);
    if constexpr (kKind.halves == 2) tail[r] = opaque(tile.tail + r * stride);
  });
  unroll<kCols>([&](auto t) LITHE_SIMD { w[t] = tile.weights[t]; });
  for (std::int64_t b = 0; b < tile.blocks; ++b) {
    BlockDot<kKind> dots[kRows][kCols];
    VI init[kRows][kKind.halves];
    unroll<kRows>([&](auto r) LITHE_SIMD {
      __builtin_prefetch(x[r] + kRows * stride);  // the same block of the next tile: from L2 into L1 in time
      load_init<kKind>(x[r], tail[r], init[r]);
      unroll<kCols>([&](auto t) LITHE_SIMD { dots[r][t].begin(init[r]); });
    });
    unroll<8>([&](auto q) LITHE_SIMD {
      VU8 codes[kCols][kPlanes<kKind>];
      unroll<kCols>([&](auto t) LITHE_SIMD {
        unroll<kPlanes<kKind>>(
            [&](auto p) LITHE_SIMD { codes[t][p] = hn::Load(du8, as_u8(w[t] + p * 512 + q * 64)); });
      });
      unroll<kRows>([&](auto r) LITHE_SIMD {
        const auto xq = broadcast_quad(x[r] + q * 4);
        unroll<kCols>([&](auto t) LITHE_SIMD { dots[r][t].template add<q>(codes[t], xq); });
      });
    });
    unroll<kRows>([&](auto r) LITHE_SIMD {
      const std::byte* params = x[r] + kBlockCols;
      unroll<kCols>([&](auto t) LITHE_SIMD {
        acc[r][t] =
            add_block(acc[r][t], dots[r][t], init[r], params, tail[r], stored_dot_scales<kKind>(w[t]));
      });
    });
    unroll<kCols>([&](auto t) LITHE_SIMD { w[t] += In::kBytes; });
    unroll<kRows>([&](auto r) LITHE_SIMD {
      x[r] += kInt8BlockBytes;
      if constexpr (kKind.halves == 2) tail[r] += kTailBytes<kKind>;
    });
  }
  unroll<kRows>([&](auto r) LITHE_SIMD {
    unroll<kCols>([&](auto t) LITHE_SIMD { hn::StoreU(acc[r][t], df, sums + r * kSumsStride + t * kLanes); });
  });
}

template <CodeKind kKind, std::size_t... kRow>
constexpr std::array<Int8TileKernel, sizeof...(kRow)> kernels_of_kind(std::index_sequence<kRow...>) {
  return {&tile_kernel<kKind, static_cast<int>(kRow) + 1>...};
}
template <CodeKind kKind>
const Int8TileKernel* kernels_of_kind() {
  static constexpr auto kKernels =
      kernels_of_kind<tile_kind(kKind)>(std::make_index_sequence<kTile<kKind>.rows>());
  return kKernels.data();
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_INT8_TILE_KERNEL_INL_H
