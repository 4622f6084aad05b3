// Row kernels: norms, rotary positions, activations, and the sampler's reductions. A row's sums are taken in an order
// fixed by its length.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows.cpp"
#include "kernels/simd_targets.h"

#include <hwy/foreach_target.h>

#include <cmath>
#include <limits>

#include "kernels/fill.h"
#include "kernels/math-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

constexpr Floats d;

// out[i] = f(i, load) for all i < n, vectors first; load(p) reads the lanes of p[i] that exist, zeros behind.
template <typename F>
HWY_INLINE void map(std::int64_t n, float* out, F f) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    hn::StoreU(f([i](const float* p) LITHE_SIMD { return hn::LoadU(d, p + i); }), d, out + i);
  }
  if (i < n) {
    store_first(f([i, n](const float* p) LITHE_SIMD { return load_first(p + i, n - i); }), out + i, n - i);
  }
}

// The sum of f(load) over a row: four partial sums, then their lanes.
template <typename F>
HWY_INLINE float sum(std::int64_t n, F f) {
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    s0 = f(s0, i, kLanes);
    s1 = f(s1, i + kLanes, kLanes);
    s2 = f(s2, i + 2 * kLanes, kLanes);
    s3 = f(s3, i + 3 * kLanes, kLanes);
  }
  for (; i < n; i += kLanes) s0 = f(s0, i, n - i);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

HWY_INLINE FloatVec load_upto(const float* p, std::int64_t left) {
  return left >= kLanes ? hn::LoadU(d, p) : load_first(p, left);
}

void rms_norm(const float* x, const float* weight, float eps, std::int64_t n, float* out) {
  const float squares = sum(n, [x](FloatVec s, std::int64_t i, std::int64_t left) LITHE_SIMD {
    const auto v = load_upto(x + i, left);
    return hn::MulAdd(v, v, s);
  });
  const auto factor = hn::Set(d, 1.0f / std::sqrt(squares / static_cast<float>(n) + eps));
  map(n, out, [=](auto load) LITHE_SIMD { return hn::Mul(hn::Mul(load(x), factor), load(weight)); });
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, std::int64_t n,
                float* out) {
  const float total = sum(n, [x](FloatVec s, std::int64_t i, std::int64_t left)
                                 LITHE_SIMD { return hn::Add(s, load_upto(x + i, left)); });
  const auto mean = hn::Set(d, total / static_cast<float>(n));
  const float squares = sum(n, [x, mean](FloatVec s, std::int64_t i, std::int64_t left) LITHE_SIMD {
    auto v = hn::Sub(load_upto(x + i, left), mean);
    if (left < kLanes) v = hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(left)), v);
    return hn::MulAdd(v, v, s);
  });
  const auto factor = hn::Set(d, 1.0f / std::sqrt(squares / static_cast<float>(n) + eps));
  if (bias == nullptr) {
    return map(n, out, [=](auto load) LITHE_SIMD {
      return hn::Mul(hn::Mul(hn::Sub(load(x), mean), factor), load(weight));
    });
  }
  map(n, out, [=](auto load) LITHE_SIMD {
    return hn::MulAdd(hn::Mul(hn::Sub(load(x), mean), factor), load(weight), load(bias));
  });
}

struct Pair {
  FloatVec a, b;
};
HWY_INLINE Pair rotate(Pair p, FloatVec cos, FloatVec sin) {
  return {hn::NegMulAdd(p.b, sin, hn::Mul(p.a, cos)), hn::MulAdd(p.a, sin, hn::Mul(p.b, cos))};
}

// Pairs [begin, pairs) that do not fill a vector, through a buffer of one.
void rope_tail(float* x, std::int64_t begin, std::int64_t pairs, std::int64_t a_step, std::int64_t b_offset,
               const float* cos, const float* sin) {
  if (begin == pairs) return;
  HWY_ALIGN float a[kLanes] = {}, b[kLanes] = {};
  for (std::int64_t i = begin; i < pairs; ++i) {
    a[i - begin] = x[i * a_step];
    b[i - begin] = x[i * a_step + b_offset];
  }
  const Pair p = rotate({hn::Load(d, a), hn::Load(d, b)}, load_first(cos + begin, pairs - begin),
                        load_first(sin + begin, pairs - begin));
  hn::Store(p.a, d, a);
  hn::Store(p.b, d, b);
  for (std::int64_t i = begin; i < pairs; ++i) {
    x[i * a_step] = a[i - begin];
    x[i * a_step + b_offset] = b[i - begin];
  }
}

void rope(float* x, std::int64_t heads, std::int64_t head_dim, std::int64_t rotary_dim, const float* cos,
          const float* sin, bool interleaved) {
  const std::int64_t pairs = rotary_dim / 2;
  for (std::int64_t head = 0; head < heads; ++head, x += head_dim) {
    std::int64_t i = 0;
    for (; i + kLanes <= pairs; i += kLanes) {
      Pair p;
      if (interleaved) {
        hn::LoadInterleaved2(d, x + 2 * i, p.a, p.b);
      } else {
        p = {hn::LoadU(d, x + i), hn::LoadU(d, x + i + pairs)};
      }
      p = rotate(p, hn::LoadU(d, cos + i), hn::LoadU(d, sin + i));
      if (interleaved) {
        hn::StoreInterleaved2(p.a, p.b, d, x + 2 * i);
      } else {
        hn::StoreU(p.a, d, x + i);
        hn::StoreU(p.b, d, x + i + pairs);
      }
    }
    rope_tail(x, i, pairs, interleaved ? 2 : 1, interleaved ? 1 : pairs, cos, sin);
  }
}

// out[i] = act(gate[i]) * up[i]
template <typename Act>
HWY_INLINE void gated(const float* gate, const float* up, std::int64_t n, float* out, Act act) {
  if (up == nullptr) return map(n, out, [=](auto load) LITHE_SIMD { return act(load(gate)); });
  map(n, out, [=](auto load) LITHE_SIMD { return hn::Mul(act(load(gate)), load(up)); });
}

void activate(Activation activation, const float* gate, const float* up, std::int64_t n, float* out) {
  switch (activation) {
    case Activation::silu:
      return gated(gate, up, n, out, [](FloatVec x) LITHE_SIMD { return hn::Mul(x, sigmoid(x)); });
    case Activation::gelu_tanh:
      // 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3)
      return gated(gate, up, n, out, [](FloatVec x) LITHE_SIMD {
        const auto inner = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.044715f), hn::Set(d, 1.0f));
        return hn::Mul(x, sigmoid(hn::Mul(hn::Mul(x, hn::Set(d, 1.5957691216f)), inner)));
      });
    case Activation::gelu_erf:
      return gated(gate, up, n, out, [](FloatVec x) LITHE_SIMD {
        const auto half = hn::Mul(x, hn::Set(d, 0.5f));
        return hn::MulAdd(half, erf(hn::Mul(x, hn::Set(d, 0.70710678119f))), half);
      });
    case Activation::relu:
      return gated(gate, up, n, out, [](FloatVec x) LITHE_SIMD { return hn::Max(hn::Zero(d), x); });
    case Activation::relu_squared:
      return gated(gate, up, n, out, [](FloatVec x) LITHE_SIMD {
        const auto positive = hn::Max(hn::Zero(d), x);
        return hn::Mul(positive, positive);
      });
    case Activation::swiglu_oai: {
      const auto limit = hn::Set(d, 7.0f);
      return map(n, out, [=](auto load) LITHE_SIMD {
        const auto x = hn::Min(limit, load(gate));
        const auto y = hn::Max(hn::Neg(limit), hn::Min(limit, load(up)));
        const auto swish = hn::Mul(x, sigmoid(hn::Mul(x, hn::Set(d, 1.702f))));
        return hn::MulAdd(swish, y, swish);
      });
    }
  }
}

void soft_cap(float* x, float cap, std::int64_t n) {
  const auto factor = hn::Set(d, cap), inverse = hn::Set(d, 1.0f / cap);
  map(n, x, [=](auto load) LITHE_SIMD { return hn::Mul(factor, tanh(hn::Mul(load(x), inverse))); });
}

void add(float* x, const float* y, std::int64_t n) {
  map(n, x, [=](auto load) LITHE_SIMD { return hn::Add(load(x), load(y)); });
}

void scale(float* x, float s, std::int64_t n) {
  const auto factor = hn::Set(d, s);
  map(n, x, [=](auto load) LITHE_SIMD { return hn::Mul(load(x), factor); });
}

void causal_conv(const float* const* rows, const float* weights, const float* bias, std::int64_t taps,
                 std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const std::int64_t left = n - i;
    auto sum = bias == nullptr ? hn::Zero(d) : load_upto(bias + i, left);
    for (std::int64_t tap = 0; tap < taps; ++tap)
      sum = hn::MulAdd(load_upto(weights + tap * n + i, left), load_upto(rows[tap] + i, left), sum);
    const auto value = hn::Div(sum, hn::Add(hn::Set(d, 1.0f), exp(hn::Neg(sum))));
    if (left >= kLanes) {
      hn::StoreU(value, d, out + i);
    } else {
      store_first(value, out + i, left);
    }
  }
}

// T tokens on kVectors vectors of channels. The state is read and written once for all of them; what happens to a lane does
// not depend on T and kVectors.
template <int kTokens, int kVectors>
HWY_INLINE void scan_tile(const StateScan& s, std::int64_t token, std::int64_t channel) {
  FloatVec in[kTokens][kVectors], x[kTokens][kVectors], y[kTokens][kVectors], decay[kTokens];
  const auto each = [](auto f) LITHE_SIMD {
    unroll<kTokens>([&](auto t) LITHE_SIMD { unroll<kVectors>([&](auto v) LITHE_SIMD { f(t, v); }); });
  };
  unroll<kTokens>([&](auto t) LITHE_SIMD { decay[t] = hn::Set(d, s.decay[token + t]); });
  each([&](auto t, auto v) LITHE_SIMD {
    const std::int64_t at = channel + v * kLanes;
    x[t][v] = at < s.channels ? load_upto(s.x + (token + t) * s.x_stride + at, s.channels - at) : hn::Zero(d);
    in[t][v] = hn::Mul(hn::Set(d, s.step[token + t]), x[t][v]);
    y[t][v] = hn::Zero(d);
  });
  const std::int64_t stride = StateScan::state_stride(s.channels);
  const float* const b = s.b + token * s.bc_stride;
  const float* const c = s.c + token * s.bc_stride;
  float* state = s.state + channel;
  for (std::int64_t j = 0; j < s.n; ++j, state += stride) {
    FloatVec now[kVectors];
    unroll<kVectors>([&](auto v) LITHE_SIMD { now[v] = hn::LoadU(d, state + v * kLanes); });
    unroll<kTokens>([&](auto t) LITHE_SIMD {
      const auto write = hn::Set(d, b[t * s.bc_stride + j]), read = hn::Set(d, c[t * s.bc_stride + j]);
      unroll<kVectors>([&](auto v) LITHE_SIMD {
        now[v] = hn::MulAdd(now[v], decay[t], hn::Mul(in[t][v], write));
        y[t][v] = hn::MulAdd(now[v], read, y[t][v]);
      });
    });
    unroll<kVectors>([&](auto v) LITHE_SIMD { hn::StoreU(now[v], d, state + v * kLanes); });
  }
  each([&](auto t, auto v) LITHE_SIMD {
    const std::int64_t at = channel + v * kLanes;
    if (at >= s.channels) return;
    float* const out = s.y + (token + t) * s.y_stride + at;
    const auto value = hn::MulAdd(hn::Set(d, s.skip), x[t][v], y[t][v]);
    if (s.channels - at >= kLanes) {
      hn::StoreU(value, d, out);
    } else {
      store_first(value, out, s.channels - at);
    }
  });
}

template <int kTokens, int kVectors>
HWY_INLINE void scan_channels(const StateScan& s, std::int64_t token) {
  const std::int64_t stride = StateScan::state_stride(s.channels);
  std::int64_t channel = 0;
  for (; channel + kVectors * kLanes <= stride; channel += kVectors * kLanes)
    scan_tile<kTokens, kVectors>(s, token, channel);
  for (; channel < stride; channel += kLanes) scan_tile<kTokens, 1>(s, token, channel);
}

void state_scan(const StateScan& s) {
  // As many accumulators as there are registers for; a lone token is bound by the state's bytes, read in whole rows.
  constexpr int kFew = HWY_TARGET <= HWY_AVX3 ? 2 : 1;
  std::int64_t token = 0;
  for (; token + 4 <= s.tokens; token += 4) scan_channels<4, kFew>(s, token);
  for (; token < s.tokens; ++token) scan_channels<1, 4>(s, token);
}

float max(const float* x, std::int64_t n) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  auto m0 = hn::Set(d, kLowest), m1 = m0;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const auto v0 = hn::LoadU(d, x + i), v1 = hn::LoadU(d, x + i + kLanes);
    m0 = hn::IfThenElse(hn::Gt(v0, m0), v0, m0);  // false for NaN
    m1 = hn::IfThenElse(hn::Gt(v1, m1), v1, m1);
  }
  float largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(m0, m1)));
  for (; i < n; ++i) {
    if (x[i] > largest) largest = x[i];
  }
  return largest;
}

std::int64_t argmax(const float* x, std::int64_t n) {
  const float largest = max(x, n);
  const auto wanted = hn::Set(d, largest);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + i), wanted));
    if (at >= 0) return i + static_cast<std::int64_t>(at);
  }
  for (; i < n; ++i) {
    if (x[i] == largest) return i;
  }
  return -1;  // nothing but NaN
}

double exp_sum(float* x, float max_value, std::int64_t n) {
  constexpr hn::ScalableTag<double> dd;
  constexpr hn::Half<Floats> half;
  const auto offset = hn::Set(d, max_value);
  auto s0 = hn::Zero(dd), s1 = hn::Zero(dd);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto e = exp(hn::Sub(hn::LoadU(d, x + i), offset));
    hn::StoreU(e, d, x + i);
    s0 = hn::Add(s0, hn::PromoteTo(dd, hn::LowerHalf(half, e)));
    s1 = hn::Add(s1, hn::PromoteTo(dd, hn::UpperHalf(half, e)));
  }
  double total = hn::GetLane(hn::SumOfLanes(dd, hn::Add(s0, s1)));
  for (; i < n; ++i) {
    x[i] = exp_one(x[i] - max_value);
    total += static_cast<double>(x[i]);
  }
  return total;
}

void fill_rows(KernelTable& table) {
  table.rms_norm = rms_norm;
  table.layer_norm = layer_norm;
  table.rope = rope;
  table.activate = activate;
  table.soft_cap = soft_cap;
  table.add = add;
  table.scale = scale;
  table.causal_conv = causal_conv;
  table.state_scan = state_scan;
  table.argmax = argmax;
  table.max = max;
  table.exp_sum = exp_sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lithe::kernels {

LITHE_DEFINE_FILL(fill_rows)

}  // namespace lithe::kernels
#endif
