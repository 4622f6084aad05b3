// The int8 product of a few rows: codes are unpacked into registers and meet every row at once. Decoding: one pass over
// memory. See matmul_int8.cpp for the arithmetic. Per target: no classic include guard.
#include "kernels/int8_tile-inl.h"

#if defined(LITHE_KERNELS_MATMUL_INT8_FEW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_MATMUL_INT8_FEW_INL_H
#undef LITHE_KERNELS_MATMUL_INT8_FEW_INL_H
#else
#define LITHE_KERNELS_MATMUL_INT8_FEW_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

/// One panel times kRows prepared rows at x, x + x_stride, ...
template <DType kType, int kRows>
HWY_INLINE void fused_panel(const MatmulJob& job, std::int64_t panel, std::int64_t row, const std::byte* x,
                            std::int64_t blocks) {
  constexpr CodeKind kKind = kCodeKind<kType>;
  constexpr PackedLayout kLayout = packed_layout(kType);
  const std::byte* weights = job.weights.panel(panel);
  const std::size_t x_stride = job.x.row_bytes;
  const std::int64_t cols = job.weights.cols;
  VF acc[kRows][kVecs];
  unroll<kRows>([&](auto r)
                    LITHE_SIMD { unroll<kVecs>([&](auto v) LITHE_SIMD { acc[r][v] = hn::Zero(df); }); });
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::byte* xb = x + static_cast<std::size_t>(b) * kInt8BlockBytes;
    const std::byte* body = weights + kLayout.body_at(b);
    ask_for<kLayout.group_bytes() / static_cast<std::size_t>(kLayout.group_blocks)>(body + kAhead);
    unroll<kVecs>([&](auto v) LITHE_SIMD {
      BlockDot<kKind> dots[kRows];
      VI init[kRows][kKind.halves];
      unroll<kRows>([&](auto r) LITHE_SIMD {
        load_init<kKind>(xb + r * x_stride, tail_of<kKind>(x + r * x_stride, cols, b), init[r]);
        dots[r].begin(init[r]);
      });
      for_each_planes<kType>(body, v, [&](auto q, const auto& planes) LITHE_SIMD {
        unroll<kRows>([&](auto r) LITHE_SIMD {
          dots[r].template add<q>(planes, broadcast_quad(xb + r * x_stride + q * 4));
        });
      });
      const auto scales = load_dot_scales<kType>(weights, b, v);
      unroll<kRows>([&](auto r) LITHE_SIMD {
        acc[r][v] = add_block(acc[r][v], dots[r], init[r], xb + r * x_stride + kBlockCols,
                              tail_of<kKind>(x + r * x_stride, cols, b), scales);
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

/// The kernels of the formats that Wanted names.
template <typename Wanted>
HWY_INLINE void fused_rows(const MatmulJob& job, Wanted) {
  const std::int64_t rows = job.row_end - job.row_begin;
  dispatch_quantized(job.weights.dtype, [&](auto type) {
    if constexpr (Wanted()(packed_layout(type))) {
      unroll<kFusedRows>([&](auto r) LITHE_SIMD {
        if (rows == r + 1) fused<type, r + 1>(job, job.row_begin);
      });
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_MATMUL_INT8_FEW_INL_H
