// Mixtures of experts: who is chosen, and that a batch is its tokens one by one.
#include "layers/moe.h"

#include <gtest/gtest.h>
#include <array>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "base/rng.h"

namespace lithe::layers {
namespace {

std::vector<float> noise(std::int64_t count, std::uint64_t seed, double scale = 1) {
  Rng rng(seed);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& value : out) value = static_cast<float>(scale * rng.normal());
  return out;
}

std::vector<ExpertChoice> choose(const RouterRule& rule, const std::vector<float>& logits,
                                 const std::vector<float>& bias = {}) {
  std::vector<ExpertChoice> out(static_cast<std::size_t>(rule.used));
  choose_experts(rule, logits, bias, out);
  return out;
}

TEST(Router, SoftmaxOverAllOrOverTheChosen) {
  const std::vector<float> logits{0.0f, 2.0f, 1.0f, -1.0f};
  const double sum = std::exp(0) + std::exp(2) + std::exp(1) + std::exp(-1);
  const auto plain = choose({.experts = 4, .used = 2}, logits);
  EXPECT_EQ(plain[0].expert, 1);
  EXPECT_EQ(plain[1].expert, 2);
  EXPECT_NEAR(plain[0].weight, std::exp(2) / sum, 1e-6);
  EXPECT_NEAR(plain[1].weight, std::exp(1) / sum, 1e-6);
  const auto normal = choose({.experts = 4, .used = 2, .normalise = true, .scale = 2.5f}, logits);
  const auto late = choose({.experts = 4, .used = 2, .score = RouterScore::softmax_of_chosen}, logits);
  EXPECT_NEAR(normal[0].weight + normal[1].weight, 2.5, 1e-6);
  for (int i = 0; i < 2; ++i)
    EXPECT_NEAR(normal[i].weight, 2.5f * late[i].weight, 1e-6);  // the same rule, said twice
}

TEST(Router, EqualsGoToTheLowestIndex) {
  const auto chosen = choose({.experts = 5, .used = 3}, {1, 3, 3, 1, 1});
  EXPECT_EQ(chosen[0].expert, 1);
  EXPECT_EQ(chosen[1].expert, 2);
  EXPECT_EQ(chosen[2].expert, 0);
}

TEST(Router, ABiasChoosesButDoesNotWeigh) {
  const RouterRule rule{.experts = 3, .used = 1, .score = RouterScore::sigmoid};
  const auto chosen = choose(rule, {2.0f, 1.0f, 0.0f}, {0.0f, 0.0f, 5.0f});
  EXPECT_EQ(chosen[0].expert, 2);
  EXPECT_NEAR(chosen[0].weight, 0.5, 1e-6);
}

// Two groups of three: the single best expert lies in the group whose two best are worse together.
TEST(Router, GroupsAreChosenFirst) {
  const std::vector<float> logits{3.0f, -9.0f, -9.0f, 1.5f, 1.4f, 1.3f};
  RouterRule rule{.experts = 6, .used = 2, .score = RouterScore::sigmoid, .groups = 2, .groups_used = 1};
  rule.group_best = 1;
  EXPECT_EQ(choose(rule, logits)[0].expert, 0);
  rule.group_best = 2;
  const auto chosen = choose(rule, logits);
  EXPECT_EQ(chosen[0].expert, 3);
  EXPECT_EQ(chosen[1].expert, 4);
}

TEST(Router, AFaultStaysVisible) {
  const auto chosen = choose({.experts = 3, .used = 2}, {NAN, 1, 2});
  for (const ExpertChoice& choice : chosen) {
    EXPECT_TRUE(std::isnan(choice.weight));
    EXPECT_TRUE(choice.expert >= 0 && choice.expert < 3);
  }
}

// A mixture of odd sizes; the last expert is never asked unless all are.
class MoeTest : public testing::TestWithParam<kernels::Isa> {
 protected:
  static constexpr std::int64_t kHidden = 64, kWidth = 37, kExperts = 6, kShared = 41;

  MoeTest() : table_(**kernels::kernel_table(GetParam())), pool_(3), context_(pool_, table_) {}

  Linear matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed, DType dtype, bool full) {
    memories_.push_back(std::move(*WeightMemory::create(Linear::packed_bytes(dtype, rows, cols))));
    const std::vector<float> values = noise(rows * cols, seed, 0.2);
    std::vector<std::byte> bytes(*row_bytes(dtype, static_cast<std::uint64_t>(cols)) *
                                 static_cast<std::size_t>(rows));
    block_format(dtype).encode(values.data(), rows * cols, bytes.data());
    return Linear::pack({dtype, rows, cols, bytes}, choose_arithmetic(dtype, table_, full), memories_.back(),
                        pool_);
  }

  Moe mixture(int used, DType dtype, bool full) {
    Moe moe;
    moe.rule = {.experts = kExperts, .used = used, .normalise = true};
    moe.router = matrix(kExperts, kHidden, 1, DType::f32, true);
    moe.router.set_bias({0, 0, 0, 0, 0, -100});
    for (std::uint64_t i = 0; i < kExperts; ++i) {
      moe.gate.push_back(matrix(kWidth, kHidden, 10 + i, dtype, full));
      moe.up.push_back(matrix(kWidth, kHidden, 20 + i, dtype, full));
      moe.down.push_back(matrix(kHidden, kWidth, 30 + i, DType::f32, true));
    }
    moe.shared = {FfnKind::gated, Activation::silu, matrix(kShared, kHidden, 40, dtype, full),
                  matrix(kShared, kHidden, 41, dtype, full), matrix(kHidden, kShared, 42, DType::f32, true)};
    moe.shared_gate = matrix(1, kHidden, 43, DType::f32, true);
    return moe;
  }

  std::vector<float> run(const Moe& moe, const std::vector<float>& x) {
    const std::int64_t rows = std::ssize(x) / kHidden;
    std::vector<float> out(x.size(), 0.5f);
    context_.arena().reset();
    moe.run(context_, 3, {.x = x.data(), .stride = kHidden, .rows = rows, .cols = kHidden}, out.data(),
            kHidden, true);
    return out;
  }

  const kernels::KernelTable& table_;
  ThreadPool pool_;
  ExecContext context_;
  std::vector<WeightMemory> memories_;
};

// One token: each chosen expert as a feed-forward layer of its own, weighed and added.
TEST_P(MoeTest, IsTheSumOfItsExperts) {
  for (const int used : {1, 2, static_cast<int>(kExperts)}) {
    const Moe moe = mixture(used, DType::f32, true);
    for (std::uint64_t seed = 50; seed < 60; ++seed) {
      const std::vector<float> x = noise(kHidden, seed);
      std::vector<float> expected(kHidden, 0.5f), logits(kExperts);
      const LinearInput input{.x = x.data(), .stride = kHidden, .rows = 1, .cols = kHidden};
      const std::array routed{Product{&moe.router, logits.data(), kExperts}};
      multiply(context_, input, routed);
      const auto add = [&](const Ffn& ffn, double weight) {
        std::vector<float> part(kHidden);
        ffn.run(context_, input, part.data(), kHidden, false);
        for (std::size_t i = 0; i < part.size(); ++i) expected[i] += static_cast<float>(weight * part[i]);
      };
      for (const ExpertChoice& choice : choose(moe.rule, logits)) {
        const auto e = static_cast<std::size_t>(choice.expert);
        add({FfnKind::gated, Activation::silu, moe.gate[e], moe.up[e], moe.down[e]}, choice.weight);
      }
      std::vector<float> gate(1);
      const std::array weighed{Product{&moe.shared_gate, gate.data(), 1}};
      multiply(context_, input, weighed);
      add(moe.shared, 1 / (1 + std::exp(-static_cast<double>(gate[0]))));
      const std::vector<float> out = run(moe, x);
      for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-5);
    }
  }
}

// Promise 1: a token's bits do not depend on who else is in the batch, nor on where.
TEST_P(MoeTest, ABatchIsItsTokensOneByOne) {
  std::int64_t compared = 0;
  for (const DType dtype : {DType::f32, DType::q8_0}) {
    const Moe moe = mixture(2, dtype, false);
    constexpr std::int64_t kRows = 45;
    const std::vector<float> x = noise(kRows * kHidden, 70);
    const std::vector<float> whole = run(moe, x);
    std::vector<std::int64_t> order(kRows);
    std::iota(order.begin(), order.end(), 0);
    Rng rng(71);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.next_u64() % i]);
    std::vector<float> shuffled;
    for (const std::int64_t row : order)
      shuffled.insert(shuffled.end(), &x[row * kHidden], &x[row * kHidden] + kHidden);
    const std::vector<float> out = run(moe, shuffled);
    for (std::int64_t i = 0; i < kRows; ++i) {
      const std::int64_t row = order[static_cast<std::size_t>(i)];
      const std::vector<float> alone = run(moe, {&x[row * kHidden], &x[row * kHidden] + kHidden});
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), &whole[row * kHidden])) << row;
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), &out[i * kHidden])) << row;
      compared += 2 * kHidden;
    }
  }
  std::printf("[ counts ] %lld values bit-equal in any company\n", static_cast<long long>(compared));
}

TEST_P(MoeTest, ScratchIsPriced) {
  const Moe alike = mixture(3, DType::q8_0, false);
  Moe mixed = mixture(3, DType::q8_0, false);  // gate and up want their common input in two forms
  mixed.gate = mixture(3, DType::f32, true).gate;
  for (const Moe* const moe : std::array<const Moe*, 2>{&alike, &mixed}) {
    for (const std::int64_t rows : {1, 5, 64, 300}) {
      ExecContext fresh(pool_, table_);
      const std::vector<float> x = noise(rows * kHidden, 80);
      std::vector<float> out(x.size());
      moe->run(fresh, 0, {.x = x.data(), .stride = kHidden, .rows = rows, .cols = kHidden}, out.data(),
               kHidden, false);
      EXPECT_LE(fresh.arena().high_water(), moe->scratch(table_, rows).arena) << rows;
    }
  }
}

// An Observer hears the router and, of each expert that is asked, its rows.
TEST_P(MoeTest, TheObserverHearsWhoGoesWhere) {
  struct Ears : Observer {
    std::map<int, std::int64_t> rows_of;
    std::vector<float> logits;
    int layer = -1;
    void on_linear_input(int id, const float*, std::int64_t rows, std::int64_t, std::int64_t) override {
      rows_of[id] += rows;
    }
    void on_router(int at, const float* values, std::int64_t rows, std::int64_t experts) override {
      layer = at;
      logits.assign(values, values + rows * experts);
    }
  } ears;
  Moe moe = mixture(2, DType::f32, true);
  for (std::size_t i = 0; i < moe.up.size(); ++i)
    moe.up[i].describe(100 + static_cast<int>(i), "", ShardRole::replicated);
  constexpr std::int64_t kRows = 20;
  context_.set_observer(&ears);
  run(moe, noise(kRows * kHidden, 90));
  context_.set_observer(nullptr);
  EXPECT_EQ(ears.layer, 3);
  EXPECT_EQ(std::ssize(ears.logits), kRows * kExperts);
  std::map<int, std::int64_t> expected;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const std::vector<float> logits(&ears.logits[row * kExperts], &ears.logits[row * kExperts] + kExperts);
    for (const ExpertChoice& choice : choose(moe.rule, logits)) ++expected[100 + choice.expert];
  }
  for (int id = 100; id < 100 + kExperts; ++id) EXPECT_EQ(ears.rows_of[id], expected[id]) << id;
  EXPECT_EQ(ears.rows_of[100 + kExperts - 1], 0);
}

INSTANTIATE_TEST_SUITE_P(Isas, MoeTest,
                         testing::ValuesIn(kernels::available_isas().begin(),
                                           kernels::available_isas().end()),
                         [](const auto& instance) { return std::string(kernels::isa_name(instance.param)); });

}  // namespace
}  // namespace lithe::layers
