// Encoders against Hugging Face Transformers (tests/oracle/make_tiny_encoders.py): the rows of every token, and what a
// classification head makes of the first.
#include <algorithm>

#include "models/open_model.h"
#include "support.h"

namespace lithe::test {
namespace {

using kernels::Isa;
using models::Precision;

constexpr std::size_t kFirstSegment = 20;

std::filesystem::path folder_of(const std::string& name) {
  return golden_path("../encoders/" + name);
}

std::filesystem::path gguf_of(const std::string& name) {
  const std::filesystem::path path = scratch_folder() / (name + ".encoder.gguf");
  if (!std::filesystem::exists(path)) convert_model(folder_of(name), path, DType::f32);
  return path;
}

struct Golden {
  std::vector<std::int32_t> ids;
  std::vector<float> rows, scores;
  explicit Golden(const std::string& name)
      : ids(read_npy_i32(folder_of(name) / "ids.npy")), rows(read_npy_f32(folder_of(name) / "rows.npy")) {
    if (std::filesystem::exists(folder_of(name) / "scores.npy"))
      scores = read_npy_f32(folder_of(name) / "scores.npy");
  }
};

/// The rows of some texts, all in one pass.
std::vector<std::vector<float>> encode(Runner& runner, const std::vector<std::vector<std::int32_t>>& texts) {
  models::Batch batch;
  batch.mask = models::MaskKind::bidirectional;
  std::vector<kvcache::SequenceCache> caches;
  caches.reserve(texts.size());
  for (const auto& text : texts) {
    caches.push_back(runner.sequence());
    EXPECT_TRUE(caches.back().reserve(std::ssize(text)).ok());
    batch.sequences.push_back({&caches.back(), std::ssize(batch.tokens), std::ssize(text)});
    for (std::size_t i = 0; i < text.size(); ++i) {
      batch.logit_rows.push_back(std::ssize(batch.tokens));
      batch.tokens.push_back(text[i]);
      if (runner.model().spec().labels == 1) batch.types.push_back(i < kFirstSegment ? 0 : 1);
    }
  }
  const auto hidden = static_cast<std::size_t>(runner.model().spec().hidden);
  std::vector<float> rows(batch.tokens.size() * hidden);
  const Status status = runner.model().encode(batch, rows);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<std::vector<float>> out;
  auto from = rows.begin();
  for (const auto& text : texts) {
    const auto count = static_cast<std::ptrdiff_t>(text.size() * hidden);
    out.emplace_back(from, from + count);
    from += count;
  }
  return out;
}

class EncoderTest : public testing::TestWithParam<std::string> {};

TEST_P(EncoderTest, RowsAgreeWithTransformers) {
  const Golden golden(GetParam());
  for (const Isa isa : kernels::available_isas()) {
    for (const auto attention :
         {models::AttentionMode::flash, models::AttentionMode::naive, models::AttentionMode::chunked}) {
      for (const auto& path : {folder_of(GetParam()), gguf_of(GetParam())}) {
        Runner runner(path, {.precision = Precision::f32, .attention = attention, .isa = isa});
        const double error = relative_error(encode(runner, {golden.ids}).front(), golden.rows);
        EXPECT_LT(error, 1e-4) << kernels::isa_name(isa);
        fmt::print("[ counts ] {} {}: {} numbers, relative error {:.1e}\n", GetParam(),
                   kernels::isa_name(isa), golden.rows.size(), error);
      }
    }
  }
  if (!HasFailure()) {
    Runner runner(folder_of(GetParam()), {.precision = Precision::f32});
    fmt::print(
        "[ proved ] architecture | {} | {} | {} numbers of {} rows within 1e-4 of Transformers, from "
        "safetensors "
        "and from GGUF\n",
        runner.model().spec().family, GetParam(), golden.rows.size(), golden.ids.size());
  }
}

TEST_P(EncoderTest, ScoresAgreeWithTransformers) {
  const Golden golden(GetParam());
  if (golden.scores.empty()) GTEST_SKIP() << "no classifier";
  for (const Isa isa : kernels::available_isas()) {
    Runner runner(folder_of(GetParam()), {.precision = Precision::f32, .isa = isa});
    ASSERT_EQ(runner.model().spec().labels, std::ssize(golden.scores));
    const std::vector<float> rows = encode(runner, {golden.ids}).front();
    std::vector<float> scores(golden.scores.size());
    runner.model().classify(std::span(rows).first(static_cast<std::size_t>(runner.model().spec().hidden)),
                            scores);
    EXPECT_LT(relative_error(scores, golden.scores), 1e-4) << kernels::isa_name(isa);
  }
}

// Promise 1: texts of odd lengths in one pass give the bits of each alone; threads change nothing.
TEST_P(EncoderTest, NeighboursDoNotChangeABit) {
  const Golden golden(GetParam());
  std::vector<std::vector<std::int32_t>> texts{golden.ids};
  for (const std::size_t length : {1, 5, 23, 33})
    texts.emplace_back(golden.ids.end() - static_cast<std::ptrdiff_t>(length), golden.ids.end());
  for (const Isa isa : kernels::available_isas()) {
    Runner one(folder_of(GetParam()), {.isa = isa}), many(folder_of(GetParam()), {.isa = isa, .threads = 2});
    const auto together = encode(many, texts);
    for (std::size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(encode(one, {texts[i]}).front(), together[i]) << i;
  }
}

TEST_P(EncoderTest, ScratchIsPriced) {
  const Golden golden(GetParam());
  Runner runner(folder_of(GetParam()), {});
  encode(runner, {golden.ids});
  const auto rows = std::ssize(golden.ids);
  EXPECT_LE(runner.model().memory().peak_scratch, runner.model().scratch_bytes({rows, rows, rows}));
}

INSTANTIATE_TEST_SUITE_P(Models, EncoderTest,
                         testing::Values("bert", "bert_rank", "modernbert", "modernbert_rank", "nomic_bert"),
                         [](const auto& instance) { return instance.param; });

// The golden must notice when a description is wrong.
TEST(EncoderMutationTest, WrongDescriptionsAreSeen) {
  struct Mutation {
    const char *model, *key;
    formats::GgufWriter::Value value;
  };
  const std::vector<Mutation> mutations{
      {"bert", "bert.attention.layer_norm_epsilon", 0.05f},
      {"modernbert", "modern-bert.attention.sliding_window", 10u},
      {"modernbert", "modern-bert.attention.sliding_window", 14u},
      {"modernbert", "modern-bert.attention.sliding_window_pattern", 2u},
      {"modernbert", "modern-bert.rope.freq_base_swa", 20000.0f},
      {"nomic_bert", "nomic-bert.rope.freq_base", 2000.0f},
  };
  for (const Mutation& mutation : mutations) {
    const auto file = formats::GgufFile::open(gguf_of(mutation.model));
    ASSERT_TRUE(file.ok());
    formats::GgufWriter writer;
    for (const formats::GgufPair& pair : file->metadata().pairs()) writer.copy_metadata(pair);
    writer.add_metadata(mutation.key, mutation.value);
    for (const auto& tensor : file->tensors())
      writer.add_tensor(std::string(tensor.name), tensor.format->dtype, tensor.dims);
    const std::filesystem::path path = scratch_folder() / "mutated-encoder.gguf";
    ASSERT_TRUE(writer.begin(path).ok());
    for (const auto& tensor : file->tensors()) ASSERT_TRUE(writer.write_tensor(tensor.data).ok());
    ASSERT_TRUE(writer.commit().ok());
    const Golden golden(mutation.model);
    Runner runner(path, {.precision = Precision::f32});
    EXPECT_GT(relative_error(encode(runner, {golden.ids}).front(), golden.rows), 1e-3) << mutation.key;
  }
}

}  // namespace
}  // namespace lithe::test
