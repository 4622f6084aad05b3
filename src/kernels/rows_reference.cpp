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

void silu_mul(const float* gate, const float* up, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

void gelu_mul(const float* gate, const float* up, std::int64_t n, float* out) {
  constexpr float kSqrt2OverPi = 0.7978845608f;
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = gate[i];
    out[i] = 0.5f * x * (1.0f + std::tanh(kSqrt2OverPi * (x + 0.044715f * x * x * x))) * up[i];
  }
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
  table.silu_mul = silu_mul;
  table.gelu_mul = gelu_mul;
  table.add = add;
  table.scale = scale;
  table.argmax = argmax;
  table.max = max;
  table.exp_sum = exp_sum;
}

}  // namespace lithe::kernels
