// The register tiles of the int8 product: formats with a scale per 32 columns.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/int8_tile.cpp"
#include "kernels/simd_targets.h"

#include <hwy/foreach_target.h>

#include "kernels/int8_tile_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

const Int8TileKernel* int8_tile_kernels(DType dtype) {
  return dispatch_quantized(dtype, [](auto type) -> const Int8TileKernel* {
    if constexpr (packed_layout(type).halves() == 1) {
      return kernels_of_kind<kCodeKind<type>>();
    } else {
      return nullptr;
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();
