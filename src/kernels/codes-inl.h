// Reading the codes and scales of packed quantised panels into vectors. Per target: no classic include guard.
#include "kernels/panel-inl.h"

#if defined(LITHE_KERNELS_CODES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_CODES_INL_H
#undef LITHE_KERNELS_CODES_INL_H
#else
#define LITHE_KERNELS_CODES_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

/// (byte << kShift) & kMask in every byte; a negative kShift goes right. kMask must hide the neighbours' bits.
template <int kShift, int kMask>
HWY_INLINE VU8 shift_and_mask(VU8 v) {
  const VU8 mask = hn::Set(du8, static_cast<std::uint8_t>(kMask));
  if constexpr (kShift > 0) {
    return hn::And(hn::BitCast(du8, hn::ShiftLeft<kShift>(hn::BitCast(du16, v))), mask);
  } else if constexpr (kShift < 0) {
    return hn::And(hn::BitCast(du8, hn::ShiftRight<-kShift>(hn::BitCast(du16, v))), mask);
  } else {
    return hn::And(v, mask);
  }
}

/// low | the bits of `plane` that start at bit kFrom, moved to bit kTo and masked.
template <int kFrom, int kTo, int kMask>
HWY_INLINE VU8 with_high_bits(VU8 low, VU8 plane) {
  return hn::Or(low, shift_and_mask<kTo - kFrom, kMask>(plane));
}

/// f(q, codes << kShift) for the eight quads of a block, lanes of vector v; not in ascending order of q.
template <DType kType, int kShift, typename F>
HWY_INLINE void for_each_quad(const std::byte* body, int v, F&& f) {
  constexpr int kBits = packed_layout(kType).code_bits;
  const std::uint8_t* p = as_u8(body) + v * kVecBytes;
  if constexpr (kBits == 8) {
    unroll<8>([&](auto q) LITHE_SIMD { f(q, hn::Load(du8, p + q * 64)); });
  } else {
    unroll<4>([&](auto i) LITHE_SIMD {
      constexpr int lo = i, hi = i + 4;
      const VU8 packed = hn::Load(du8, p + i * 64);
      VU8 low = shift_and_mask<kShift, 15 << kShift>(packed);
      VU8 high = shift_and_mask<kShift - 4, 15 << kShift>(packed);
      if constexpr (kBits == 5) {
        const VU8 plane = hn::Load(du8, p + 256);
        low = with_high_bits<lo, 4 + kShift, 16 << kShift>(low, plane);
        high = with_high_bits<hi, 4 + kShift, 16 << kShift>(high, plane);
      }
      if constexpr (kBits == 6) {
        low = with_high_bits<2 * i, 4 + kShift, 48 << kShift>(low, hn::Load(du8, p + 256));
        high = with_high_bits<2 * i, 4 + kShift, 48 << kShift>(high, hn::Load(du8, p + 320));
      }
      f(std::integral_constant<int, lo>(), low);
      f(std::integral_constant<int, hi>(), high);
    });
  }
}

/// kLanes bytes as floats.
HWY_INLINE VF load_u8_as_float(const std::byte* p) {
  const hn::Rebind<std::uint8_t, DF> d;
  return hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(d, as_u8(p))));
}
HWY_INLINE VF load_s8_as_float(const std::byte* p) {
  const hn::Rebind<std::int8_t, DF> d;
  return hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(d, reinterpret_cast<const std::int8_t*>(p))));
}

/// The scales of 32 columns: weight = scale * (code - 128 * 2^-shift) in symmetric formats, scale * code + min in
/// the others. Exact in f32: at most 11 + 8 bits. q6_k has one for each half of the block.
struct BlockScales {
  VF scale[2];
  VF min;
};

template <DType kType>
HWY_INLINE BlockScales load_scales(const std::byte* panel, std::int64_t block, int v) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  BlockScales s;
  const std::byte* header = panel + kLayout.header_at(block) + v * kLanes * 2;
  const VF d = load_f16(header + kLayout.scale_row(block) * 32);
  const std::byte* sub = panel + kLayout.super_at(block) + v * kLanes;
  const auto j = static_cast<std::size_t>(block % kLayout.super_blocks);
  if constexpr (kLayout.kind == ScaleKind::simple) {
    s.scale[0] = d;
  } else if constexpr (kLayout.kind == ScaleKind::with_min) {
    s.scale[0] = d;
    s.min = load_f16(header + 32);
  } else if constexpr (kLayout.kind == ScaleKind::k_with_min) {
    s.scale[0] = hn::Mul(d, load_u8_as_float(sub + j * kPanelRows));
    s.min = hn::Neg(hn::Mul(load_f16(header + 32), load_u8_as_float(sub + 128 + j * kPanelRows)));
  } else {
    s.scale[0] = hn::Mul(d, load_s8_as_float(sub + 2 * j * kPanelRows));
    s.scale[1] = hn::Mul(d, load_s8_as_float(sub + (2 * j + 1) * kPanelRows));
  }
  return s;
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_CODES_INL_H
