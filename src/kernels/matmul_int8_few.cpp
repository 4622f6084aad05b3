// The int8 product of a few rows: codes are unpacked into registers and meet every row at once. Decoding: one pass over
// memory. See matmul_int8.cpp for the arithmetic.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_int8_few.cpp"
#include "kernels/simd_targets.h"

#include <hwy/foreach_target.h>

#include "kernels/int8_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {
namespace {

/// One panel times kRows prepared rows at x, x + x_stride, ...
template <DType kType, int kRows>
HWY_INLINE void fused_panel(const MatmulJob& job, std::int64_t panel, std::int64_t row, const std::byte* x,
                            std::int64_t blocks) {
  constexpr CodeKind kKind = kCodeKind<kType>;
  constexpr PackedLayout kLayout = packed_layout(kType);
  const std::byte* weights = job.weights.panel(panel);
  const std::size_t x_stride = job.x.row_bytes;
  const std::size_t half_offset = half_init_offset(job.weights.cols);
  VF acc[kRows][kVecs];
  unroll<kRows>([&](auto r)
                    LITHE_SIMD { unroll<kVecs>([&](auto v) LITHE_SIMD { acc[r][v] = hn::Zero(df); }); });
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::byte* xb = x + static_cast<std::size_t>(b) * kInt8BlockBytes;
    const std::byte* body = weights + kLayout.body_at(b);
    unroll<kVecs>([&](auto v) LITHE_SIMD {
      BlockDot<kKind> dots[kRows];
      VI init[kRows][kKind.halves];
      unroll<kRows>([&](auto r) LITHE_SIMD {
        const auto* half = reinterpret_cast<const std::int32_t*>(x + r * x_stride + half_offset) +
                           2 * static_cast<std::size_t>(b);
        load_init<kKind>(xb + r * x_stride, half, init[r]);
        dots[r].begin(init[r]);
      });
      for_each_quad<kType, kUnpackShift<kKind>>(body, v, [&](auto q, VU8 codes) LITHE_SIMD {
        VU8 planes[kPlanes<kKind>];
        split_planes<kType>(codes, planes);
        unroll<kRows>([&](auto r) LITHE_SIMD {
          dots[r].template add<q>(planes, broadcast_quad(xb + r * x_stride + q * 4));
        });
      });
      const BlockScales scales = load_scales<kType>(weights, b, v);
      unroll<kRows>([&](auto r) LITHE_SIMD {
        const std::byte* params = xb + r * x_stride + kBlockCols;
        unroll<kKind.halves>([&](auto h) LITHE_SIMD {
          acc[r][v] = add_scaled(acc[r][v], dots[r].template finish<h>(init[r]), params, scales.scale[h]);
        });
        if constexpr (kKind.min) acc[r][v] = add_min(acc[r][v], params, scales.min);
      });
    });
  }
  const VF unshift = hn::Set(df, 1.0f / (1 << kKind.shift));
  unroll<kRows>([&](auto r) LITHE_SIMD {
    unroll<kVecs>([&](auto v) LITHE_SIMD {
      finish_output(output_vector(job, panel, v), (row + r) * job.out_stride, job.accumulate,
                    hn::Mul(acc[r][v], unshift));
    });
  });
}

template <DType kType, int kRows>
HWY_NOINLINE void fused(const MatmulJob& job, std::int64_t row) {
  const std::byte* x = job.x.data + static_cast<std::size_t>(row) * job.x.row_bytes;
  const std::int64_t blocks = job.weights.cols / kBlockCols;
  for (std::int64_t p = job.panel_begin; p < job.panel_end; ++p)
    fused_panel<kType, kRows>(job, p, row, x, blocks);
}

}  // namespace

void matmul_int8_few(const MatmulJob& job) {
  const std::int64_t rows = job.row_end - job.row_begin;
  dispatch_quantized(job.weights.dtype, [&](auto type) {
    unroll<kFusedRows>([&](auto r) LITHE_SIMD {
      if (rows == r + 1) fused<type, r + 1>(job, job.row_begin);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();
