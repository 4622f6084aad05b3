// The integer dot product of a block of 32 on each target. Per target: no classic include guard.
//
// All routes give the same integer: sum of code * activation over 32 columns (16 for each half of q6_k), shifted left
// by the format's code_shift, plus Int8Params::init. So the float that follows has the same bits on every ISA with FMA.
//   AVX-512 VNNI  vpdpbusd on codes already shifted.
//   SSSE3, AVX2   vpmaddubsw on small codes, as many summed in 16 bits as cannot overflow, then one vpmaddwd that
//                 widens and shifts at once. 8-bit codes are two 4-bit planes.
//   NEON          signed products widened to 16 bits and added in pairs.
#include "kernels/activation_layout.h"
#include "kernels/codes-inl.h"

#if defined(LITHE_KERNELS_DOT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_DOT_INL_H
#undef LITHE_KERNELS_DOT_INL_H
#else
#define LITHE_KERNELS_DOT_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

/// What a large product needs to know of a format once its codes are unpacked.
struct CodeKind {
  int bits;
  int shift;  // code_shift: symmetric formats only
  bool min;
  int halves;  // 2: a scale for each 16 columns
};
template <DType kType>
inline constexpr CodeKind kCodeKind = {packed_layout(kType).code_bits, packed_layout(kType).code_shift,
                                       packed_layout(kType).has_min(),
                                       packed_layout(kType).kind == ScaleKind::k_signed ? 2 : 1};

/// Four neighbouring activations, in every lane.
HWY_INLINE hn::Vec<DI8> broadcast_quad(const std::byte* codes) {
  return hn::BitCast(di8, hn::Set(di, load_int(codes)));
}

#if HWY_TARGET == HWY_AVX3

/// Codes as the dot product wants them: shift to apply while unpacking, vectors per quad.
template <CodeKind kKind>
inline constexpr int kUnpackShift = kKind.shift;
template <CodeKind kKind>
inline constexpr int kPlanes = 1;
/// Vectors of sums of a BlockDot.
template <CodeKind kKind>
inline constexpr int kDotSums = kKind.halves;

template <CodeKind kKind>
struct BlockDot {
  VI sum[kKind.halves];
  HWY_INLINE void begin(const VI (&init)[kKind.halves]) {
    unroll<kKind.halves>([&](auto h) LITHE_SIMD { sum[h] = init[h]; });
  }
  template <int q>
  HWY_INLINE void add(const VU8 (&codes)[1], hn::Vec<DI8> x) {
    VI& s = sum[kKind.halves == 2 ? q / 4 : 0];
    s.raw = _mm512_dpbusd_epi32(s.raw, codes[0].raw, x.raw);
  }
  template <int h>
  HWY_INLINE VI finish(const VI (&)[kKind.halves]) const {
    return sum[h];
  }
};

#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4

template <CodeKind kKind>
inline constexpr int kUnpackShift = 0;
template <CodeKind kKind>
inline constexpr int kPlanes = kKind.bits == 8 ? 2 : 1;  // low and high nibble

HWY_INLINE VI16 multiply_pairs(VU8 codes, hn::Vec<DI8> x) {
#if HWY_TARGET == HWY_AVX2
  return VI16{_mm256_maddubs_epi16(codes.raw, x.raw)};
#else
  return VI16{_mm_maddubs_epi16(codes.raw, x.raw)};
#endif
}
HWY_INLINE VI widen_pairs(VI16 a, VI16 b) {
#if HWY_TARGET == HWY_AVX2
  return VI{_mm256_madd_epi16(a.raw, b.raw)};
#else
  return VI{_mm_madd_epi16(a.raw, b.raw)};
#endif
}

template <CodeKind kKind>
inline constexpr int kPlaneBits = kKind.bits == 8 ? 4 : kKind.bits;
/// Quads whose products (two a lane, |x| <= 127) fit into 16 bits together: 8, 4, 2.
template <CodeKind kKind>
inline constexpr int kDotGroup = kPlaneBits<kKind> == 4   ? 8
                                 : kPlaneBits<kKind> == 5 ? 4
                                                          : 2;
template <CodeKind kKind>
inline constexpr int kDotSums = kPlanes<kKind> * 8 / kDotGroup<kKind>;

template <CodeKind kKind>
struct BlockDot {
  static constexpr int kGroup = kDotGroup<kKind>;
  static_assert(2 * kGroup * ((1 << kPlaneBits<kKind>)-1) * 127 <= 32767);
  static constexpr int kGroups = 8 / kGroup;
  VI16 sum[kPlanes<kKind>][kGroups];

  HWY_INLINE void begin(const VI (&)[kKind.halves]) {}
  template <int q>
  HWY_INLINE void add(const VU8 (&codes)[kPlanes<kKind>], hn::Vec<DI8> x) {
    unroll<kPlanes<kKind>>([&](auto p) LITHE_SIMD {
      const VI16 product = multiply_pairs(codes[p], x);
      VI16& s = sum[p][q / kGroup];
      s = q % kGroup == 0 ? product : hn::Add(s, product);
    });
  }
  template <int h>
  HWY_INLINE VI finish(const VI (&init)[kKind.halves]) const {
    constexpr int kPerHalf = kGroups / kKind.halves;
    const VI16 ones = hn::Set(di16, std::int16_t{1 << kKind.shift});
    VI total = init[h];
    unroll<kPerHalf>([&](auto g)
                         LITHE_SIMD { total = hn::Add(total, widen_pairs(sum[0][h * kPerHalf + g], ones)); });
    if constexpr (kPlanes<kKind> == 2) {
      total = hn::Add(total, widen_pairs(sum[1][0], hn::Set(di16, std::int16_t{16})));
    }
    return total;
  }
};

#else  // NEON, and whatever else Highway's static target may be

template <CodeKind kKind>
inline constexpr int kUnpackShift = kKind.shift;
template <CodeKind kKind>
inline constexpr int kPlanes = 1;
template <CodeKind kKind>
inline constexpr int kDotSums = kKind.halves;

template <CodeKind kKind>
struct BlockDot {
  VI sum[kKind.halves];
  HWY_INLINE void begin(const VI (&)[kKind.halves]) {
    // Codes become signed below, so that Int8Params::init has nothing to take off.
    unroll<kKind.halves>([&](auto h) LITHE_SIMD { sum[h] = hn::Set(di, kMagicBits); });
  }
  template <int q>
  HWY_INLINE void add(const VU8 (&codes)[1], hn::Vec<DI8> x) {
    VI& s = sum[kKind.halves == 2 ? q / 4 : 0];
    const VU8 zero_point = hn::Set(du8, kKind.min ? std::uint8_t{0} : std::uint8_t{128});
    const hn::Vec<DI8> w = hn::BitCast(di8, hn::Xor(codes[0], zero_point));
#if HWY_TARGET == HWY_NEON
    const int16x8_t low = vmull_s8(vget_low_s8(w.raw), vget_low_s8(x.raw));
    const int16x8_t high = vmull_high_s8(w.raw, x.raw);
    s.raw = vpadalq_s16(s.raw, vpaddq_s16(low, high));  // |pair| <= 2 * 128 * 127 < 2^15
#else
    HWY_ALIGN std::int8_t wb[kVecBytes], xb[kVecBytes];
    HWY_ALIGN std::int32_t lanes[kLanes];
    hn::Store(w, di8, wb);
    hn::Store(x, di8, xb);
    for (int i = 0; i < kLanes; ++i) {
      lanes[i] = 0;
      for (int j = 0; j < 4; ++j) lanes[i] += wb[4 * i + j] * xb[4 * i + j];
    }
    s = hn::Add(s, hn::Load(di, lanes));
#endif
  }
  template <int h>
  HWY_INLINE VI finish(const VI (&)[kKind.halves]) const {
    return sum[h];
  }
};

#endif

/// The integers that a row's accumulators start from, for the block at `block` of a prepared row.
template <CodeKind kKind>
HWY_INLINE void load_init(const std::byte* block, const std::int32_t* half_init, VI (&init)[kKind.halves]) {
  if constexpr (kKind.min) {
    init[0] = hn::Set(di, kMagicBits);
  } else if constexpr (kKind.halves == 2) {
    init[0] = hn::Set(di, half_init[0]);
    init[1] = hn::Set(di, half_init[1]);
  } else {
    init[0] = hn::Set(di, load_int(block + kBlockCols));
  }
}

/// acc += scale * (activation scale * integer sum), where `total` holds the bits of C + sum.
HWY_INLINE VF add_scaled(VF acc, VI total, const std::byte* params, VF scale) {
  const VF x_scale = hn::Set(df, load_float(params + offsetof(Int8Params, scale)));
  const VF sum = hn::BitCast(df, total);
  if constexpr (kHasFma) {
    const VF minus_c_scale = hn::Set(df, load_float(params + offsetof(Int8Params, minus_c_scale)));
    return hn::MulAdd(hn::MulAdd(sum, x_scale, minus_c_scale), scale, acc);
  } else {
    return hn::MulAdd(hn::Mul(hn::Sub(sum, hn::Set(df, kMagic)), x_scale), scale, acc);
  }
}
HWY_INLINE VF add_min(VF acc, const std::byte* params, VF min) {
  return hn::MulAdd(min, hn::Set(df, load_float(params + offsetof(Int8Params, scaled_sum))), acc);
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_DOT_INL_H
