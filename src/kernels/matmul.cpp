// Which matrix product serves which pair of weights and activations, on each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cpp"
#include "kernels/simd_targets.h"

#include <hwy/foreach_target.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/activation_layout.h"
#include "kernels/fill.h"

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

// Each in a file of its name.
void prepare(Arithmetic arithmetic, const float* x, std::int64_t stride, std::int64_t rows, std::int64_t cols,
             std::byte* out);
void matmul_int8(const MatmulJob& job);
void matmul_float(const MatmulJob& job);
void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda, const float* b,
           std::int64_t ldb, float* c, std::int64_t ldc, bool accumulate, std::span<std::byte> scratch);
std::size_t int8_scratch_bytes();
std::size_t float_scratch_bytes();
#if HWY_TARGET == HWY_AVX3
void matmul_bf16(const MatmulJob& job);
#endif

namespace {

std::size_t matmul_scratch_bytes() {
  return std::max(int8_scratch_bytes(), float_scratch_bytes());
}

void matmul(const MatmulJob& job) {
  LITHE_CHECK(job.x.cols == job.weights.cols);
  if (job.row_begin >= job.row_end || job.panel_begin >= job.panel_end) return;
  switch (job.x.arithmetic) {
    case Arithmetic::int8:
      return matmul_int8(job);
    case Arithmetic::f32:
      return matmul_float(job);
    case Arithmetic::bf16:
      break;
  }
#if HWY_TARGET == HWY_AVX3
  LITHE_CHECK(job.weights.dtype == DType::bf16);
  matmul_bf16(job);
#else
  LITHE_CHECK(!"bf16 activations need a table with runs_bf16");
#endif
}

}  // namespace

void fill_matmul(KernelTable& table) {
  table.activation_bytes = activation_row_bytes;
  table.prepare = prepare;
  table.matmul_scratch_bytes = matmul_scratch_bytes;
  table.matmul = matmul;
  table.sgemm = sgemm;
#if HWY_TARGET == HWY_AVX3
  // Intel's cores run vdpbf16ps at half the rate of two f32 FMAs (their bf16 unit is AMX); AMD's at twice that.
  table.runs_bf16 = __builtin_cpu_supports("avx512bf16") != 0;
  table.has_bf16 = table.runs_bf16 && __builtin_cpu_is("amd") != 0;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lithe::kernels {

LITHE_DEFINE_FILL(fill_matmul)

}  // namespace lithe::kernels
#endif
