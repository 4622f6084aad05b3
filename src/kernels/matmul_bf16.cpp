// bf16 weights times bf16 activations with vdpbf16ps, where the CPU has it: two columns a step, summed in f32.
// One instruction per output and step, in order, whatever the tile: promise 1 as in matmul_float.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_bf16.cpp"
#define LITHE_MORE_AVX512 ",avx512bf16"
#include "kernels/simd_targets.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/matmul.h"

#include "kernels/float_tile-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kChunk = 256;  // steps: two panels of them are 32 KB
constexpr int kGroup = 8;             // panels that pass while a chunk of x stays in L2
constexpr int kOneRowPanels = 8;

struct MultiplyBf16 {
  HWY_INLINE VF operator()(VF acc, VF w, VF x) const {
    return VF{
        _mm512_dpbf16_ps(acc.raw, reinterpret_cast<__m512bh>(w.raw), reinterpret_cast<__m512bh>(x.raw))};
  }
};

FloatTile first_tile(const MatmulJob& job, std::int64_t row) {
  FloatTile tile = {};
  tile.x = job.x.data + static_cast<std::size_t>(row) * job.x.row_bytes;
  tile.x_stride = job.x.row_bytes;
  tile.out_offset = row * job.out_stride;
  tile.out_stride = job.out_stride;
  tile.accumulate = job.accumulate;
  return tile;
}

void place(const MatmulJob& job, std::int64_t p, int panels, std::int64_t step, FloatTile* tile) {
  for (int i = 0; i < panels; ++i) {
    tile->weights[i] = job.weights.panel(p + i) + step * 64;
    tile->output[i] = output_vector(job, p + i, 0);
  }
}

void one_row(const MatmulJob& job) {
  FloatTile tile = first_tile(job, job.row_begin);
  tile.steps = (job.weights.cols + 1) / 2;
  std::int64_t p = job.panel_begin;
  for (; p + kOneRowPanels <= job.panel_end; p += kOneRowPanels) {
    place(job, p, kOneRowPanels, 0, &tile);
    float_tile<LoadPlain, MultiplyBf16, 1, kOneRowPanels>(tile);
  }
  for (; p < job.panel_end; ++p) {
    place(job, p, 1, 0, &tile);
    float_tile<LoadPlain, MultiplyBf16, 1, 1>(tile);
  }
}

}  // namespace

void matmul_bf16(const MatmulJob& job) {
  if (job.row_end - job.row_begin == 1) return one_row(job);
  const std::int64_t steps = (job.weights.cols + 1) / 2;
  auto* const sums = reinterpret_cast<float*>(job.scratch.data());
  for (std::int64_t r = job.row_begin; r < job.row_end; r += kMaxBlockRows) {
    const std::int64_t rows = std::min(kMaxBlockRows, job.row_end - r);
    for (std::int64_t g = job.panel_begin; g < job.panel_end; g += kGroup) {
      const std::int64_t g_end = std::min<std::int64_t>(g + kGroup, job.panel_end);
      for (std::int64_t k = 0; k < steps; k += kChunk) {
        FloatTile tile = first_tile(job, r);
        tile.x += k * 4;
        tile.steps = std::min(kChunk, steps - k);
        tile.first = k == 0;
        tile.last = k + tile.steps == steps;
        tile.sums_stride = kGroup * kPanelRows;
        for (std::int64_t p = g; p < g_end; p += kFloatVecs) {
          const int panels = static_cast<int>(std::min<std::int64_t>(kFloatVecs, g_end - p));
          place(job, p, panels, k, &tile);
          tile.sums = sums + (p - g) * kPanelRows;
          float_tiles<LoadPlain, MultiplyBf16>(tile, panels, rows);
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();
#endif
