// Promise 1 through layers::attention: threads, neighbours in the batch and chunks change no bit.
#include "layers/attention.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <deque>

#include "../kernels/attention_case.h"

namespace lithe::layers {
namespace {

using kernels::AttentionCase;
using kernels::AttentionJob;
using kernels::AttentionShape;

class LayerAttentionTest : public testing::TestWithParam<kernels::Isa> {
 protected:
  const kernels::KernelTable& table() { return **kernels::kernel_table(GetParam()); }
  bool slow() const { return GetParam() == kernels::Isa::reference; }
};
INSTANTIATE_TEST_SUITE_P(Isas, LayerAttentionTest,
                         testing::ValuesIn(kernels::available_isas().begin(),
                                           kernels::available_isas().end()),
                         [](const auto& isa) { return std::string(kernels::isa_name(isa.param)); });

std::vector<AttentionShape> mixed_batch(std::int64_t longest) {
  std::vector<AttentionShape> shapes;
  for (const std::int64_t tokens :
       {std::int64_t{1}, std::int64_t{40}, std::int64_t{120}, longest, std::int64_t{257}}) {
    AttentionShape shape;
    shape.tokens = tokens;
    shape.group = 3;
    shape.kv_heads = 2;
    shape.sinks = tokens == 40;
    shape.window = tokens == 120 ? 70 : 0;
    shapes.push_back(shape);
  }
  return shapes;
}

// All rows of one sequence, alone, on one thread.
std::vector<float> alone(const kernels::KernelTable& table, AttentionCase& c) {
  ThreadPool pool(1);
  ExecContext context(pool, table);
  std::vector<float> out = c.blank();
  const AttentionJob job = c.job(0, c.shape.tokens, c.shape.tokens, out);
  attention(context, AttentionMode::flash, {&job, 1});
  return out;
}

bool rows_equal(const AttentionCase& c, const std::vector<float>& a, const std::vector<float>& b,
                std::int64_t begin) {
  const auto from = static_cast<std::size_t>(begin * c.out_stride);
  return std::memcmp(a.data() + from, b.data() + from, (a.size() - from) * sizeof(float)) == 0;
}

// Prefill of all, decode of the last row, and a few last rows, in batches on 1, 2, 3 and 5 threads.
TEST_P(LayerAttentionTest, ThreadsAndNeighboursDoNotChangeABit) {
  std::int64_t values = 0;
  const std::int64_t longest = slow() ? 300 : 1300;
  for (const DType dtype : {DType::f16, DType::q8_0, DType::f32}) {
    if (slow() && dtype != DType::f16) continue;
    std::deque<AttentionCase> cases;
    std::vector<std::vector<float>> want;
    std::uint64_t seed = 50;
    for (AttentionShape shape : mixed_batch(longest)) {
      shape.dtype = dtype;
      shape.f32_arithmetic = false;
      AttentionCase& c = cases.emplace_back(shape, seed++);
      c.store(table(), 0, shape.tokens);
      want.push_back(alone(table(), c));
    }
    for (const int threads : {1, 2, 3, 5}) {
      if (slow() && threads != 2) continue;
      ThreadPool pool(threads);
      ExecContext context(pool, table());
      for (const std::int64_t rows :
           {std::int64_t{1}, std::int64_t{4}, std::int64_t{30}, std::int64_t{100000}}) {
        std::vector<std::vector<float>> got;
        std::vector<AttentionJob> jobs;
        for (AttentionCase& c : cases) got.push_back(c.blank());
        for (std::size_t i = 0; i < cases.size(); ++i) {
          const std::int64_t tokens = cases[i].shape.tokens;
          jobs.push_back(cases[i].job(std::max<std::int64_t>(0, tokens - rows), tokens, tokens, got[i]));
        }
        attention(context, AttentionMode::flash, jobs);
        // The long sequence alone as well: then it is split at key blocks.
        std::vector<float> single = cases[3].blank();
        const AttentionJob job =
            cases[3].job(std::max<std::int64_t>(0, longest - rows), longest, longest, single);
        attention(context, AttentionMode::flash, {&job, 1});
        EXPECT_TRUE(rows_equal(cases[3], want[3], single, std::max<std::int64_t>(0, longest - rows)))
            << threads << " threads, " << rows << " rows";
        for (std::size_t i = 0; i < cases.size(); ++i) {
          const std::int64_t begin = std::max<std::int64_t>(0, cases[i].shape.tokens - rows);
          EXPECT_TRUE(rows_equal(cases[i], want[i], got[i], begin))
              << cases[i].shape.text() << " " << threads << " threads, " << rows << " rows";
          values += (cases[i].shape.tokens - begin) * cases[i].out_stride;
        }
      }
      EXPECT_GT(context.peak_attention_bytes(), 0u);
    }
  }
  std::printf("[ counts ] %lld values bit-equal\n", static_cast<long long>(values));
}

TEST_P(LayerAttentionTest, AlternativesAgreeAndTakeTheMemoryTheySay) {
  AttentionShape shape;
  shape.tokens = slow() ? 300 : 1100;
  shape.group = 3;
  AttentionCase c(shape, 60);
  c.store(table(), 0, shape.tokens);
  const std::vector<double> exact = c.exact();
  ThreadPool pool(2);
  std::uint64_t peak[3] = {};
  for (const AttentionMode mode : {AttentionMode::flash, AttentionMode::naive, AttentionMode::chunked}) {
    ExecContext context(pool, table());
    std::vector<float> out = c.blank();
    const AttentionJob job = c.job(0, shape.tokens, shape.tokens, out);
    attention(context, mode, {&job, 1});
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (!std::isnan(exact[i])) {
        ASSERT_NEAR(static_cast<double>(out[i]), exact[i], 1e-5) << i;
      }
    }
    peak[static_cast<int>(mode)] = context.peak_attention_bytes();
  }
  // Every score of a head, on each of two threads.
  EXPECT_GE(peak[1], static_cast<std::uint64_t>(2 * shape.tokens * shape.tokens * 4));
  EXPECT_LT(peak[0], 2u << 20);
  EXPECT_LT(peak[2], 2u << 20);
}

// Memory of the default does not depend on the square of the length, nor on the length.
TEST_P(LayerAttentionTest, FlashMemoryIsIndependentOfTheLength) {
  if (slow()) GTEST_SKIP() << "slow";
  ThreadPool pool(2);
  std::uint64_t peak[2] = {};
  int at = 0;
  for (const std::int64_t tokens : {512, 4096}) {
    AttentionShape shape;
    shape.tokens = tokens;
    AttentionCase c(shape, 61);
    c.store(table(), 0, shape.tokens);
    ExecContext context(pool, table());
    std::vector<float> out = c.blank();
    const AttentionJob job = c.job(0, tokens, tokens, out);
    attention(context, AttentionMode::flash, {&job, 1});
    peak[at++] = context.peak_attention_bytes();
  }
  EXPECT_LT(peak[1], peak[0] + (256u << 10));
}

}  // namespace
}  // namespace lithe::layers
