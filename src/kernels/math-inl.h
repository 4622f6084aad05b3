// exp and its relatives on vectors, and loads of a row's last few values. Per target, like simd-inl.h.
#include <cstring>

#include "kernels/simd-inl.h"

#if defined(LITHE_KERNELS_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_MATH_INL_H
#undef LITHE_KERNELS_MATH_INL_H
#else
#define LITHE_KERNELS_MATH_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;
using FloatVec = hn::Vec<Floats>;
/// Floats in a vector. Every target here has vectors of a fixed size.
inline constexpr std::int64_t kLanes = HWY_LANES(float);

/// The first n < kLanes floats at p, zeros behind; reads no others.
HWY_INLINE FloatVec load_first(const float* p, std::int64_t n) {
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<std::size_t>(n) * sizeof(float));
  return hn::Load(Floats(), lanes);
}
HWY_INLINE void store_first(FloatVec v, float* p, std::int64_t n) {
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, Floats(), lanes);
  std::memcpy(p, lanes, static_cast<std::size_t>(n) * sizeof(float));
}

/// e^x within 1e-7 relative, for x <= 88. 0 below -87.3 (smaller results would be subnormal), NaN for NaN.
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a minimax polynomial (3e-9); n goes into the exponent's bits.
HWY_INLINE FloatVec exp(FloatVec x) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const auto magic =
      hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const auto n = hn::Sub(shifted, magic);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693145752f),
                         x);  // ln 2 in two parts, the first short: n times it is exact
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
  auto p = hn::MulAdd(r, hn::Set(d, 1.38146e-3f), hn::Set(d, 8.36872e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.166839e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.16666521f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999993f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto scaled = hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)), hn::BitCast(d, scaled));
}

/// The same for one value, with the same bits.
HWY_INLINE float exp_one(float x) {
  return hn::GetLane(exp(hn::Set(Floats(), x)));
}

/// 1 / x for x in [1, 1e38], within an ulp or two: much shorter than a division.
HWY_INLINE FloatVec reciprocal(FloatVec x) {
  const auto guess = hn::ApproximateReciprocal(x);
  const auto error = hn::NegMulAdd(x, guess, hn::Set(Floats(), 1.0f));
  return hn::MulAdd(guess, error, guess);
}

/// 1 / (1 + e^-x)
HWY_INLINE FloatVec sigmoid(FloatVec x) {
  const Floats d;
  const auto bounded = hn::Min(hn::Set(d, 87.0f), hn::Neg(x));  // in this order: NaN stays NaN on x86
  return reciprocal(hn::Add(hn::Set(d, 1.0f), exp(bounded)));
}

/// Absolute error below 2e-7.
HWY_INLINE FloatVec tanh(FloatVec x) {
  const Floats d;
  return hn::MulSub(hn::Set(d, 2.0f), sigmoid(hn::Add(x, x)), hn::Set(d, 1.0f));
}

/// Absolute error below 3e-7. Source: Abramowitz & Stegun 7.1.26.
HWY_INLINE FloatVec erf(FloatVec x) {
  const Floats d;
  const auto one = hn::Set(d, 1.0f);
  const auto size = hn::Abs(x);
  const auto t = hn::Div(one, hn::MulAdd(size, hn::Set(d, 0.3275911f), one));
  auto p = hn::MulAdd(t, hn::Set(d, 1.061405429f), hn::Set(d, -1.453152027f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.421413741f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.284496736f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.254829592f));
  const auto tail = hn::Mul(hn::Mul(p, t), exp(hn::Neg(hn::Mul(x, x))));
  return hn::CopySign(hn::Sub(one, tail), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_MATH_INL_H
