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
constexpr int kOneRowPanels = 8;

struct MultiplyBf16 {
  HWY_INLINE VF operator()(VF acc, VF w, VF x) const {
#if HWY_COMPILER_CLANG
    // clang 16 dies of vectors of bf16 that it may load or broadcast as such: it sees none.
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc.raw) : "v"(w.raw), "v"(x.raw));
    return acc;
#else
    return VF{
        _mm512_dpbf16_ps(acc.raw, reinterpret_cast<__m512bh>(w.raw), reinterpret_cast<__m512bh>(x.raw))};
#endif
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

/// `count` panels from p on; those that the job lacks repeat the first one and are not written.
void place(const MatmulJob& job, std::int64_t p, std::int64_t end, int count, std::int64_t step,
           FloatTile* tile) {
  for (int i = 0; i < count; ++i) {
    const bool exists = p + i < end;
    tile->weights[i] = job.weights.panel(exists ? p + i : p) + step * 64;
    tile->output[i] = exists ? output_vector(job, p + i, 0) : OutputVector();
  }
}

void one_row(const MatmulJob& job) {
  FloatTile tile = first_tile(job, job.row_begin);
  tile.steps = (job.weights.cols + 1) / 2;
  for (std::int64_t p = job.panel_begin; p < job.panel_end; p += kOneRowPanels) {
    place(job, p, job.panel_end, kOneRowPanels, 0, &tile);
    float_tile<LoadPlain, MultiplyBf16, 1, kOneRowPanels>(tile);
  }
}

}  // namespace

void matmul_bf16(const MatmulJob& job) {
  if (job.row_end - job.row_begin == 1) return one_row(job);
  const std::int64_t steps = (job.weights.cols + 1) / 2;
  const std::int64_t block_rows = even_part(job.row_end - job.row_begin, kMaxBlockRows);
  auto* const sums = reinterpret_cast<float*>(job.scratch.data());
  for (std::int64_t r = job.row_begin; r < job.row_end; r += block_rows) {
    const std::int64_t rows = std::min(block_rows, job.row_end - r);
    for (std::int64_t g = job.panel_begin; g < job.panel_end; g += kGroupPanels) {
      const std::int64_t g_end = std::min<std::int64_t>(g + kGroupPanels, job.panel_end);
      for (std::int64_t k = 0; k < steps; k += kChunk) {
        FloatTile tile = first_tile(job, r);
        tile.x += k * 4;
        tile.steps = std::min(kChunk, steps - k);
        tile.first = k == 0;
        tile.last = k + tile.steps == steps;
        for (std::int64_t p = g; p < g_end; p += kFloatVecs) {
          place(job, p, g_end, kFloatVecs, k, &tile);
          tile.sums = sums + (p - g) * kPanelRows;
          float_tiles<LoadPlain, MultiplyBf16>(tile, rows);
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();
#endif
