// Promise 1: the same bits, whatever the traffic. Every way of getting the same tokens through a model (chunks,
// batches, threads, scattered pages, no cache at all) must leave bit-equal logits.
#include <algorithm>
#include <cstring>
#include <span>

#include "support.h"

namespace lithe::test {
namespace {

using kernels::Isa;

struct Case {
  Isa isa;
  DType weights;
  DType kv;
  bool window;
};

std::string case_name(const testing::TestParamInfo<Case>& instance) {
  const Case& c = instance.param;
  return fmt::format("{}_{}_kv_{}{}", kernels::isa_name(c.isa), block_format(c.weights).name,
                     block_format(c.kv).name, c.window ? "_window" : "");
}

// LITHE_EVERY_CASE (invariance_slow_test): all formats with a plain cache, all caches with three kinds of arithmetic.
// Otherwise a cross-section of them on narrow models. Windows in both.
#ifdef LITHE_EVERY_CASE
constexpr bool kEveryCase = true;
#else
constexpr bool kEveryCase = false;
#endif

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Isa isa : kernels::available_isas()) {
    if (!kEveryCase) {
      all.push_back({isa, DType::q8_0, DType::f16, true});
      if (isa == Isa::reference) continue;
      all.push_back({isa, DType::f32, DType::f32, false});
      all.push_back({isa, DType::bf16, DType::f16, false});
      all.push_back({isa, DType::q4_1, DType::q8_0, false});
      continue;
    }
    for (const BlockFormat& format : block_formats()) {
      if (isa == Isa::reference && format.block_elems > 32)
        continue;  // needs wide rows; scalar loops take minutes
      // The products have a test of their own: here the best ISA takes all formats, the others take turns.
      const bool best = isa == kernels::available_isas().back();
      if (!best && (static_cast<int>(format.dtype) + static_cast<int>(isa)) % 2 != 0) continue;
      all.push_back({isa, format.dtype, DType::f32, false});
    }
    for (const DType weights : {DType::f32, DType::bf16, DType::q8_0}) {
      for (const DType kv : {DType::f16, DType::q8_0}) all.push_back({isa, weights, kv, false});
    }
    all.push_back({isa, DType::q8_0, DType::f16, true});
  }
  return all;
}

class InvarianceTest : public testing::TestWithParam<Case> {
 protected:
  // Past the first softmax block of 256 keys and not at a multiple of anything, except where loops are scalar.
  InvarianceTest() {
    const bool scalar = GetParam().isa == Isa::reference;
    TinyShape shape{
        .hidden = 64, .heads = 2, .kv_heads = 1, .head_dim = 32, .ffn = 96, .vocab = 66, .tied = false};
    if (kEveryCase && !scalar) shape = {.vocab = 288, .tied = false};
    if (GetParam().window) shape.window = scalar ? 9 : 70;
    path_ = scratch_folder() / "model.gguf";
    tiny_model(shape, GetParam().weights).write(path_);
    ids_ = random_ids(scalar ? 45 : 301, shape.vocab, 7);
    Runner runner = make(1);
    vocab_ = runner.vocab();
    kvcache::SequenceCache cache = runner.sequence();
    expected_ = runner.feed(cache, ids_);
  }

  Runner make(int threads, std::optional<std::uint64_t> shuffle = {}) {
    return Runner(path_,
                  {.kv = GetParam().kv, .isa = GetParam().isa, .threads = threads, .shuffle_pages = shuffle});
  }

  // Row `row` of what one pass over everything said.
  std::span<const float> expected_row(std::int64_t row) const {
    return std::span(expected_).subspan(static_cast<std::size_t>(row * vocab_),
                                        static_cast<std::size_t>(vocab_));
  }

  void expect_equal(std::span<const float> logits, std::span<const float> expected, const std::string& what) {
    ASSERT_EQ(logits.size(), expected.size()) << what;
    if (std::memcmp(logits.data(), expected.data(), logits.size_bytes()) == 0) {
      compared_ += logits.size();
      return;
    }
    const auto [a, b] = std::ranges::mismatch(logits, expected);
    ADD_FAILURE() << what << ": row " << (a - logits.begin()) / vocab_ << ", logit "
                  << (a - logits.begin()) % vocab_ << ": " << *a << " is not " << *b;
  }

  void print_count() const { fmt::print("[ counts ] {} logits bit-equal\n", compared_); }

  std::filesystem::path path_;
  std::vector<std::int32_t> ids_;
  std::vector<float> expected_;
  std::int64_t vocab_ = 0;
  std::size_t compared_ = 0;
};

TEST_P(InvarianceTest, ChunksThreadsAndPages) {
  const auto count = std::ssize(ids_);
  for (const int threads : {1, 2, 3}) {
    Runner runner = make(threads, threads == 1 ? std::nullopt : std::optional<std::uint64_t>(threads));
    for (const std::int64_t chunk :
         {std::int64_t{1}, std::int64_t{7}, std::int64_t{16}, std::int64_t{64}, count}) {
      if (threads != 2 && chunk != 7 && chunk != count)
        continue;  // every chunk once, every thread count twice
      kvcache::SequenceCache cache = runner.sequence();
      expect_equal(runner.feed(cache, ids_, chunk), expected_,
                   fmt::format("chunk {}, threads {}", chunk, threads));
      // Without the other rows' logits the last layer takes a shorter way.
      kvcache::SequenceCache again = runner.sequence();
      expect_equal(runner.feed_last(again, ids_, chunk), expected_row(count - 1),
                   fmt::format("last row alone, chunk {}, threads {}", chunk, threads));
    }
  }
  print_count();
}

// Several sequences in one batch, at different lengths, prefill beside decode, some logits wanted and some not.
TEST_P(InvarianceTest, Neighbours) {
  const auto count = std::ssize(ids_);
  Runner runner = make(2, 11);
  const std::vector<std::int32_t> other = random_ids(count, vocab_, 8);
  struct Stream {
    kvcache::SequenceCache cache;
    std::span<const std::int32_t> ids;
    std::int64_t step;
    bool checked;
    std::int64_t at = 0;
  };
  std::vector<Stream> streams;
  streams.push_back({runner.sequence(), ids_, 1, true});
  streams.push_back({runner.sequence(), other, 5, false});
  streams.push_back({runner.sequence(), ids_, 13, true});
  streams.push_back({runner.sequence(), other, 1, false});
  streams.push_back({runner.sequence(), ids_, 50, true});
  for (int step = 0; step < 24; ++step) {
    models::Batch batch;
    std::vector<std::pair<std::int64_t, bool>> wanted;  // position, checked
    for (Stream& stream : streams) {
      const std::int64_t rows = std::min(stream.step, count - stream.at);
      if (rows == 0) continue;
      ASSERT_TRUE(stream.cache.reserve(rows).ok());
      batch.sequences.push_back({&stream.cache, std::ssize(batch.tokens), rows});
      for (std::int64_t row = 0; row < rows; ++row) {
        if (row == rows - 1 || row % 3 == 1) {
          batch.logit_rows.push_back(std::ssize(batch.tokens));
          wanted.emplace_back(stream.at + row, stream.checked);
        }
        batch.tokens.push_back(stream.ids[static_cast<std::size_t>(stream.at + row)]);
      }
      stream.at += rows;
    }
    std::vector<float> logits(wanted.size() * static_cast<std::size_t>(vocab_));
    ASSERT_TRUE(runner.model().forward(batch, logits).ok());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i].second) continue;
      expect_equal(
          std::span(logits).subspan(i * static_cast<std::size_t>(vocab_), static_cast<std::size_t>(vocab_)),
          expected_row(wanted[i].first), fmt::format("step {}, position {}", step, wanted[i].first));
    }
  }
  print_count();
}

// A cache is a memory of what a pass would compute again: with and without, forked and cut back.
TEST_P(InvarianceTest, CacheRecomputeForkAndTruncate) {
  const auto count = std::ssize(ids_);
  Runner runner = make(2);
  for (const std::int64_t length : {std::int64_t{1}, std::int64_t{17}, count - 1, count}) {
    kvcache::SequenceCache cache = runner.sequence();
    expect_equal(runner.feed_last(cache, std::span(ids_).first(static_cast<std::size_t>(length))),
                 expected_row(length - 1), fmt::format("recomputed from scratch, {} tokens", length));
  }
  const std::int64_t fork_at = count / 2;
  kvcache::SequenceCache trunk = runner.sequence();
  runner.feed_last(trunk, std::span(ids_).first(static_cast<std::size_t>(fork_at)));
  kvcache::SequenceCache branch = trunk.fork();
  runner.feed_last(branch, random_ids(20, vocab_, 9));  // must not disturb the trunk
  const std::span<const std::int32_t> rest = std::span(ids_).subspan(static_cast<std::size_t>(fork_at));
  expect_equal(runner.feed_last(trunk, rest, 3), expected_row(count - 1), "after a fork");
  branch.truncate(fork_at - 3);
  const std::span<const std::int32_t> longer = std::span(ids_).subspan(static_cast<std::size_t>(fork_at - 3));
  expect_equal(runner.feed_last(branch, longer), expected_row(count - 1), "after truncation");
  print_count();
}

INSTANTIATE_TEST_SUITE_P(Cases, InvarianceTest, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace lithe::test
