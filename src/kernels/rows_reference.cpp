// The row kernels as plain scalar loops: what Isa::reference runs and what the others are tested against.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/fill.h"

namespace lithe::kernels {
namespace {

void rms_norm(const float* x, const float* weight, float eps, std::int64_t n, float* out) {
  float squares = 0;
  for (std::int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
  const float factor = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, std::int64_t n,
                float* out) {
  float sum = 0, squares = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i];
  const float mean = sum / static_cast<float>(n);
  for (std::int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float factor = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = (x[i] - mean) * factor * weight[i] + (bias != nullptr ? bias[i] : 0.0f);
  }
}

void rope(float* x, std::int64_t heads, std::int64_t head_dim, std::int64_t rotary_dim, const float* cos,
          const float* sin, bool interleaved) {
  const std::int64_t pairs = rotary_dim / 2;
  for (std::int64_t head = 0; head < heads; ++head, x += head_dim) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      float& a = x[interleaved ? 2 * i : i];
      float& b = x[interleaved ? 2 * i + 1 : i + pairs];
      const float old_a = a, old_b = b;
      a = old_a * cos[i] - old_b * sin[i];
      b = old_b * cos[i] + old_a * sin[i];
    }
  }
}

float activated(Activation activation, float x) {
  switch (activation) {
    case Activation::silu:
      return x / (1.0f + std::exp(-x));
    case Activation::gelu_tanh:
      return 0.5f * x * (1.0f + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
    case Activation::gelu_erf:
      return 0.5f * x * (1.0f + std::erf(x * 0.70710678119f));
    case Activation::relu:
      return x < 0.0f ? 0.0f : x;
    case Activation::relu_squared:
      return x < 0.0f ? 0.0f : x * x;
    case Activation::swiglu_oai:
      x = x > 7.0f ? 7.0f : x;
      return x / (1.0f + std::exp(-1.702f * x));
  }
  return x;
}

void activate(Activation activation, const float* gate, const float* up, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    float factor = up == nullptr ? 1.0f : up[i];
    if (activation == Activation::swiglu_oai) factor = 1.0f + std::fmin(std::fmax(factor, -7.0f), 7.0f);
    out[i] = activated(activation, gate[i]) * factor;
  }
}

void soft_cap(float* x, float cap, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = cap * std::tanh(x[i] / cap);
}

void add(float* x, const float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] += y[i];
}

void scale(float* x, float s, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= s;
}

std::int64_t argmax(const float* x, std::int64_t n) {
  std::int64_t best = -1;
  for (std::int64_t i = 0; i < n; ++i) {
    if (!std::isnan(x[i]) && (best < 0 || x[i] > x[best])) best = i;
  }
  return best;
}

void causal_conv(const float* const* rows, const float* weights, const float* bias, std::int64_t taps,
                 std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = bias == nullptr ? 0.0 : static_cast<double>(bias[i]);
    for (std::int64_t tap = 0; tap < taps; ++tap)
      sum += static_cast<double>(weights[tap * n + i]) * static_cast<double>(rows[tap][i]);
    out[i] = static_cast<float>(sum / (1.0 + std::exp(-sum)));
  }
}

void state_scan(const StateScan& s) {
  const std::int64_t stride = StateScan::state_stride(s.channels);
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    for (std::int64_t i = 0; i < s.channels; ++i) {
      const float x = s.x[t * s.x_stride + i], in = s.step[t] * x;
      float sum = 0;
      for (std::int64_t j = 0; j < s.n; ++j) {
        float& value = s.state[j * stride + i];
        value = s.decay[t] * value + in * s.b[t * s.bc_stride + j];
        sum += value * s.c[t * s.bc_stride + j];
      }
      s.y[t * s.y_stride + i] = sum + s.skip * x;
    }
  }
}

float max(const float* x, std::int64_t n) {
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < n; ++i) {
    if (x[i] > largest) largest = x[i];
  }
  return largest;
}

double exp_sum(float* x, float max, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = std::exp(x[i] - max);
    sum += static_cast<double>(x[i]);
  }
  return sum;
}

}  // namespace

void fill_rows_reference(KernelTable& table) {
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

}  // namespace lithe::kernels
