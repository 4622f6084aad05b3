// Storing keys and values with vector conversions: the bytes of reference_store. Per target.
#include <algorithm>
#include <cmath>

#include "kernels/attention_reference.h"
#include "kernels/kv_layout.h"
#include "kernels/math-inl.h"
#include "kernels/simd-inl.h"
#include "tensor/half.h"

#if defined(LITHE_KERNELS_ATTENTION_STORE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_ATTENTION_STORE_INL_H
#undef LITHE_KERNELS_ATTENTION_STORE_INL_H
#else
#define LITHE_KERNELS_ATTENTION_STORE_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

/// Halves of n floats; out has room for whole vectors.
HWY_INLINE void float_to_half(const float* x, std::int64_t n, std::uint16_t* out) {
  const hn::Rebind<hwy::float16_t, Floats> d16;
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const auto v = n - i >= kLanes ? hn::LoadU(Floats(), x + i) : load_first(x + i, n - i);
    hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(out + i));
  }
}

/// Codes of n floats that share a scale (out has room for whole vectors); returns the scale's bits.
HWY_INLINE std::uint16_t float_to_codes(const float* x, std::int64_t n, std::int32_t* out) {
  const Floats d;
  auto largest = hn::Zero(d), faults = hn::Zero(d);
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const auto v = n - i >= kLanes ? hn::LoadU(d, x + i) : load_first(x + i, n - i);
    largest = hn::Max(largest, hn::Abs(v));
    faults = hn::MulAdd(v, hn::Zero(d), faults);  // NaN if any value is not finite
  }
  const float top = hn::GetLane(hn::MaxOfLanes(d, largest));
  const float nan = hn::GetLane(hn::SumOfLanes(d, faults));
  const std::uint16_t bits = f32_to_f16(nan == 0 ? std::min(top / 127.0f, 65504.0f) : nan);
  const float scale = f16_to_f32(bits);
  const auto inverse = hn::Set(d, scale > 0 ? 1.0f / scale : 0.0f);
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const auto v = hn::Mul(n - i >= kLanes ? hn::LoadU(d, x + i) : load_first(x + i, n - i), inverse);
    const auto code = hn::NearestInt(hn::Min(hn::Max(v, hn::Set(d, -127.0f)), hn::Set(d, 127.0f)));
    hn::StoreU(code, hn::RebindToSigned<Floats>(), out + i);
  }
  return bits;
}

HWY_INLINE void store_token_f16(std::byte* page, const KvShape& shape, const KvLayout& layout,
                                std::int64_t token, const float* k, const float* v) {
  constexpr std::int64_t kPiece = 64;
  std::uint16_t halves[kPiece];
  auto* panel = reinterpret_cast<std::uint16_t*>(page + static_cast<std::size_t>(token / kKeyLanes) *
                                                            layout.key_panel_bytes) +
                token % kKeyLanes;
  for (std::int64_t begin = 0; begin < shape.key_dim; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, shape.key_dim - begin);
    float_to_half(k + begin, n, halves);
    for (std::int64_t i = 0; i < n; ++i) panel[(begin + i) * kKeyLanes] = halves[i];
  }
  if (shape.latent) return;
  std::byte* row = page + layout.values + static_cast<std::size_t>(token) * layout.value_row_bytes;
  for (std::int64_t begin = 0; begin < shape.value_dim; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, shape.value_dim - begin);
    float_to_half(v + begin, n, halves);
    std::memcpy(row + begin * 2, halves, static_cast<std::size_t>(n) * 2);
  }
}

HWY_INLINE void store_token_q8(std::byte* page, const KvShape& shape, const KvLayout& layout,
                               std::int64_t token, const float* k, const float* v, std::int32_t* codes) {
  std::byte* panel = page + static_cast<std::size_t>(token / kKeyLanes) * layout.key_panel_bytes;
  const std::int64_t lane = token % kKeyLanes;
  for (std::int64_t begin = 0; begin < shape.key_dim; begin += 32) {
    const std::int64_t n = std::min<std::int64_t>(32, shape.key_dim - begin);
    std::fill(codes + n, codes + 32, 0);
    const std::uint16_t scale = float_to_codes(k + begin, n, codes);
    for (std::int64_t i = 0; i < (n + 3) / 4 * 4; ++i) {
      const std::int32_t code = i < n ? codes[i] : 0;
      panel[((begin + i) / 4 * kKeyLanes + lane) * 4 + i % 4] = static_cast<std::byte>(code + 128);
    }
    std::memcpy(panel + layout.key_scales + static_cast<std::size_t>(begin / 32 * kKeyLanes + lane) * 2,
                &scale, 2);
  }
  if (shape.latent) return;
  const std::uint16_t scale = float_to_codes(v, shape.value_dim, codes);
  std::byte* row =
      page + layout.values + static_cast<std::size_t>(token / 4 * 4) * layout.value_row_bytes + token % 4;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(layout.value_row_bytes); ++i) {
    row[i * 4] = static_cast<std::byte>(i < shape.value_dim ? codes[i] : 0);
  }
  std::memcpy(page + layout.value_scales + static_cast<std::size_t>(token) * 2, &scale, 2);
}

inline void store(const KvView& kv, const float* k, std::int64_t k_stride, const float* v,
                  std::int64_t v_stride, std::int64_t position, std::int64_t count) {
  constexpr int kLongestRow = 1024;  // of codes on the stack
  // Highway's f32 to f16 without F16C does not round to nearest even; plain copies gain nothing.
  const bool slow = HWY_TARGET == HWY_SSE4 && kv.shape.dtype == DType::f16;
  if (slow || kv.shape.dtype == DType::f32 || (kv.shape.value_dim > kLongestRow && !kv.shape.latent)) {
    return reference_store(kv, k, k_stride, v, v_stride, position, count);
  }
  std::int32_t codes[kLongestRow + 32];
  const KvLayout layout(kv.shape);
  for (int kv_head = 0; kv_head < kv.shape.kv_heads; ++kv_head) {
    const KvHead head(kv, layout, kv_head);
    for (std::int64_t t = 0; t < count; ++t) {
      std::byte* page = head.page((position + t) / kPageTokens);
      const std::int64_t token = (position + t) % kPageTokens;
      const float* key = k + t * k_stride + std::int64_t{kv_head} * kv.shape.key_dim;
      const float* value =
          kv.shape.latent ? nullptr : v + t * v_stride + std::int64_t{kv_head} * kv.shape.value_dim;
      if (kv.shape.dtype == DType::f16) {
        store_token_f16(page, kv.shape, layout, token, key, value);
      } else {
        store_token_q8(page, kv.shape, layout, token, key, value, codes);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_ATTENTION_STORE_INL_H
