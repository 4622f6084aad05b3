#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cpp"
#include "kernels/simd_targets.h"

#include <hwy/foreach_target.h>

#include "kernels/fill.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

void matmul_int8(const MatmulJob& job);
std::size_t int8_scratch_bytes();

namespace {

void matmul(const MatmulJob& job) {
  switch (job.x.arithmetic) {
    case Arithmetic::int8: return matmul_int8(job);
    case Arithmetic::bf16:
    case Arithmetic::f32: return kernel_table(Isa::reference).value()->matmul(job);
  }
}

}  // namespace

void fill_matmul(KernelTable& table) {
  fill_matmul_reference(table);
  table.matmul = matmul;
  table.matmul_scratch_bytes = int8_scratch_bytes;
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lithe::kernels {

LITHE_DEFINE_FILL(fill_matmul)

}  // namespace lithe::kernels
#endif
