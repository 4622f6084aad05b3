// The int8 product of a few rows: formats with super-blocks of 256.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_int8_few_k.cpp"
#include "kernels/simd_targets.h"

#include <hwy/foreach_target.h>

#include "kernels/matmul_int8_few-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

void matmul_int8_few_k(const MatmulJob& job) {
  fused_rows(job, [](const PackedLayout& layout) { return layout.super_blocks > 1; });
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();
