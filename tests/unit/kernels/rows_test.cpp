// The row kernels of every table against f64, on lengths around every vector width.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"

namespace lithe::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kLengths[] = {1,  2,  3,  7,  8,   15,  16,  17,   31,
                                     33, 63, 64, 65, 100, 127, 576, 1000, 1536};

std::vector<float> random(std::int64_t n, std::uint64_t seed, double spread = 1) {
  Rng rng(seed);
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& value : x) value = static_cast<float>(spread * rng.normal());
  return x;
}

class RowsTest : public testing::TestWithParam<Isa> {
 protected:
  const KernelTable& kernels() { return **kernel_table(GetParam()); }

  /// A row of n floats with a guard behind, so that a write past the end shows.
  struct Row {
    explicit Row(std::int64_t n) : values(static_cast<std::size_t>(n) + 1, 123.0f) {}
    float* data() { return values.data(); }
    std::vector<float> values;
  };
  template <typename Want>
  void expect(const Row& row, std::int64_t n, double tolerance, Want want) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double w = want(static_cast<std::size_t>(i));
      const auto got = static_cast<double>(row.values[static_cast<std::size_t>(i)]);
      ASSERT_NEAR(got, w, tolerance * (1 + std::fabs(w))) << "n " << n << " i " << i;
      ++compared_;
    }
    ASSERT_EQ(row.values.back(), 123.0f) << "n " << n;
  }
  void TearDown() override { std::printf("[ counts ] %lld values\n", static_cast<long long>(compared_)); }

  std::int64_t compared_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Isas, RowsTest, testing::ValuesIn(available_isas().begin(), available_isas().end()),
                         [](const auto& isa) { return std::string(isa_name(isa.param)); });

TEST_P(RowsTest, Norms) {
  for (const std::int64_t n : kLengths) {
    const auto x = random(n, 1, 3), weight = random(n, 2), bias = random(n, 3);
    double mean = 0, squares = 0, variance = 0;
    for (const float v : x)
      mean += static_cast<double>(v), squares += static_cast<double>(v) * static_cast<double>(v);
    mean /= static_cast<double>(n), squares /= static_cast<double>(n);
    for (const float v : x) variance += std::pow(static_cast<double>(v) - mean, 2) / static_cast<double>(n);
    Row out(n);
    kernels().rms_norm(x.data(), weight.data(), 1e-5f, n, out.data());
    expect(out, n, 1e-6, [&](std::size_t i) {
      return static_cast<double>(x[i]) / std::sqrt(squares + 1e-5) * static_cast<double>(weight[i]);
    });
    for (const float* b : {bias.data(), static_cast<const float*>(nullptr)}) {
      kernels().layer_norm(x.data(), weight.data(), b, 1e-3f, n, out.data());
      expect(out, n, n < 4 ? 2e-5 : 3e-6, [&](std::size_t i) {
        return (static_cast<double>(x[i]) - mean) / std::sqrt(variance + 1e-3) *
                   static_cast<double>(weight[i]) +
               (b != nullptr ? static_cast<double>(b[i]) : 0.0);
      });
    }
    Row in_place(n);
    std::copy(x.begin(), x.end(), in_place.data());
    kernels().rms_norm(in_place.data(), weight.data(), 1e-5f, n, in_place.data());
    kernels().rms_norm(x.data(), weight.data(), 1e-5f, n, out.data());
    ASSERT_EQ(in_place.values, out.values);
  }
}

TEST_P(RowsTest, Rope) {
  for (const std::int64_t head_dim : {2, 6, 16, 34, 64, 80, 128}) {
    for (const std::int64_t rotary : {head_dim, head_dim / 4 * 2}) {
      const std::int64_t heads = 3, n = heads * head_dim, pairs = rotary / 2;
      std::vector<float> cos, sin;
      for (std::int64_t i = 0; i < pairs; ++i) {
        cos.push_back(static_cast<float>(std::cos(0.37 * static_cast<double>(i + 1))));
        sin.push_back(static_cast<float>(std::sin(0.37 * static_cast<double>(i + 1))));
      }
      for (const bool interleaved : {false, true}) {
        const auto x = random(n, 4);
        Row row(n);
        std::copy(x.begin(), x.end(), row.data());
        kernels().rope(row.data(), heads, head_dim, rotary, cos.data(), sin.data(), interleaved);
        expect(row, n, 1e-6, [&](std::size_t at) {
          const auto dim = static_cast<std::size_t>(head_dim), half = static_cast<std::size_t>(pairs);
          const std::size_t i = at % dim, head = at - i;
          if (i >= 2 * half) return static_cast<double>(x[at]);
          const std::size_t pair = interleaved ? i / 2 : i % half;
          const bool second = interleaved ? i % 2 == 1 : i >= half;
          const auto a = static_cast<double>(x[head + (interleaved ? 2 * pair : pair)]);
          const auto b = static_cast<double>(x[head + (interleaved ? 2 * pair + 1 : pair + half)]);
          const auto c = static_cast<double>(cos[pair]), s = static_cast<double>(sin[pair]);
          return second ? b * c + a * s : a * c - b * s;
        });
      }
    }
  }
}

using Formula = double (*)(double gate, double up);
std::vector<std::pair<Activation, Formula>> formulas() {
  return {
      {Activation::silu, [](double g, double u) { return g / (1 + std::exp(-g)) * u; }},
      {Activation::gelu_tanh,
       [](double g, double u) {
         return 0.5 * g * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))) * u;
       }},
      {Activation::gelu_erf, [](double g, double u) { return 0.5 * g * (1 + std::erf(g / M_SQRT2)) * u; }},
      {Activation::relu, [](double g, double u) { return std::max(g, 0.0) * u; }},
      {Activation::relu_squared, [](double g, double u) { return std::max(g, 0.0) * std::max(g, 0.0) * u; }},
      {Activation::swiglu_oai,
       [](double g, double u) {
         g = std::min(g, 7.0);
         return g / (1 + std::exp(-1.702 * g)) * (std::clamp(u, -7.0, 7.0) + 1);
       }},
  };
}

TEST_P(RowsTest, Activations) {
  for (const std::int64_t n : kLengths) {
    auto gate = random(n, 5, 6);
    const auto up = random(n, 6);
    const float special[] = {0.0f, -0.0f, 100.0f, -100.0f, 30.0f, -30.0f, 88.5f, -88.5f, 1e-6f};
    for (std::size_t i = 0; i < std::size(special) && i + 3 < gate.size(); ++i) gate[i] = special[i];
    Row out(n);
    for (const auto& [activation, formula] : formulas()) {
      for (const bool with_up : {true, false}) {
        if (!with_up && activation == Activation::swiglu_oai) continue;
        kernels().activate(activation, gate.data(), with_up ? up.data() : nullptr, n, out.data());
        expect(out, n, 2e-6, [&, f = formula](std::size_t i) {
          return f(static_cast<double>(gate[i]), with_up ? static_cast<double>(up[i]) : 1.0);
        });
      }
    }
    std::copy_n(gate.data(), n, out.data());
    kernels().soft_cap(out.data(), 30.0f, n);
    expect(out, n, 6e-6,
           [&](std::size_t i) { return 30.0 * std::tanh(static_cast<double>(gate[i]) / 30.0); });
  }
}

TEST_P(RowsTest, AddAndScale) {
  for (const std::int64_t n : kLengths) {
    const auto x = random(n, 7), y = random(n, 8);
    Row row(n);
    std::copy(x.begin(), x.end(), row.data());
    kernels().add(row.data(), y.data(), n);
    expect(row, n, 0, [&](std::size_t i) { return static_cast<double>(x[i] + y[i]); });
    kernels().scale(row.data(), 1.7f, n);
    expect(row, n, 0, [&](std::size_t i) { return static_cast<double>((x[i] + y[i]) * 1.7f); });
  }
}

TEST_P(RowsTest, CausalConv) {
  for (const std::int64_t n : kLengths) {
    for (const std::int64_t taps : {1, 3, 4, 7}) {
      const auto weights = random(taps * n, 20), bias = random(n, 21), x = random(taps * n + 3, 22);
      std::vector<const float*> rows;
      for (std::int64_t tap = 0; tap < taps; ++tap)
        rows.push_back(x.data() + tap * n + tap % 3);  // misaligned
      for (const bool biased : {true, false}) {
        Row out(n);
        kernels().causal_conv(rows.data(), weights.data(), biased ? bias.data() : nullptr, taps, n,
                              out.data());
        expect(out, n, 2e-6, [&](std::size_t i) {
          double sum = biased ? static_cast<double>(bias[i]) : 0.0;
          for (std::size_t tap = 0; tap < rows.size(); ++tap)
            sum += static_cast<double>(weights[tap * static_cast<std::size_t>(n) + i]) *
                   static_cast<double>(rows[tap][i]);
          return sum / (1 + std::exp(-sum));
        });
      }
    }
  }
}

// Many tokens, so that an error of the state would grow; in one call and in pieces, whose bits must agree.
TEST_P(RowsTest, StateScans) {
  constexpr std::int64_t kTokens = 21;
  for (const std::int64_t channels : {1, 3, 7, 16, 17, 40, 64, 100, 131}) {
    for (const std::int64_t n : {1, 5, 16, 33}) {
      const std::int64_t stride = StateScan::state_stride(channels);
      const std::int64_t x_stride = channels + 3, bc_stride = 2 * n + 1, y_stride = channels + 5;
      const auto x = random(kTokens * x_stride, 30), bc = random(kTokens * bc_stride, 60),
                 step = random(kTokens, 90);
      std::vector<float> decay(kTokens);
      for (std::size_t t = 0; t < decay.size(); ++t) decay[t] = 1.0f / static_cast<float>(t % 4 + 1);
      constexpr float kSkip = 0.7f;
      const auto scan = [&](std::int64_t begin, std::int64_t end, Row& state, Row& y) {
        kernels().state_scan({.tokens = end - begin,
                              .channels = channels,
                              .n = n,
                              .state = state.data(),
                              .x = x.data() + begin * x_stride,
                              .b = bc.data() + begin * bc_stride,
                              .c = bc.data() + begin * bc_stride + n,
                              .decay = decay.data() + begin,
                              .step = step.data() + begin,
                              .skip = kSkip,
                              .y = y.data() + begin * y_stride,
                              .x_stride = x_stride,
                              .bc_stride = bc_stride,
                              .y_stride = y_stride});
      };
      const auto fresh = [&] {
        Row state(n * stride);
        std::fill(state.values.begin(), state.values.end() - 1, 0.0f);
        return state;
      };
      Row state = fresh(), y(kTokens * y_stride);
      scan(0, kTokens, state, y);
      std::vector<double> exact(static_cast<std::size_t>(n * channels));
      for (std::int64_t t = 0; t < kTokens; ++t) {
        for (std::int64_t i = 0; i < y_stride; ++i) {
          const float got = y.values[static_cast<std::size_t>(t * y_stride + i)];
          if (i >= channels) {
            ASSERT_EQ(got, 123.0f) << "behind a row";
            continue;
          }
          const auto value = [](const std::vector<float>& from, std::int64_t at) {
            return static_cast<double>(from[static_cast<std::size_t>(at)]);
          };
          const double in = value(x, t * x_stride + i);
          double want = static_cast<double>(kSkip) * in;
          for (std::int64_t j = 0; j < n; ++j) {
            double& number = exact[static_cast<std::size_t>(j * channels + i)];
            number = value(decay, t) * number + value(step, t) * in * value(bc, t * bc_stride + j);
            want += number * value(bc, t * bc_stride + n + j);
          }
          ASSERT_NEAR(static_cast<double>(got), want, 3e-5 * (1 + std::fabs(want)))
              << channels << " channels, n " << n << ", token " << t;
          ++compared_;
        }
      }
      expect(state, n * stride, 3e-6, [&](std::size_t at) {
        const std::int64_t row = static_cast<std::int64_t>(at) / stride,
                           i = static_cast<std::int64_t>(at) % stride;
        return i < channels ? exact[static_cast<std::size_t>(row * channels + i)] : 0.0;
      });
      for (const std::int64_t piece : {1, 3, 6}) {
        Row again = fresh(), out(kTokens * y_stride);
        for (std::int64_t begin = 0; begin < kTokens; begin += piece)
          scan(begin, std::min(begin + piece, kTokens), again, out);
        ASSERT_EQ(out.values, y.values) << channels << " channels, n " << n << ", pieces of " << piece;
        ASSERT_EQ(again.values, state.values);
      }
    }
  }
}

TEST_P(RowsTest, MaxAndArgmax) {
  for (const std::int64_t n : kLengths) {
    auto x = random(n, 9);
    for (std::int64_t at = 0; at < n; at += 1 + n / 13) {
      auto y = x;
      y[static_cast<std::size_t>(at)] = 50;
      if (at + 1 < n) y.back() = 50;  // the lowest index wins
      ASSERT_EQ(kernels().argmax(y.data(), n), at) << n;
      ASSERT_EQ(kernels().max(y.data(), n), 50.0f);
      ++compared_;
      if (n > 2) {
        y[static_cast<std::size_t>((at + 1) % n)] = kNan;
        ASSERT_EQ(kernels().argmax(y.data(), n), at) << n;
        ASSERT_EQ(kernels().max(y.data(), n), 50.0f);
        ++compared_;
      }
    }
    std::fill(x.begin(), x.end(), kNan);
    ASSERT_EQ(kernels().argmax(x.data(), n), -1);
    x.back() = -kInfinity;
    ASSERT_EQ(kernels().argmax(x.data(), n), n - 1);
  }
}

TEST_P(RowsTest, ExpSum) {
  for (const std::int64_t n : kLengths) {
    auto x = random(n, 10, 8);
    float max = -kInfinity;
    for (const float v : x) max = std::max(max, v);
    if (n > 5) x[1] = -kInfinity, x[3] = max - 200;
    Row row(n);
    std::copy(x.begin(), x.end(), row.data());
    const double sum = kernels().exp_sum(row.data(), max, n);
    double want = 0;
    for (const float v : x) want += std::exp(static_cast<double>(v - max));
    EXPECT_NEAR(sum, want, 1e-6 * want);
    for (std::int64_t i = 0; i < n; ++i) {
      const double w = std::exp(static_cast<double>(x[static_cast<std::size_t>(i)] - max));
      ASSERT_NEAR(static_cast<double>(row.values[static_cast<std::size_t>(i)]), w, 1e-6 * w + 2e-38);
      ++compared_;
    }
    ASSERT_EQ(row.values.back(), 123.0f);
    if (n > 5) {
      ASSERT_EQ(row.values[1], 0.0f);
    }
    // The same sum every time: a sampler's draw depends on it.
    std::copy(x.begin(), x.end(), row.data());
    ASSERT_EQ(kernels().exp_sum(row.data(), max, n), sum);
  }
}

// exp(x) within 2e-7 over its whole range.
TEST_P(RowsTest, ExpIsAccurate) {
  double worst = 0;
  for (float start = -87; start < 0; start += 1) {
    std::vector<float> x(4096), y;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = start + static_cast<float>(i) / 4096;
    y = x;
    kernels().exp_sum(y.data(), 0, static_cast<std::int64_t>(y.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(static_cast<double>(x[i]));
      worst = std::max(worst, std::fabs(static_cast<double>(y[i]) - want) / want);
      ++compared_;
    }
  }
  EXPECT_LT(worst, GetParam() == Isa::portable ? 3e-7 : 2e-7);  // portable has no fused multiply-add
  std::printf("[ counts ] exp: largest relative error %.2e\n", worst);
}

}  // namespace
}  // namespace lithe::kernels
