#include "sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace lithe::sampling {
namespace {

using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Everything off: samples from softmax(logits).
SamplingOptions plain() {
  SamplingOptions o;
  o.temperature = 1;
  o.top_k = 0;
  o.top_p = 1;
  o.min_p = 0;
  return o;
}

std::vector<float> from_probabilities(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double x : p) logits.push_back(x > 0 ? static_cast<float>(std::log(x)) + 3.0f : -kInf);
  return logits;
}

/// Pearson's statistic of draws against expected probabilities; cells expected below 5 are pooled.
struct ChiSquare {
  double statistic = 0;
  int degrees = 0;
};
ChiSquare chi_square(const std::vector<std::int64_t>& counts, const std::vector<double>& p,
                     std::int64_t draws) {
  ChiSquare out;
  double pooled_expected = 0, pooled_count = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * static_cast<double>(draws);
    if (p[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "drew token " << i << ", which was filtered out";
      continue;
    }
    if (expected < 5) {
      pooled_expected += expected;
      pooled_count += static_cast<double>(counts[i]);
      continue;
    }
    out.statistic += std::pow(static_cast<double>(counts[i]) - expected, 2) / expected;
    ++out.degrees;
  }
  if (pooled_expected >= 5) {
    out.statistic += std::pow(pooled_count - pooled_expected, 2) / pooled_expected;
    ++out.degrees;
  }
  --out.degrees;
  return out;
}

/// The 1 - 1e-4 quantile of chi-square (Wilson and Hilferty 1931).
double critical(int degrees) {
  const double d = degrees, z = 3.719;
  return d * std::pow(1 - 2 / (9 * d) + z * std::sqrt(2 / (9 * d)), 3);
}

std::vector<float> random_logits(std::size_t n, std::uint64_t seed, double spread = 3) {
  Rng rng(seed);
  std::vector<float> logits(n);
  for (auto& x : logits) x = static_cast<float>(spread * rng.normal());
  return logits;
}

/// Over the kernels of every ISA, since the sampler's maximum, its argmax and its sum of exponentials are theirs.
class SamplerTest : public testing::TestWithParam<kernels::Isa> {
 protected:
  static const kernels::KernelTable& table() { return **kernels::kernel_table(GetParam()); }
  static const char* isa() { return kernels::isa_name(GetParam()).data(); }

  /// Normalised probabilities after the filters, by id; zero where dropped.
  std::vector<double> left(const SamplingOptions& options, std::vector<float> logits, History history = {}) {
    Sampler sampler(options, 1, table());
    const auto d = sampler.distribution(logits, history);
    EXPECT_TRUE(d.ok()) << d.status().message();
    std::vector<double> out(logits.size());
    double total = 0;
    for (const auto& c : *d) total += c.weight;
    for (const auto& c : *d) out[static_cast<std::size_t>(c.id)] = c.weight / total;
    return out;
  }

  std::vector<int> kept(const SamplingOptions& options, std::vector<float> logits, History history = {}) {
    std::vector<int> ids;
    const auto p = left(options, std::move(logits), history);
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p[i] > 0) ids.push_back(static_cast<int>(i));
    }
    return ids;
  }

  void expect_distribution(const SamplingOptions& options, const std::vector<float>& logits,
                           const std::vector<double>& p, std::int64_t draws, const std::string& name) {
    Sampler sampler(options, 12345, table());
    std::vector<std::int64_t> counts(logits.size());
    for (std::int64_t i = 0; i < draws; ++i) {
      auto copy = logits;
      const auto id = sampler.sample(copy, {});
      ASSERT_TRUE(id.ok());
      ++counts[static_cast<std::size_t>(*id)];
    }
    const ChiSquare chi = chi_square(counts, p, draws);
    std::printf("[ counts ] %s, %s: %lld draws, chi-square %.1f with %d degrees, limit %.1f\n", isa(),
                name.c_str(), static_cast<long long>(draws), chi.statistic, chi.degrees,
                critical(chi.degrees));
    EXPECT_LT(chi.statistic, critical(chi.degrees)) << name;
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, SamplerTest,
                         testing::ValuesIn(kernels::available_isas().begin(),
                                           kernels::available_isas().end()),
                         [](const auto& isa) { return std::string(kernels::isa_name(isa.param)); });

TEST_P(SamplerTest, DrawsFollowSoftmax) {
  const auto logits = random_logits(32, 7, 1.5);
  std::vector<double> p(32);
  double total = 0;
  for (std::size_t i = 0; i < 32; ++i) total += p[i] = std::exp(static_cast<double>(logits[i]) / 0.8);
  for (auto& x : p) x /= total;
  auto options = plain();
  options.temperature = 0.8f;
  expect_distribution(options, logits, p, 100'000, "temperature 0.8");
}

/// The chain written the slow way: sort everything, cut, renormalise.
std::vector<double> slow_chain(const SamplingOptions& o, const std::vector<float>& logits) {
  struct Entry {
    std::size_t id;
    double p;
    double key;
  };
  std::vector<Entry> list;
  const double max = *std::max_element(logits.begin(), logits.end());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double l = logits[i];
    list.push_back({i, std::exp((l - max) / static_cast<double>(o.temperature)), l});
  }
  const auto by_key = [](const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key > b.key : a.id < b.id;
  };
  std::sort(list.begin(), list.end(), by_key);
  if (o.top_k > 0 && list.size() > static_cast<std::size_t>(o.top_k))
    list.resize(static_cast<std::size_t>(o.top_k));
  const auto cut = [&](double share, double total) {
    double mass = 0;
    std::size_t n = 0;
    while (n < list.size() && mass < share * total) mass += list[n++].p;
    list.resize(std::max<std::size_t>(n, 1));
  };
  const auto sum = [&] {
    double total = 0;
    for (const auto& e : list) total += e.p;
    return total;
  };
  if (o.top_p < 1) cut(static_cast<double>(o.top_p), sum());
  std::erase_if(list, [&](const Entry& e) { return e.p < static_cast<double>(o.min_p); });
  if (o.typical_p < 1) {
    const double total = sum();
    double entropy = 0;
    for (const auto& e : list) entropy -= e.p / total * std::log(e.p / total);
    for (auto& e : list) e.key = -std::abs(-std::log(e.p / total) - entropy);
    std::sort(list.begin(), list.end(), by_key);
    cut(static_cast<double>(o.typical_p), total);
  }
  std::vector<double> out(logits.size());
  const double total = sum();
  for (const auto& e : list) out[e.id] = e.p / total;
  return out;
}

TEST_P(SamplerTest, ChainEqualsTheSlowOne) {
  int compared = 0;
  for (const std::size_t n : {1u, 2u, 63u, 64u, 65u, 500u, 5000u}) {
    for (const int k : {0, 1, 2, 40, 300, 2000}) {
      for (const float top_p : {1.0f, 0.9f, 0.3f, 0.001f}) {
        for (const float min_p : {0.0f, 0.05f, 1.0f}) {
          for (const float typical : {1.0f, 0.7f}) {
            for (const float temperature : {0.2f, 1.0f, 5.0f}) {
              auto o = plain();
              o.top_k = k, o.top_p = top_p, o.min_p = min_p, o.typical_p = typical,
              o.temperature = temperature;
              const auto logits = random_logits(n, n * 31 + static_cast<std::size_t>(k));
              const auto fast = left(o, logits), slow = slow_chain(o, logits);
              for (std::size_t i = 0; i < n; ++i) {
                ASSERT_NEAR(fast[i], slow[i], 2e-6)
                    << "n " << n << " k " << k << " top_p " << top_p << " min_p " << min_p << " typical "
                    << typical << " T " << temperature;
              }
              ++compared;
            }
          }
        }
      }
    }
  }
  std::printf("[ counts ] %s: %d chains equal the slow one\n", isa(), compared);
}

TEST_P(SamplerTest, DrawsFollowTheWholeChain) {
  const auto logits = random_logits(200, 3, 2);
  auto o = plain();
  o.temperature = 1.3f, o.top_k = 50, o.top_p = 0.9f, o.min_p = 0.02f, o.typical_p = 0.95f;
  expect_distribution(o, logits, slow_chain(o, logits), 100'000, "whole chain");
}

TEST_P(SamplerTest, DrawsFromALargeVocabulary) {
  const auto logits = random_logits(2000, 5, 1);
  expect_distribution(plain(), logits, slow_chain(plain(), logits), 100'000, "2000 tokens");
}

TEST_P(SamplerTest, TopKTakesTheLowestIdsOfATie) {
  auto o = plain();
  o.top_k = 3;
  EXPECT_EQ(kept(o, std::vector<float>(100, 1.0f)), (std::vector<int>{0, 1, 2}));
  auto logits = std::vector<float>(100, 1.0f);
  logits[70] = 2.0f;
  EXPECT_EQ(kept(o, logits), (std::vector<int>{0, 1, 70}));
}

TEST_P(SamplerTest, TopPKeepsTheTokenThatCrosses) {
  auto o = plain();
  const auto logits = from_probabilities({0.5, 0.3, 0.15, 0.05});
  o.top_p = 0.49f;
  EXPECT_EQ(kept(o, logits), (std::vector<int>{0}));
  o.top_p = 0.51f;
  EXPECT_EQ(kept(o, logits), (std::vector<int>{0, 1}));
  o.top_p = 0.81f;
  EXPECT_EQ(kept(o, logits), (std::vector<int>{0, 1, 2}));
}

TEST_P(SamplerTest, OrderTopKThenTopPThenMinP) {
  // top_k = 2 leaves .5 and .3, of which top_p = .6 keeps .5 alone (.5 / .8 = .625). Were top_p first, .3
  // would stay.
  auto o = plain();
  const auto logits = from_probabilities({0.5, 0.3, 0.15, 0.05});
  o.top_k = 2, o.top_p = 0.6f;
  EXPECT_EQ(kept(o, logits), (std::vector<int>{0}));
  // top_p takes its share of everything, not of what min_p would leave.
  o = plain();
  o.top_p = 0.9f, o.min_p = 0.5f;
  EXPECT_EQ(kept(o, logits), (std::vector<int>{0, 1}));
}

TEST_P(SamplerTest, TemperatureComesBeforeTheFilters) {
  auto o = plain();
  const auto logits = from_probabilities({0.5, 0.3, 0.15, 0.05});
  o.min_p = 0.5f;
  EXPECT_EQ(kept(o, logits), (std::vector<int>{0, 1}));
  o.temperature = 0.5f;  // squares the ratios: .36 of the likeliest
  EXPECT_EQ(kept(o, logits), (std::vector<int>{0}));
}

TEST_P(SamplerTest, GreedyIgnoresFiltersAndTakesTheLowestIdOfATie) {
  auto o = SamplingOptions::greedy();
  o.top_k = 1, o.top_p = 0.01f;
  Sampler sampler(o, 9, table());
  std::vector<float> logits{1, 5, 3, 5};
  EXPECT_EQ(sampler.sample(logits, {}).value(), 1);
}

TEST_P(SamplerTest, TinyTemperatureIsGreedyWithoutOverflow) {
  auto o = plain();
  o.temperature = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(kept(o, {-1e30f, 2, 1e30f, 2}), (std::vector<int>{2}));
  o.top_k = 2;
  EXPECT_EQ(kept(o, {-1e30f, 2, 1e30f, 2}).back(), 2);
}

TEST_P(SamplerTest, LogitBiasBansAndForces) {
  auto o = plain();
  o.logit_bias = {{0, -100}, {2, 100}};
  Sampler sampler(o, 5, table());
  for (int i = 0; i < 100; ++i) {
    std::vector<float> logits{10, 0, 0, 0};
    EXPECT_EQ(sampler.sample(logits, {}).value(), 2);
  }
}

TEST_P(SamplerTest, PenaltiesByTheirDefinitions) {
  auto o = plain();
  o.repetition_penalty = 2, o.presence_penalty = 0.5f, o.frequency_penalty = 0.25f, o.repeat_last_n = -1;
  const std::vector<std::int32_t> tokens{0, 0, 1, 3, 3, 3, 4};  // prompt 0 0 1, answer 3 3 3 4
  std::vector<float> logits{4, -4, 1, 4, -4, 0};
  Sampler sampler(o, 1, table());
  ASSERT_TRUE(sampler.distribution(logits, {tokens, 3}).ok());
  EXPECT_FLOAT_EQ(logits[0], 2);                     // prompt only: repetition alone
  EXPECT_FLOAT_EQ(logits[1], -8);                    // a negative logit is multiplied
  EXPECT_FLOAT_EQ(logits[2], 1);                     // never seen
  EXPECT_FLOAT_EQ(logits[3], 2 - 0.5f - 3 * 0.25f);  // three times in the answer
  EXPECT_FLOAT_EQ(logits[4], -8 - 0.5f - 0.25f);
  EXPECT_FLOAT_EQ(logits[5], 0);

  o.repeat_last_n = 2;  // sees 3 4
  logits = {4, -4, 1, 4, -4, 0};
  Sampler windowed(o, 1, table());
  ASSERT_TRUE(windowed.distribution(logits, {tokens, 3}).ok());
  EXPECT_FLOAT_EQ(logits[0], 4);
  EXPECT_FLOAT_EQ(logits[3], 2 - 0.75f);
}

TEST_P(SamplerTest, PenaltySurvivesForeignIdsInTheHistory) {
  auto o = plain();
  o.repetition_penalty = 1.5f;
  const std::vector<std::int32_t> tokens{-5, 1'000'000, 0};
  std::vector<float> logits{3, 1};
  Sampler sampler(o, 1, table());
  ASSERT_TRUE(sampler.distribution(logits, {tokens, 3}).ok());
  EXPECT_FLOAT_EQ(logits[0], 2);
}

TEST_P(SamplerTest, AnOverflowingPenaltyIsAnErrorNotAToken) {
  for (auto o : {plain(), SamplingOptions::greedy(), SamplingOptions{}}) {
    o.repetition_penalty = 1e-40f;  // validate() refuses it; the sampler must not crash on it
    const std::vector<std::int32_t> tokens{0};
    std::vector<float> logits{3, 1};
    const auto id = Sampler(o, 1, table()).sample(logits, {tokens, 1});
    ASSERT_FALSE(id.ok());
    EXPECT_THAT(id.status().message(), HasSubstr("infinite"));
  }
}

TEST_P(SamplerTest, SameSeedSameTokensOtherSeedOthers) {
  const auto logits = random_logits(1000, 1);
  const auto draw = [&](std::uint64_t seed) {
    Sampler sampler(plain(), seed, table());
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 50; ++i) {
      auto copy = logits;
      ids.push_back(sampler.sample(copy, {}).value());
    }
    return ids;
  };
  EXPECT_EQ(draw(42), draw(42));
  EXPECT_NE(draw(42), draw(43));
}

TEST_P(SamplerTest, BrokenLogitsAreAnErrorNotAToken) {
  for (const auto& o : {plain(), SamplingOptions::greedy(), SamplingOptions{}}) {
    for (const float bad : {kNan, kInf}) {
      for (const std::size_t at : {0u, 50u, 99u}) {
        auto logits = random_logits(100, 2);
        logits[at] = bad;
        Sampler sampler(o, 1, table());
        const auto id = sampler.sample(logits, {});
        ASSERT_FALSE(id.ok());
        EXPECT_EQ(id.status().code(), Code::internal);
      }
    }
    std::vector<float> all(100, -kInf);
    EXPECT_FALSE(Sampler(o, 1, table()).sample(all, {}).ok());
    std::vector<float> none;
    EXPECT_FALSE(Sampler(o, 1, table()).sample(none, {}).ok());
    all[17] = -5;  // one left: it is the answer whatever the filters
    EXPECT_EQ(Sampler(o, 1, table()).sample(all, {}).value(), 17);
  }
}

TEST(SamplingOptionsTest, ValidateNamesFieldAndRange) {
  const auto fault = [](auto change) {
    SamplingOptions o;
    change(o);
    const Status s = validate(o, 100);
    EXPECT_EQ(s.code(), Code::invalid_argument);
    return s.message();
  };
  EXPECT_TRUE(validate(SamplingOptions{}, 100).ok());
  EXPECT_TRUE(validate(SamplingOptions::greedy(), 100).ok());
  for (const float t : {-0.1f, 1e6f, kNan, kInf}) {
    EXPECT_THAT(fault([&](auto& o) { o.temperature = t; }), HasSubstr("temperature"));
  }
  EXPECT_THAT(fault([](auto& o) { o.top_p = -1; }), HasSubstr("top_p is -1: it must lie in (0, 1]"));
  EXPECT_THAT(fault([](auto& o) { o.top_p = 0; }), HasSubstr("(0, 1]"));
  EXPECT_THAT(fault([](auto& o) { o.top_p = kNan; }), HasSubstr("top_p"));
  EXPECT_THAT(fault([](auto& o) { o.top_k = -1; }), HasSubstr("top_k"));
  EXPECT_THAT(fault([](auto& o) { o.min_p = 1.1f; }), HasSubstr("min_p"));
  EXPECT_THAT(fault([](auto& o) { o.typical_p = 0; }), HasSubstr("typical_p"));
  EXPECT_THAT(fault([](auto& o) { o.repetition_penalty = 0; }), HasSubstr("repetition_penalty"));
  EXPECT_THAT(fault([](auto& o) { o.repetition_penalty = 1e-40f; }), HasSubstr("[0.01, 10]"));
  EXPECT_THAT(fault([](auto& o) { o.presence_penalty = 3; }), HasSubstr("presence_penalty"));
  EXPECT_THAT(fault([](auto& o) { o.frequency_penalty = kNan; }), HasSubstr("frequency_penalty"));
  EXPECT_THAT(fault([](auto& o) { o.repeat_last_n = -2; }), HasSubstr("repeat_last_n"));
  EXPECT_THAT(fault([](auto& o) { o.logit_bias[100] = 1; }), HasSubstr("token 100: ids lie in [0, 100)"));
  EXPECT_THAT(fault([](auto& o) { o.logit_bias[-1] = 1; }), HasSubstr("logit_bias"));
  EXPECT_THAT(fault([](auto& o) { o.logit_bias[1] = 1e9f; }), HasSubstr("[-100, 100]"));
  EXPECT_THAT(fault([](auto& o) {
                for (int i = 0; i < 2000; ++i) o.logit_bias[i] = 1;
              }),
              HasSubstr("at most 1024"));
}

/// Not a limit, a report: a sampled token must cost little beside a decode step of milliseconds.
TEST_P(SamplerTest, ReportsItsCostAtALargeVocabulary) {
  const auto logits = random_logits(152'000, 1, 2);
  struct Case {
    const char* name;
    SamplingOptions options;
  };
  std::vector<Case> cases{
      {"default", {}}, {"greedy", SamplingOptions::greedy()}, {"plain", plain()}, {"top_p", plain()}};
  cases[3].options.top_p = 0.95f;
  for (const auto& c : cases) {
    Sampler sampler(c.options, 1, table());
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      auto copy = logits;
      const auto start = std::chrono::steady_clock::now();
      ASSERT_TRUE(sampler.sample(copy, {}).ok());
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::printf("[ time ] %s, %s: %.0f us for 152,000 logits\n", isa(), c.name, best * 1e6);
  }
}

}  // namespace
}  // namespace lithe::sampling
