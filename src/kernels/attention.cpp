#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cpp"
#include "kernels/simd_targets.h"

#include <hwy/foreach_target.h>

#include "kernels/fill.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

void fill_attention(KernelTable& table) {
  fill_attention_reference(table);
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lithe::kernels {

LITHE_DEFINE_FILL(fill_attention)

}  // namespace lithe::kernels
#endif
