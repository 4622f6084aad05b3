// The integer dot product of a block of 32 on each target. Per target: no classic include guard.
//
// All routes give the same integer: sum of code * activation over 32 columns (16 for each half of q6_k), shifted left
// by the format's code_shift, plus Int8Params::init. So the float that follows has the same bits on every ISA with FMA.
// q2_k and q3_k multiply the sum of each half by its integer scale before they become one float.
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
  bool pairs;  // ... which is an integer
};
constexpr CodeKind code_kind(const PackedLayout& layout) {
  return {layout.code_bits, layout.pairs() ? 0 : layout.code_shift, layout.has_min(), layout.halves(),
          layout.pairs()};
}
template <DType kType>
inline constexpr CodeKind kCodeKind = code_kind(packed_layout(kType));

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

/// total + the sum of the two products in each lane.
HWY_INLINE VI add_pair_products(VI total, VI16 a, VI16 b) {
  total.raw = _mm512_dpwssd_epi32(total.raw, a.raw, b.raw);
  return total;
}
/// Scale h of each pair as BlockDot::weigh wants it: a sum of 16 columns fits into the low half of its lane.
template <int h>
HWY_INLINE VI16 spread_scale(VI16 pairs) {
  const auto lanes = hn::BitCast(du, pairs);
  return hn::BitCast(di16, h == 0 ? hn::And(lanes, hn::Set(du, 0xffffu)) : hn::ShiftRight<16>(lanes));
}

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
  HWY_INLINE VI weigh(VI total, const VI16 (&scales)[2]) const {
    return add_pair_products(add_pair_products(total, hn::BitCast(di16, sum[0]), scales[0]),
                             hn::BitCast(di16, sum[1]), scales[1]);
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

HWY_INLINE VI add_pair_products(VI total, VI16 a, VI16 b) {
  return hn::Add(total, widen_pairs(a, b));
}
/// Scale h of each pair, twice: the sums of 16 columns are pairs themselves.
template <int h>
HWY_INLINE VI16 spread_scale(VI16 pairs) {
  alignas(16) static constexpr std::uint8_t kBytes[16] = {
      2 * h,     2 * h + 1, 2 * h,     2 * h + 1, 2 * h + 4,  2 * h + 5,  2 * h + 4,  2 * h + 5,
      2 * h + 8, 2 * h + 9, 2 * h + 8, 2 * h + 9, 2 * h + 12, 2 * h + 13, 2 * h + 12, 2 * h + 13};
  return hn::TableLookupBytes(pairs, hn::BitCast(di16, hn::LoadDup128(du8, kBytes)));
}

template <CodeKind kKind>
inline constexpr int kPlaneBits = kKind.bits == 8 ? 4 : kKind.bits;
/// Quads whose products (two a lane, |x| <= 127) fit into 16 bits together: 8, 4, 2.
template <CodeKind kKind>
inline constexpr int kDotGroup = kKind.pairs              ? 4
                                 : kPlaneBits<kKind> == 4 ? 8
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
      // One after another: else the compiler makes a tree of the sums and runs out of registers.
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
      asm("" : "+x"(s.raw));
#endif
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
  HWY_INLINE VI weigh(VI total, const VI16 (&scales)[2]) const {
    return add_pair_products(add_pair_products(total, sum[0][0], scales[0]), sum[0][1], scales[1]);
  }
};

#else  // NEON, and whatever else Highway's static target may be

template <CodeKind kKind>
inline constexpr int kUnpackShift = kKind.shift;
template <CodeKind kKind>
inline constexpr int kPlanes = 1;
template <CodeKind kKind>
inline constexpr int kDotSums = kKind.halves;

template <int h>
HWY_INLINE VI half_of_pairs(VI16 pairs) {
  const VI lanes = hn::BitCast(di, pairs);
  return hn::ShiftRight<16>(h == 0 ? hn::ShiftLeft<16>(lanes) : lanes);
}
HWY_INLINE VI add_pair_products(VI total, VI16 a, VI16 b) {
  total = hn::Add(total, hn::Mul(half_of_pairs<0>(a), half_of_pairs<0>(b)));
  return hn::Add(total, hn::Mul(half_of_pairs<1>(a), half_of_pairs<1>(b)));
}
/// Scale h of each pair as a lane.
template <int h>
HWY_INLINE VI16 spread_scale(VI16 pairs) {
  return hn::BitCast(di16, half_of_pairs<h>(pairs));
}

template <CodeKind kKind>
struct BlockDot {
  VI sum[kKind.halves];
  HWY_INLINE void begin(const VI (&)[kKind.halves]) {
    // Codes become signed below, so that Int8Params::init has nothing to take off.
    unroll<kKind.halves>([&](auto h) LITHE_SIMD { sum[h] = hn::Set(di, kKind.pairs ? 0 : kMagicBits); });
  }
  template <int q>
  HWY_INLINE void add(const VU8 (&codes)[1], hn::Vec<DI8> x) {
    VI& s = sum[kKind.halves == 2 ? q / 4 : 0];
    const VU8 zero_point = hn::Set(du8, kKind.min || kKind.pairs ? std::uint8_t{0} : std::uint8_t{128});
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
  HWY_INLINE VI weigh(VI total, const VI16 (&scales)[2]) const {
    unroll<2>([&](auto h)
                  LITHE_SIMD { total = hn::Add(total, hn::Mul(sum[h], hn::BitCast(di, scales[h]))); });
    return total;
  }
};

#endif

/// What a block of a prepared row has in the row's tail for formats with a scale per 16: bytes a block, and where.
template <CodeKind kKind>
inline constexpr std::size_t kTailBytes = kKind.pairs ? 2 * sizeof(std::int16_t) : 2 * sizeof(std::int32_t);
template <CodeKind kKind>
HWY_INLINE const std::byte* tail_of(const std::byte* row, std::int64_t cols, std::int64_t block) {
  return row + (kKind.pairs ? pair_sums_offset(cols) : half_init_offset(cols)) +
         static_cast<std::size_t>(block) * kTailBytes<kKind>;
}

/// The integers that a row's accumulators start from, for the block at `block` of a prepared row.
template <CodeKind kKind>
HWY_INLINE void load_init(const std::byte* block, const std::byte* tail, VI (&init)[kKind.halves]) {
  if constexpr (kKind.pairs) {
    init[0] = init[1] = hn::Zero(di);
  } else if constexpr (kKind.min) {
    init[0] = hn::Set(di, kMagicBits);
  } else if constexpr (kKind.halves == 2) {
    init[0] = hn::Set(di, load_int(tail));
    init[1] = hn::Set(di, load_int(tail + 4));
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

/// The scales of a block as the integer product wants them.
template <CodeKind kKind>
struct DotScales {
  VF scale[kKind.pairs ? 1 : kKind.halves];
  VF min;
  VI16 half[2];  // pairs: the scales, spread
  VI16 second;   // pairs: what the sums of activations are multiplied by
};
template <DType kType>
HWY_INLINE DotScales<kCodeKind<kType>> load_dot_scales(const std::byte* panel, std::int64_t block, int v) {
  constexpr CodeKind kKind = kCodeKind<kType>;
  DotScales<kKind> s;
  if constexpr (kKind.pairs) {
    const SuperScales super = load_super_scales<kType>(panel, block, v);
    const HalfScales half = load_half_scales<kType>(panel, block, v);
    s.scale[0] = super.d;
    if constexpr (kKind.min) s.min = hn::Mul(super.min, hn::Set(df, 1.0f / kPairFactor));
    unroll<2>([&](auto h) LITHE_SIMD { s.half[h] = spread_scale<h>(half.scale); });
    s.second = half.second;
  } else {
    const BlockScales scales = load_scales<kType>(panel, block, v);
    unroll<kKind.halves>([&](auto h) LITHE_SIMD { s.scale[h] = scales.scale[h]; });
    if constexpr (kKind.min) s.min = scales.min[0];
  }
  return s;
}

/// acc + a block's part of an output: its integer sums, the row's parameters of the block, the weights' scales.
template <CodeKind kKind>
HWY_INLINE VF add_block(VF acc, const BlockDot<kKind>& dot, const VI (&init)[kKind.halves],
                        const std::byte* params, const std::byte* tail, const DotScales<kKind>& scales) {
  if constexpr (kKind.pairs) {
    const VI16 sums = hn::BitCast(di16, hn::Set(di, load_int(tail)));
    const VI zero = hn::Set(di, kMagicBits), second = add_pair_products(zero, scales.second, sums);
    acc = add_scaled(acc, dot.weigh(kKind.min ? zero : second, scales.half), params, scales.scale[0]);
    if constexpr (kKind.min) acc = add_scaled(acc, second, params, scales.min);
  } else {
    unroll<kKind.halves>([&](auto h) LITHE_SIMD {
      acc = add_scaled(acc, dot.template finish<h>(init), params, scales.scale[h]);
    });
    if constexpr (kKind.min) acc = add_min(acc, params, scales.min);
  }
  return acc;
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_DOT_INL_H
