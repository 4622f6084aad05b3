// Encoders against Hugging Face Transformers (tests/oracle/make_tiny_encoders.py): the rows of every token, and what a
// classification head makes of them.
#include <algorithm>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "models/hf/export.h"
#include "models/open_model.h"
#include "support.h"

namespace lithe::test {
namespace {

using kernels::Isa;
using models::Pooling;
using models::Precision;

constexpr std::size_t kFirstSegment = 20;

std::filesystem::path gguf_of(const std::string& name) {
  return as_gguf(encoder_path(name));
}

struct Golden {
  std::vector<std::int32_t> ids;
  std::vector<float> rows, scores;
  explicit Golden(const std::string& name)
      : ids(read_npy_i32(encoder_path(name + "/ids.npy"))),
        rows(read_npy_f32(encoder_path(name + "/rows.npy"))) {
    const std::filesystem::path path = encoder_path(name + "/scores.npy");
    if (std::filesystem::exists(path)) scores = read_npy_f32(path);
  }
};

/// The rows of some texts, all in one pass.
std::vector<std::vector<float>> encode(Runner& runner, const std::vector<std::vector<std::int32_t>>& texts) {
  const models::ArchSpec& spec = runner.model().spec();
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
      if (spec.labels > 0 && spec.token_types > 1) batch.types.push_back(i < kFirstSegment ? 0 : 1);
    }
  }
  const auto hidden = static_cast<std::size_t>(spec.hidden);
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

/// What the head makes of a text's rows.
std::vector<float> scores_of(Runner& runner, const std::vector<float>& rows) {
  const models::ArchSpec& spec = runner.model().spec();
  const auto hidden = static_cast<std::size_t>(spec.hidden);
  std::vector<float> read(rows.begin(), rows.begin() + spec.hidden);
  if (spec.head_pooling == Pooling::mean) {
    for (std::size_t i = hidden; i < rows.size(); ++i) read[i % hidden] += rows[i];
    for (float& value : read) value /= static_cast<float>(rows.size() / hidden);
  }
  std::vector<float> scores(static_cast<std::size_t>(spec.labels));
  runner.model().classify(read, scores);
  return scores;
}

class EncoderTest : public testing::TestWithParam<std::string> {};

TEST_P(EncoderTest, AgreesWithTransformers) {
  const Golden golden(GetParam());
  std::string family;
  for (const Isa isa : kernels::available_isas()) {
    for (const auto attention :
         {models::AttentionMode::flash, models::AttentionMode::naive, models::AttentionMode::chunked}) {
      for (const auto& path : {encoder_path(GetParam()), gguf_of(GetParam())}) {
        Runner runner(path, {.precision = Precision::f32, .attention = attention, .isa = isa});
        family = runner.model().spec().family;
        const std::vector<float> rows = encode(runner, {golden.ids}).front();
        const double error = relative_error(rows, golden.rows);
        EXPECT_LT(error, 1e-4) << kernels::isa_name(isa);
        fmt::print("[ counts ] {} {}: {} numbers, relative error {:.1e}\n", GetParam(),
                   kernels::isa_name(isa), golden.rows.size(), error);
        ASSERT_EQ(runner.model().spec().labels, std::ssize(golden.scores));
        if (golden.scores.empty()) continue;
        EXPECT_LT(relative_error(scores_of(runner, rows), golden.scores), 1e-4) << kernels::isa_name(isa);
      }
    }
  }
  if (HasFailure()) return;
  const std::string scores =
      golden.scores.empty() ? "" : fmt::format(" and {} of a head", golden.scores.size());
  fmt::print("[ proved ] architecture | {} | {} | {} numbers of {} rows{} within 1e-4 of Transformers, {}\n",
             family, GetParam(), golden.rows.size(), golden.ids.size(), scores,
             "from safetensors and from GGUF");
}

// Promise 1: texts of odd lengths in one pass give the bits of each alone; threads change nothing.
TEST_P(EncoderTest, NeighboursDoNotChangeABit) {
  const Golden golden(GetParam());
  std::vector<std::vector<std::int32_t>> texts{golden.ids};
  for (const std::size_t length : {1, 5, 23, 33})
    texts.emplace_back(golden.ids.end() - static_cast<std::ptrdiff_t>(length), golden.ids.end());
  for (const Isa isa : kernels::available_isas()) {
    Runner one(encoder_path(GetParam()), {.isa = isa}),
        many(encoder_path(GetParam()), {.isa = isa, .threads = 2});
    const auto together = encode(many, texts);
    for (std::size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(encode(one, {texts[i]}).front(), together[i]) << i;
  }
}

TEST_P(EncoderTest, ScratchIsPriced) {
  const Golden golden(GetParam());
  Runner runner(encoder_path(GetParam()), {});
  encode(runner, {golden.ids});
  const auto rows = std::ssize(golden.ids);
  EXPECT_LE(runner.model().memory().peak_scratch, runner.model().scratch_bytes({rows, rows, rows}));
}

// The way back: rows and scores, bit for bit, of the directory that is written of the GGUF file.
TEST_P(EncoderTest, ExportedDirectoriesAreTheModel) {
  const Golden golden(GetParam());
  const std::filesystem::path path = scratch_folder() / (GetParam() + "-exported");
  export_model(gguf_of(GetParam()), path);
  const Runner::Options options{.precision = Precision::f32};
  Runner directory(encoder_path(GetParam()), options), exported(path, options);
  const std::vector<float> rows = encode(directory, {golden.ids}).front();
  EXPECT_EQ(encode(exported, {golden.ids}).front(), rows);
  if (!golden.scores.empty()) {
    EXPECT_EQ(scores_of(exported, rows), scores_of(directory, rows));
  }
  // What Lithe has no use for, and Transformers has.
  const Json was = *parse_json(*read_file(encoder_path(GetParam() + "/config.json"))),
             is = *parse_json(*read_file(path / "config.json"));
  std::vector<const char*> keys{"vocab_size", "max_position_embeddings", "type_vocab_size", "id2label"};
  if (directory.model().spec().skipped_positions > 0) keys.push_back("pad_token_id");
  for (const char* const key : keys) EXPECT_EQ(is.value(key, Json()), was.value(key, Json())) << key;
  std::filesystem::remove_all(path);
}

INSTANTIATE_TEST_SUITE_P(Models, EncoderTest, testing::ValuesIn(folders_in(encoder_path(""))),
                         [](const auto& instance) { return instance.param; });

/// The rows of a golden's text from a file.
double error_of(const std::filesystem::path& path, const Golden& golden) {
  Runner runner(path, {.precision = Precision::f32, .isa = kernels::available_isas().back()});
  const std::vector<float> rows = encode(runner, {golden.ids}).front();
  return golden.scores.empty() ? relative_error(rows, golden.rows)
                               : relative_error(scores_of(runner, rows), golden.scores);
}

// The golden must notice when a description is wrong.
TEST(EncoderMutationTest, WrongDescriptionsAreSeen) {
  struct Mutation {
    const char *model, *key;
    formats::GgufWriter::Value value;
  };
  const std::vector<Mutation> mutations{
      {"bert", "bert.attention.layer_norm_epsilon", 0.05f},
      {"xlm_roberta", "bert.attention.layer_norm_epsilon", 0.05f},
      {"modernbert", "modern-bert.attention.sliding_window", 10u},
      {"modernbert", "modern-bert.attention.sliding_window", 14u},
      {"modernbert", "modern-bert.attention.sliding_window_pattern", 2u},
      {"modernbert", "modern-bert.rope.freq_base_swa", 20000.0f},
      {"modernbert_mean", "modern-bert.classifier.pooling_type", 2u},
      {"modernbert_rank", "modern-bert.classifier.pooling_type", 1u},
      {"nomic_bert", "nomic-bert.rope.freq_base", 2000.0f},
  };
  for (const Mutation& mutation : mutations) {
    const std::filesystem::path path = scratch_folder() / "mutated-encoder.gguf";
    rewrite(gguf_of(mutation.model), path, {.set = {{mutation.key, mutation.value}}});
    EXPECT_GT(error_of(path, Golden(mutation.model)), 1e-3) << mutation.key;
  }
}

// Files by llama.cpp's converter: nothing of ours, no word of a head but its tensors, and RoBERTa known by its vocabulary.
TEST(EncoderGgufTest, FilesOfOthersAreUnderstood) {
  const std::filesystem::path path = scratch_folder() / "theirs.gguf";
  for (const std::string name : {"xlm_roberta_rank", "modernbert_mean", "bert_rank"}) {
    const std::string family = name == "modernbert_mean" ? "modern-bert." : "bert.";
    Edits edits{.without = {family + "skipped_positions", family + "pooling_type",
                            family + "classifier.output_labels", family + "classifier.pooling_type"}};
    rewrite(gguf_of(name), path, edits);
    EXPECT_LT(error_of(path, Golden(name)), 1e-4) << name;
  }
  rewrite(gguf_of("xlm_roberta_rank"), path,
          {.set = {{"tokenizer.ggml.model", std::string("t5")}, {"tokenizer.ggml.padding_token_id", 1u}},
           .without = {"bert.skipped_positions", "bert.pooling_type", "bert.classifier.output_labels"}});
  const std::filesystem::path back = scratch_folder() / "theirs";
  export_model(path, back);
  EXPECT_LT(error_of(back, Golden("xlm_roberta_rank")), 1e-4);
  EXPECT_EQ((*parse_json(*read_file(back / "config.json")))["max_position_embeddings"], 130);
}

// llama.cpp's converter leaves BERT's pooler out. What is left gives scores; of a class that needs one it is no directory.
TEST(EncoderGgufTest, AHeadWithoutItsPoolerIsNotExported) {
  const std::filesystem::path path = scratch_folder() / "no-pooler.gguf";
  rewrite(gguf_of("bert_rank"), path, {.without = {"cls.weight", "cls.bias"}});
  EXPECT_GT(error_of(path, Golden("bert_rank")), 1e-2);
  const auto file = models::open_model(path);
  ASSERT_TRUE(file.ok());
  const auto plan = models::HfExport::plan(**file, DType::f32);
  EXPECT_EQ(plan.status().code(), Code::unsupported);
  EXPECT_NE(plan.status().message().find("cls.weight"), std::string::npos);
}

// No table of types: nothing is added, and no class of Transformers is like it.
TEST(EncoderGgufTest, WithoutATableOfTypesNothingIsAdded) {
  const Golden golden("bert");
  const std::filesystem::path path = scratch_folder() / "no-types.gguf";
  rewrite(gguf_of("bert"), path, {.without = {"token_types.weight"}});
  EXPECT_GT(error_of(path, golden), 1e-2);
  const auto file = models::open_model(path);
  const auto plan = models::HfExport::plan(**file, DType::f32);
  EXPECT_NE(plan.status().message().find("token_types.weight"), std::string::npos);
  // A directory without one says so, and is read the same.
  const std::filesystem::path folder = scratch_folder() / "no-types";
  std::filesystem::copy(encoder_path("bert"), folder);
  Json config = *parse_json(*read_file(folder / "config.json"));
  config["type_vocab_size"] = 0;
  std::ofstream(folder / "config.json") << config.dump();
  std::string tensors = *read_file(folder / "model.safetensors");
  constexpr std::string_view kName = "embeddings.token_type_embeddings.weight";
  tensors.replace(tensors.find(kName), kName.size(), std::string(kName.size(), 'x'));
  std::ofstream(folder / "model.safetensors", std::ios::binary) << tensors;
  Runner a(path, {.precision = Precision::f32}), b(folder, {.precision = Precision::f32});
  EXPECT_EQ(encode(a, {golden.ids}), encode(b, {golden.ids}));
}

// Sentence Transformers' account of how rows become a vector, in both directions.
TEST(EncoderPoolingTest, IsReadAndWritten) {
  const std::filesystem::path folder = scratch_folder() / "pooled";
  std::filesystem::copy(encoder_path("bert"), folder);
  const auto put = [&](const char* file, const Json& json) {
    std::filesystem::create_directories((folder / file).parent_path());
    std::ofstream(folder / file) << json.dump();
  };
  const auto read = [&] { return models::open_model(folder); };
  EXPECT_FALSE((*read())->metadata().contains("bert.pooling_type"));
  const std::pair<Json, Pooling> kModes[] = {
      {{{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", false}}, Pooling::cls},
      {{{"pooling_mode_mean_tokens", true}}, Pooling::mean},
      {{{"pooling_mode", "lasttoken"}}, Pooling::last}};
  for (const auto& [settings, pooling] : kModes) {
    put("1_Pooling/config.json", settings);
    const auto file = read();
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(*(*file)->metadata().optional_uint("bert.pooling_type"), static_cast<std::uint64_t>(pooling));
    const std::filesystem::path gguf = scratch_folder() / "pooled.gguf",
                                back = scratch_folder() / "pooled-back";
    convert_model(folder, gguf, DType::f32);
    export_model(gguf, back);
    EXPECT_EQ(*(*models::open_model(back))->metadata().optional_uint("bert.pooling_type"),
              static_cast<std::uint64_t>(pooling));
    EXPECT_TRUE(std::filesystem::exists(back / "modules.json"));
    std::filesystem::remove_all(back);
  }
  for (const Json& settings : {Json{{"pooling_mode_max_tokens", true}},
                               Json{{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", true}}}) {
    put("1_Pooling/config.json", settings);
    EXPECT_EQ(read().status().code(), Code::unsupported) << settings;
  }
  const auto module = [](const char* kind, const char* path) {
    return Json{{"type", std::string("sentence_transformers.models.") + kind}, {"path", path}};
  };
  put("other/config.json", {{"pooling_mode_cls_token", true}});
  put("modules.json",
      {module("Transformer", ""), module("Pooling", "other"), module("Normalize", "2_Normalize")});
  EXPECT_EQ(*(*read())->metadata().optional_uint("bert.pooling_type"), 2u);
  put("modules.json", {module("Transformer", ""), module("Pooling", "other"), module("Dense", "2_Dense")});
  EXPECT_NE(read().status().message().find("Dense"), std::string::npos);
  put("modules.json", {module("Pooling", "../other")});
  EXPECT_EQ(read().status().code(), Code::corrupt);
}

}  // namespace
}  // namespace lithe::test
