#include "kernels/kv_layout.h"

#include "base/check.h"
#include "base/checked.h"

namespace lithe::kernels {

KvLayout::KvLayout(const KvShape& shape) {
  const auto key_dim = static_cast<std::size_t>(shape.key_dim);
  const auto value_dim = static_cast<std::size_t>(shape.value_dim);
  constexpr std::size_t kAlign = 64;
  LITHE_CHECK(!shape.latent || shape.value_dim <= shape.key_dim);
  if (shape.dtype == DType::q8_0) {
    key_groups = ceil_div(shape.key_dim, 32);
    key_scales = ceil_div<std::size_t>(key_dim, 4) * 64;
    key_panel_bytes = round_up(key_scales + static_cast<std::size_t>(key_groups) * kKeyLanes * 2, kAlign);
    value_row_bytes = round_up<std::size_t>(value_dim, 16);
  } else {
    LITHE_CHECK(shape.dtype == DType::f32 || shape.dtype == DType::f16);
    const std::size_t size = shape.dtype == DType::f32 ? 4 : 2;
    key_panel_bytes = round_up(key_dim * kKeyLanes * size, kAlign);
    value_row_bytes = value_dim * size;
  }
  values = key_panel_bytes * kPagePanels;
  if (shape.latent) {
    value_row_bytes = 0;
    value_scales = head_bytes = values;
    return;
  }
  value_scales = values + round_up(value_row_bytes * kPageTokens, kAlign);
  head_bytes =
      value_scales + (shape.dtype == DType::q8_0 ? round_up<std::size_t>(kPageTokens * 2, kAlign) : 0);
}

std::size_t kv_layer_bytes(const KvShape& shape) {
  return KvLayout(shape).head_bytes * static_cast<std::size_t>(shape.kv_heads);
}

}  // namespace lithe::kernels
