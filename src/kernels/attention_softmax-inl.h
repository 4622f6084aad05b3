// The softmax of attention's tiles, in base 2: queries carry log2(e) with their scale, so that 2^(score - max) is the
// weight and half of an exponential's range reduction falls away. Per target, like simd-inl.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/math-inl.h"
#include "kernels/simd-inl.h"

#if defined(LITHE_KERNELS_ATTENTION_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_ATTENTION_SOFTMAX_INL_H
#undef LITHE_KERNELS_ATTENTION_SOFTMAX_INL_H
#else
#define LITHE_KERNELS_ATTENTION_SOFTMAX_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

inline constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;
inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.44269504f;

/// 2^x within 2e-7 relative for x <= 0; 2^-100 below -100 (subnormal products would be slow, and such a weight is none);
/// NaN for NaN, 1 for 0. N vectors step by step: a single one would wait for its own results.
template <int N>
HWY_INLINE void exp2_each(FloatVec (&x)[N]) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const auto lowest = hn::Set(d, -100.0f);
  const auto magic =
      hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
  FloatVec shifted[N], p[N];
  unroll<N>([&](auto j) LITHE_SIMD { x[j] = hn::Max(lowest, x[j]); });  // in this order: NaN stays NaN on x86
  unroll<N>([&](auto j) LITHE_SIMD { shifted[j] = hn::Add(x[j], magic); });
  unroll<N>([&](auto j) LITHE_SIMD { p[j] = hn::Sub(shifted[j], magic); });
  unroll<N>([&](auto j)
                LITHE_SIMD { x[j] = hn::Sub(x[j], p[j]); });  // |x| <= 1/2: a minimax polynomial, 1 at 0
  const auto step = [&](float c) LITHE_SIMD {
    const auto constant = hn::Set(d, c);
    unroll<N>([&](auto j) LITHE_SIMD { p[j] = hn::MulAdd(p[j], x[j], constant); });
  };
  unroll<N>([&](auto j) LITHE_SIMD {
    p[j] = hn::MulAdd(x[j], hn::Set(d, 1.32647273e-3f), hn::Set(d, 9.67151299e-3f));
  });
  step(5.55073358e-2f);
  step(0.240222424f);
  step(0.693147004f);
  step(1.0f);
  unroll<N>([&](auto j) LITHE_SIMD {
    x[j] = hn::BitCast(d, hn::Add(hn::BitCast(di, p[j]), hn::ShiftLeft<23>(hn::BitCast(di, shifted[j]))));
  });
}
HWY_INLINE FloatVec exp2(FloatVec x) {
  FloatVec one[1] = {x};
  exp2_each(one);
  return one[0];
}

struct MaxSum {
  float max, sum;
};

inline constexpr std::int64_t kSoftmaxStep = 4 * kLanes;  // keys that softmax takes at once

/// The softmax of one line: s: scores of keys [begin, end), begin < end, readable and writable from and to multiples of
/// kSoftmaxStep. emit(i, weights) gets 4 vectors of weights 2^(score - max) for keys i, i + 1, ...; those of unseen keys
/// are next to nothing. Not called if no score is above -inf; the sum is NaN if a score is. Sums are kept per lane and vector modulo 4, wherever the
/// range begins.
template <typename Emit>
HWY_INLINE MaxSum softmax(float* HWY_RESTRICT s, std::int64_t begin, std::int64_t end, float soft_cap,
                          Emit emit) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const std::int64_t first = begin / kSoftmaxStep * kSoftmaxStep;
  const std::int64_t last = (end + kSoftmaxStep - 1) / kSoftmaxStep * kSoftmaxStep;
  const auto lowest = hn::Set(d, kMinusInfinity);

  if (soft_cap > 0) {
    const auto cap = hn::Set(d, soft_cap), inverse = hn::Set(d, 1.0f / soft_cap);
    for (std::int64_t i = begin / kLanes * kLanes; i < end; i += kLanes) {
      hn::Store(hn::Mul(cap, tanh(hn::Mul(hn::Load(d, s + i), inverse))), d, s + i);
    }
  }
  // Highway's Iota goes through memory, scalar by scalar.
  alignas(64) static constexpr std::int32_t kCount[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                          8, 9, 10, 11, 12, 13, 14, 15};
  const auto mask = [&](std::int64_t group) LITHE_SIMD {
    const auto low = hn::Set(di, static_cast<std::int32_t>(begin - group));
    const auto high = hn::Set(di, static_cast<std::int32_t>(end - group));
    for (std::int32_t j = 0; j < kSoftmaxStep; j += kLanes) {
      const auto at = hn::Add(hn::Load(di, kCount), hn::Set(di, j));
      const auto seen = hn::AndNot(hn::Lt(at, low), hn::Lt(at, high));
      hn::Store(hn::IfThenElse(hn::RebindMask(d, seen), hn::Load(d, s + group + j), lowest), d,
                s + group + j);
    }
  };
  if (begin != first) mask(first);
  if (end != last) mask(last - kSoftmaxStep);

  FloatVec m[4] = {lowest, lowest, lowest, lowest};
  for (std::int64_t i = first; i < last; i += kSoftmaxStep) {
    unroll<4>([&](auto j) LITHE_SIMD { m[j] = hn::Max(m[j], hn::Load(d, s + i + j * kLanes)); });
  }
  const auto max = hn::MaxOfLanes(d, hn::Max(hn::Max(m[0], m[1]), hn::Max(m[2], m[3])));
  if (hn::GetLane(max) == kMinusInfinity) {
    // Nothing but -inf, or NaN, which the maximum drops: a line with one must come out as NaN.
    const auto fault = [](float score) { return std::isnan(score); };
    if (std::any_of(s + begin, s + end, fault)) return {0, std::numeric_limits<float>::quiet_NaN()};
    return {kMinusInfinity, 0};
  }

  FloatVec sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (std::int64_t i = first; i < last; i += kSoftmaxStep) {
    FloatVec p[4];
    constexpr int kTogether = kManyRegisters ? 4 : 2;
    unroll<4 / kTogether>([&](auto part) LITHE_SIMD {
      FloatVec x[kTogether];
      unroll<kTogether>([&](auto j) LITHE_SIMD {
        x[j] = hn::Sub(hn::Load(d, s + i + (part * kTogether + j) * kLanes), max);
      });
      exp2_each(x);
      unroll<kTogether>([&](auto j) LITHE_SIMD { p[part * kTogether + j] = x[j]; });
    });
    unroll<4>([&](auto j) LITHE_SIMD { sum[j] = hn::Add(sum[j], p[j]); });
    emit(i, p);
  }
  const auto total = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
  return {hn::GetLane(max), hn::GetLane(hn::SumOfLanes(d, total))};
}

/// Turns scores into weights in place.
HWY_NOINLINE MaxSum softmax_line(float* HWY_RESTRICT s, std::int64_t begin, std::int64_t end,
                                 float soft_cap) {
  return softmax(s, begin, end, soft_cap, [&](std::int64_t i, const FloatVec(&p)[4]) LITHE_SIMD {
    unroll<4>([&](auto j) LITHE_SIMD { hn::Store(p[j], Floats(), s + i + j * kLanes); });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_ATTENTION_SOFTMAX_INL_H
