// Whole models against Hugging Face Transformers (tests/oracle/make_tiny_models.py).
//
// The measure is max |logit - golden| / max |golden| over all 40 x vocab logits of a model.
#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "formats/gguf.h"
#include "layers/context.h"
#include "layers/linear.h"
#include "models/hf/model.h"
#include "models/open_model.h"
#include "support.h"

namespace lithe::test {
namespace {

using kernels::Isa;
using models::Precision;

std::filesystem::path gguf_of(const std::string& name) {
  return as_gguf(golden_path(name));
}

struct Golden {
  std::vector<std::int32_t> ids, greedy;
  std::vector<float> logits;
  explicit Golden(const std::string& name)
      : ids(read_npy_i32(golden_path(name + "/ids.npy"))),
        greedy(read_npy_i32(golden_path(name + "/greedy.npy"))),
        logits(read_npy_f32(golden_path(name + "/logits.npy"))) {}
};

double error_of(const std::filesystem::path& path, const Golden& golden, const Runner::Options& options) {
  Runner runner(path, options);
  kvcache::SequenceCache cache = runner.sequence();
  const std::vector<float> logits = runner.feed(cache, golden.ids);
  EXPECT_EQ(logits.size(), golden.logits.size());
  return relative_error(logits, golden.logits);
}

// The worst row's error; of a mixture the middle row's, since rounding may send a token near the boundary of two experts
// to the other one.
double rounded_error_of(const std::filesystem::path& path, const Golden& golden,
                        const Runner::Options& options) {
  Runner runner(path, options);
  kvcache::SequenceCache cache = runner.sequence();
  std::vector<double> errors = row_errors(runner.feed(cache, golden.ids), golden.logits, runner.vocab());
  std::ranges::sort(errors);
  return errors[runner.model().spec().layers.back().sparse() ? errors.size() / 2 : errors.size() - 1];
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, F32LogitsAgreeWithTransformers) {
  const Golden golden(GetParam());
  for (const Isa isa : kernels::available_isas()) {
    for (const auto attention :
         {models::AttentionMode::flash, models::AttentionMode::naive, models::AttentionMode::chunked}) {
      const double error = error_of(golden_path(GetParam()), golden,
                                    {.precision = Precision::f32, .attention = attention, .isa = isa});
      EXPECT_LT(error, 1e-4) << kernels::isa_name(isa);
      fmt::print("[ counts ] {} {}: {} logits, relative error {:.1e}\n", GetParam(), kernels::isa_name(isa),
                 golden.logits.size(), error);
    }
  }
}

TEST_P(GoldenTest, GreedyTextIsEqual) {
  const Golden golden(GetParam());
  int equal = 0;
  for (const Isa isa : kernels::available_isas()) {
    Runner runner(golden_path(GetParam()), {.precision = Precision::f32, .isa = isa});
    const std::vector<std::int32_t> text = runner.greedy(golden.ids, static_cast<int>(golden.greedy.size()));
    EXPECT_EQ(text, golden.greedy) << kernels::isa_name(isa);
    for (std::size_t i = 0; i < text.size(); ++i) equal += text[i] == golden.greedy[i];
  }
  fmt::print("[ counts ] {}: {} greedy ids equal\n", GetParam(), equal);
}

// The bounds are wide of what the formats round away, since these models amplify it: attention is peaked and layers
// are narrow. What they must catch is a wrong scale or a swapped channel, which errs by 0.5 and more.
TEST_P(GoldenTest, RoundedCachesStayNear) {
  const Golden golden(GetParam());
  const std::filesystem::path path = golden_path(GetParam());
  for (const Isa isa : kernels::available_isas()) {
    const double f16 =
        rounded_error_of(path, golden, {.precision = Precision::f32, .kv = DType::f16, .isa = isa});
    const double q8 =
        rounded_error_of(path, golden, {.precision = Precision::f32, .kv = DType::q8_0, .isa = isa});
    EXPECT_LT(f16, 1e-2) << kernels::isa_name(isa);
    EXPECT_LT(q8, 1e-1) << kernels::isa_name(isa);
    fmt::print("[ counts ] {} {}: error of an f16 cache {:.1e}, q8_0 {:.1e}\n", GetParam(),
               kernels::isa_name(isa), f16, q8);
  }
}

TEST_P(GoldenTest, Int8WeightsStayNear) {
  const Golden golden(GetParam());
  const std::filesystem::path path = scratch_folder() / "q8_0.gguf";
  const int matrices = reencode(golden_path(GetParam()), path, DType::q8_0);
  if (matrices == 0) GTEST_SKIP() << "no matrix has columns in blocks of 32";
  for (const Isa isa : kernels::available_isas()) {
    const double weights = rounded_error_of(path, golden, {.precision = Precision::f32, .isa = isa});
    const double both = rounded_error_of(path, golden, {.isa = isa});
    EXPECT_LT(weights, 0.2) << kernels::isa_name(isa);
    EXPECT_LT(both, 0.2) << kernels::isa_name(isa);
    EXPECT_NE(both, weights) << "int8 never ran";
    fmt::print("[ counts ] {} {}: {} matrices in q8_0, error {:.1e}, with int8 activations {:.1e}\n",
               GetParam(), kernels::isa_name(isa), matrices, weights, both);
  }
}

// Promise 1, for every family: a prompt in pieces of any size gives the bits of the prompt in one.
TEST_P(GoldenTest, PiecesOfAPromptGiveTheSameBits) {
  const Golden golden(GetParam());
  for (const Isa isa : kernels::available_isas()) {
    Runner runner(golden_path(GetParam()), {.isa = isa, .threads = 2});
    kvcache::SequenceCache whole = runner.sequence();
    const std::vector<float> expected = runner.feed(whole, golden.ids);
    for (const std::int64_t piece : {1, 7, 16}) {
      kvcache::SequenceCache cache = runner.sequence();
      EXPECT_EQ(runner.feed(cache, golden.ids, piece), expected) << kernels::isa_name(isa) << " " << piece;
    }
  }
}

// Nor does a neighbour in the batch, also one that has gone before in the same pages.
TEST_P(GoldenTest, NeighboursDoNotChangeABit) {
  const Golden golden(GetParam());
  const std::vector<std::int32_t> other(golden.ids.rbegin(), golden.ids.rbegin() + 23);
  for (const Isa isa : {kernels::available_isas().back()}) {
    Runner runner(golden_path(GetParam()), {.isa = isa, .threads = 2});
    std::vector<float> alone, beside;
    {
      kvcache::SequenceCache a = runner.sequence(), b = runner.sequence();
      alone = runner.feed(a, golden.ids);
      beside = runner.feed(b, other);
    }
    kvcache::SequenceCache a = runner.sequence(), b = runner.sequence();
    const auto [first, second] = runner.feed_both(a, golden.ids, b, other);
    EXPECT_EQ(first, alone);
    EXPECT_EQ(second, beside);
  }
}

// Promise 3: no pass takes more scratch than was said before.
TEST_P(GoldenTest, ScratchIsPriced) {
  const Golden golden(GetParam());
  for (const auto& options : {Runner::Options{.precision = Precision::f32}, Runner::Options{}}) {
    Runner runner(golden_path(GetParam()), options);
    kvcache::SequenceCache cache = runner.sequence();
    runner.feed(cache, golden.ids);
    const auto rows = static_cast<std::int64_t>(golden.ids.size());
    const std::uint64_t taken = runner.model().memory().peak_scratch,
                        priced = runner.model().scratch_bytes({rows, rows, rows});
    EXPECT_LE(taken, priced);
    EXPECT_LE(priced, 2 * taken + (1 << 20));
  }
}

// What `lithe convert` makes of a directory is the directory: the same logits, bit for bit, and every tensor used.
TEST_P(GoldenTest, ConvertedFilesAreTheDirectory) {
  const Golden golden(GetParam());
  const auto source = models::open_model(golden_path(GetParam()));
  ASSERT_TRUE(source.ok());
  const bool quantised = std::ranges::any_of(
      (*source)->tensors(), [](const formats::GgufTensor& tensor) { return tensor.format->quantized(); });
  for (const auto& options : {Runner::Options{.precision = Precision::f32}, Runner::Options{}}) {
    if (quantised && options.precision != Precision::f32)
      continue;  // rounded activations, where the file has none
    Runner directory(golden_path(GetParam()), options), file(gguf_of(GetParam()), options);
    kvcache::SequenceCache a = directory.sequence(), b = file.sequence();
    EXPECT_EQ(directory.feed(a, golden.ids), file.feed(b, golden.ids));
  }
}

// And back: the directory that is written of that file is the model too.
TEST_P(GoldenTest, ExportedDirectoriesAreTheModel) {
  const Golden golden(GetParam());
  const std::filesystem::path path = scratch_folder() / (GetParam() + "-exported");
  export_model(gguf_of(GetParam()), path);
  const Runner::Options options{.precision = Precision::f32};
  Runner directory(golden_path(GetParam()), options), exported(path, options);
  kvcache::SequenceCache a = directory.sequence(), b = exported.sequence();
  EXPECT_EQ(directory.feed(a, golden.ids), exported.feed(b, golden.ids));
  std::filesystem::remove_all(path);
}

// What docs/models.md says of a family, if it is so.
TEST_P(GoldenTest, IsListedAsProved) {
  const Golden golden(GetParam());
  for (const auto& path : {golden_path(GetParam()), gguf_of(GetParam())}) {
    const Runner::Options options{.precision = Precision::f32, .isa = kernels::available_isas().back()};
    ASSERT_LT(error_of(path, golden, options), 1e-4);
    Runner runner(path, options);
    ASSERT_EQ(runner.greedy(golden.ids, static_cast<int>(golden.greedy.size())), golden.greedy);
  }
  const auto file = models::open_model(golden_path(GetParam()));
  const auto family = (*file)->metadata().required_string("general.architecture");
  fmt::print(
      "[ proved ] architecture | {} | {} | {} logits within 1e-4 of Transformers, {} greedy tokens equal, "
      "from "
      "safetensors and from GGUF\n",
      *family, GetParam(), golden.logits.size(), golden.greedy.size());
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, testing::ValuesIn(folders_in(golden_path(""))),
                         [](const auto& instance) { return instance.param; });

// Old GGUF files of DeepSeek keep what makes keys and values in one matrix (attn_kv_b), as trained, and state the lengths of
// the unfolded heads. They are the same model, bit for bit.
TEST(GoldenLatentTest, OldFilesAreTheSame) {
  for (const std::string name : {"deepseek_v2", "deepseek_v2_lite", "deepseek_v3"}) {
    const auto file = formats::GgufFile::open(gguf_of(name));
    ASSERT_TRUE(file.ok());
    const auto& k0 = *file->find_tensor("blk.0.attn_k_b.weight");
    const auto& v0 = *file->find_tensor("blk.0.attn_v_b.weight");
    const std::uint64_t plain = k0.dims[0], rank = k0.dims[1], heads = k0.dims[2], value = v0.dims[1];
    formats::GgufWriter writer;
    for (const formats::GgufPair& pair : file->metadata().pairs()) {
      if (!pair.key.ends_with("_mla")) writer.copy_metadata(pair);
    }
    const auto query = file->metadata().optional_uint("deepseek2.attention.key_length_mla");
    writer.add_metadata("deepseek2.attention.key_length", static_cast<std::uint32_t>(**query));
    writer.add_metadata("deepseek2.attention.value_length", static_cast<std::uint32_t>(value));
    writer.add_metadata("deepseek2.attention.head_count_kv", static_cast<std::uint32_t>(heads));
    std::vector<std::vector<float>> joined;
    std::vector<std::span<const std::byte>> data;
    joined.reserve(file->tensors().size());
    for (const auto& tensor : file->tensors()) {
      const std::string tensor_name(tensor.name);
      if (tensor_name.ends_with("attn_v_b.weight")) continue;
      if (!tensor_name.ends_with("attn_k_b.weight")) {
        writer.add_tensor(tensor_name, tensor.format->dtype, tensor.dims);
        data.push_back(tensor.data);
        continue;
      }
      const std::string layer = tensor_name.substr(0, tensor_name.size() - std::strlen("k_b.weight"));
      const auto& values = *file->find_tensor(layer + "v_b.weight");
      const auto* k = reinterpret_cast<const float*>(tensor.data.data());
      const auto* v = reinterpret_cast<const float*>(values.data.data());
      std::vector<float>& both = joined.emplace_back();
      for (std::uint64_t head = 0; head < heads; ++head) {
        for (std::uint64_t i = 0; i < plain; ++i) {
          for (std::uint64_t c = 0; c < rank; ++c) both.push_back(k[(head * rank + c) * plain + i]);
        }
        both.insert(both.end(), v + head * value * rank, v + (head + 1) * value * rank);
      }
      writer.add_tensor(layer + "kv_b.weight", DType::f32, {rank, heads * (plain + value)});
      data.push_back(std::as_bytes(std::span(both)));
    }
    const std::filesystem::path path = scratch_folder() / "old.gguf";
    ASSERT_TRUE(writer.begin(path).ok());
    for (const auto& bytes : data) ASSERT_TRUE(writer.write_tensor(bytes).ok());
    ASSERT_TRUE(writer.commit().ok());
    const Golden golden(name);
    const Runner::Options options{.isa = kernels::available_isas().back()};
    Runner old_file(path, options), file_of_now(gguf_of(name), options);
    kvcache::SequenceCache a = old_file.sequence(), b = file_of_now.sequence();
    EXPECT_EQ(old_file.feed(a, golden.ids), file_of_now.feed(b, golden.ids)) << name;
  }
}

// Files of llama.cpp do not mention norms of q and k, and old ones call every StableLM parallel whose config.json said
// nothing: the tensors tell. Written as a directory, it is still the model.
TEST(GoldenStableLmTest, FilesOfLlamaCppAreTheSame) {
  for (const std::string name : {"stablelm", "stablelm_parallel"}) {
    const Golden golden(name);
    const std::filesystem::path path = scratch_folder() / (name + "-of-llama-cpp.gguf");
    rewrite(gguf_of(name), path,
            {.set = {{"stablelm.use_parallel_residual", true}}, .without = {"stablelm.attention.qk_norm"}});
    const std::filesystem::path exported = scratch_folder() / (name + "-of-llama-cpp");
    export_model(path, exported);
    const Runner::Options options{.precision = Precision::f32};
    EXPECT_LT(error_of(path, golden, options), 1e-4) << name;
    EXPECT_LT(error_of(exported, golden, options), 1e-4) << name;
  }
}

// A golden that a wrong rotation, mask or norm would also pass proves nothing: each of these edits of a file must
// move the logits far away.
TEST(GoldenMutationTest, WrongDescriptionsAreSeen) {
  struct Mutation {
    const char* model;
    const char* key;
    formats::GgufWriter::Value value;
  };
  const std::vector<Mutation> mutations{
      {"llama_odd", "llama.rope.freq_base", 20000.0f},
      {"llama_odd", "llama.rope.dimension_count", 18u},
      {"llama_odd", "llama.attention.layer_norm_rms_epsilon", 0.05f},
      {"llama_linear", "llama.rope.scaling.factor", 3.9f},
      {"mistral_window", "llama.attention.sliding_window", 8u},
      {"mistral_window", "llama.attention.sliding_window", 6u},
      {"mistral_window", "llama.attention.sliding_window", 0u},
      {"qwen2_bias", "qwen2.rope.freq_base", 900000.0f},
      {"gpt_oss", "gpt-oss.attention.sliding_window", 11u},
      {"mamba2", "mamba2.attention.layer_norm_rms_epsilon", 0.05f},
      {"granite_hybrid", "granitehybrid.rope.scaling.finetuned", true},
      {"granite_hybrid", "granitehybrid.residual_scale", 0.5f},
      {"granite_hybrid_moe", "granitehybrid.rope.freq_base", 30000.0f},
      {"deepseek_v2_lite", "deepseek2.rope.scaling.yarn_log_multiplier", 0.1f},
      {"deepseek_v2_lite", "deepseek2.expert_weights_scale", 1.0f},
      {"deepseek_moe", "deepseek.expert_weights_norm", true},
      {"deepseek_moe", "deepseek.expert_used_count", 3u},
      {"deepseek_v2", "deepseek2.expert_group_used_count", 1u},
      {"deepseek_v3", "deepseek2.expert_group_used_count", 4u},
      {"deepseek_v3", "deepseek2.expert_gating_func", 1u},
      {"deepseek_v3", "deepseek2.expert_weights_norm", false},
      {"gpt_oss", "gpt-oss.rope.scaling.yarn_beta_slow", 0.5f},
      {"gpt_oss", "gpt-oss.expert_used_count", 3u},
      {"gpt_oss", "gpt-oss.expert_gating_func", 1u},
      {"qwen3_norm", "qwen3.attention.layer_norm_rms_epsilon", 0.05f},
      {"llama_yarn", "llama.rope.scaling.factor", 4.2f},
      {"llama_yarn", "llama.rope.scaling.yarn_beta_slow", 0.3f},
      {"gemma2", "gemma2.attention.scale", 0.2f},
      {"gemma2", "gemma2.attn_logit_softcapping", 4.0f},
      {"gemma2", "gemma2.final_logit_softcapping", 8.0f},
      {"gemma2", "gemma2.attention.sliding_window", 8u},
      {"olmo3", "olmo2.attention.sliding_window", 8u},
      {"olmo3", "olmo2.rope.freq_base_swa", 10000.0f},
      {"olmo3", "olmo2.rope.scaling.factor", 3.0f},
      {"gemma3", "gemma3.rope.freq_base_swa", 20000.0f},
      {"gemma3", "gemma3.rope.scaling.factor", 4.0f},
      {"gemma3", "gemma3.attention.sliding_window", 8u},
      {"granite", "granite.attention.scale", 0.25f},
      {"granite", "granite.embedding_scale", 2.0f},
      {"granite", "granite.residual_scale", 0.5f},
      {"granite", "granite.logit_scale", 1.0f},
      {"stablelm", "stablelm.rope.dimension_count", 8u},
      {"stablelm", "stablelm.attention.layer_norm_epsilon", 1e-5f},
      {"stablelm_parallel", "stablelm.rope.dimension_count", 4u},
      {"stablelm_parallel", "stablelm.attention.qk_norm", false},
      {"gptneox", "gptneox.use_parallel_residual", false},
      {"gptneox", "gptneox.rope.dimension_count", 8u},
      {"cohere2", "cohere2.attention.sliding_window", 6u},
      {"cohere", "command-r.logit_scale", 0.5f},
      {"glm4", "glm4.rope.dimension_count", 8u},
      {"phi3_longrope", "phi3.rope.scaling.attn_factor", 1.0f},
      {"mixtral", "llama.expert_used_count", 1u},
      {"mixtral", "llama.expert_weights_norm", false},
      {"qwen2_moe", "qwen2moe.expert_weights_norm", true},
      {"granite_moe", "granitemoe.expert_gating_func", 1u},
  };
  for (const Mutation& mutation : mutations) {
    const std::filesystem::path path = scratch_folder() / "mutated.gguf";
    rewrite(gguf_of(mutation.model), path, {.set = {{mutation.key, mutation.value}}});
    const double error = error_of(path, Golden(mutation.model), {.precision = Precision::f32});
    EXPECT_GT(error, 1e-3) << mutation.model << " " << mutation.key;
    fmt::print("[ counts ] {} {}: wrong by {:.1e}\n", mutation.model, mutation.key, error);
  }
}

// What a config.json means by silence is what Transformers assumes (tests/oracle/check_defaults.py asks it); a null is none.
TEST(GoldenConfigTest, SilenceMeansWhatTransformersAssumes) {
  struct Case {
    const char *model, *name;
    bool null;  // or not there
    const char* key;
    double expected;  // < 0: no such key
  };
  const Case cases[] = {
      {"olmo2", "rms_norm_eps", false, "olmo2.attention.layer_norm_rms_epsilon", 1e-5},
      {"llama_odd", "rms_norm_eps", false, "llama.attention.layer_norm_rms_epsilon", 1e-6},
      {"deepseek_v3", "routed_scaling_factor", false, "deepseek2.expert_weights_scale", 2.5},
      {"deepseek_v3", "norm_topk_prob", false, "deepseek2.expert_weights_norm", 1},
      {"deepseek_v2", "topk_method", false, "deepseek2.expert_group_count", -1},
      {"gemma2", "attn_logit_softcapping", false, "gemma2.attn_logit_softcapping", 50},
      {"gemma2", "attn_logit_softcapping", true, "gemma2.attn_logit_softcapping", 0},
      {"mixtral", "rope_parameters", false, "llama.rope.freq_base", 1e6},
      {"gpt_oss", "rope_parameters", false, "gpt-oss.rope.scaling.factor", 32},
      {"mistral_window", "sliding_window", false, "llama.attention.sliding_window", 4096},
      {"mistral_window", "sliding_window", true, "llama.attention.sliding_window", -1},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(fmt::format("{} {}", test.model, test.name));
    const std::filesystem::path folder = scratch_folder() / "silent";
    std::filesystem::remove_all(folder);
    std::filesystem::copy(golden_path(test.model), folder);
    Json config = Json::parse(std::ifstream(folder / "config.json"));
    config.erase(test.name);
    if (test.null) config[test.name] = nullptr;
    std::ofstream(folder / "config.json") << config;
    const auto model = models::HfModel::open(folder);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const formats::GgufValue* stated = (*model)->metadata().find(test.key);
    if (stated == nullptr || test.expected < 0) {
      EXPECT_EQ(stated == nullptr, test.expected < 0);
      continue;
    }
    const double value = std::visit(
        [](const auto& held) {
          if constexpr (std::is_arithmetic_v<std::decay_t<decltype(held)>>) return static_cast<double>(held);
          return -2.0;
        },
        *stated);
    EXPECT_NEAR(value, test.expected, 1e-6 * test.expected);
  }
}

// A fork takes a copy of the state along, and what it goes on to read is its own.
TEST(GoldenRecurrentTest, ForksGoOnAsTheirOriginal) {
  for (const char* const name : {"mamba2", "granite_hybrid", "granite_hybrid_moe"}) {
    const Golden golden(name);
    Runner runner(golden_path(name), {.isa = kernels::available_isas().back()});
    const std::span<const std::int32_t> ids(golden.ids), rest = ids.subspan(21);
    kvcache::SequenceCache whole = runner.sequence(), trunk = runner.sequence();
    const std::vector<float> expected = runner.feed_last(whole, ids);
    runner.feed_last(trunk, ids.first(21));
    kvcache::SequenceCache branch = trunk.fork(), other = trunk.fork();
    runner.feed_last(other, ids.first(9));
    EXPECT_EQ(runner.feed_last(branch, rest, 4), expected) << name;
    EXPECT_EQ(runner.feed_last(trunk, rest), expected) << name;
    trunk.truncate(30);  // no way back but to the beginning
    EXPECT_EQ(trunk.length(), 0);
    EXPECT_EQ(runner.feed_last(trunk, ids, 7), expected) << name;
  }
}

// What `lithe bench` divides by time is what a token makes the matrices read and multiply; of a mixture not the experts
// that it does not meet.
TEST(PriceTest, ATokenPaysForWhatItMeets) {
  struct Counter : layers::Observer {
    std::vector<const layers::Linear*> linears;
    double bytes = 0;
    std::uint64_t macs = 0;
    void on_linear_input(int id, const float*, std::int64_t rows, std::int64_t, std::int64_t) override {
      const auto& linear =
          **std::ranges::find(linears, id, [](const layers::Linear* one) { return one->id(); });
      bytes += static_cast<double>(linear.weight_bytes());
      macs += static_cast<std::uint64_t>(rows * linear.out_features() * linear.in_features());
    }
  };
  for (const char* const name : {"llama_odd", "qwen2_moe", "mixtral", "granite_hybrid_moe"}) {
    Runner runner(golden_path(name), {});
    Counter counter;
    counter.linears = runner.model().linears();
    runner.model().set_observer(&counter);
    kvcache::SequenceCache cache = runner.sequence();
    const std::vector<std::int32_t> one{1};
    runner.feed_last(cache, one);
    EXPECT_EQ(counter.macs, runner.model().layer_macs() + runner.model().head_macs()) << name;
    EXPECT_NEAR(counter.bytes / runner.model().pass_bytes(1), 1, 1e-9) << name;
    EXPECT_GE(runner.model().pass_bytes(20), runner.model().pass_bytes(1)) << name;
  }
}

// As in llama.cpp, attention turns its heads where a file does not say that it does not.
TEST(GoldenRecurrentTest, GraniteHybridRotatesUnlessItSaysOtherwise) {
  constexpr std::string_view kSwitch = "granitehybrid.rope.scaling.finetuned";
  const std::filesystem::path whole = gguf_of("granite_hybrid_moe"), path = scratch_folder() / "silent.gguf";
  ASSERT_TRUE((*models::open_model(whole))->metadata().contains(kSwitch));
  rewrite(whole, path, {.without = {std::string(kSwitch)}});
  EXPECT_LT(error_of(path, Golden("granite_hybrid_moe"), {.precision = Precision::f32}), 1e-4);
}

// A bound on the steps would change every number behind it, and is not run: said, not passed over.
TEST(GoldenRecurrentTest, BoundedStepsAreRefused) {
  for (const char* const name : {"mamba2", "granite_hybrid"}) {
    const std::filesystem::path folder = scratch_folder() / (std::string(name) + "-bounded");
    std::filesystem::remove_all(folder);
    std::filesystem::copy(golden_path(name), folder);
    Json config = *parse_json(*read_file(folder / "config.json"));
    for (const auto& [limit, runs] :
         {std::pair{Json{0.0, 0.1}, false}, std::pair{Json{0.001, 1.7e308}, false},
          std::pair{Json{0.0, 1.7e308}, true}}) {
      config["time_step_limit"] = limit;
      std::ofstream(folder / "config.json") << config.dump();
      const auto opened = models::open_model(folder);
      EXPECT_EQ(opened.ok(), runs) << name << " " << limit.dump();
      if (runs) continue;
      EXPECT_EQ(opened.status().code(), Code::unsupported);
      EXPECT_NE(opened.status().message().find("time_step_limit"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace lithe::test
