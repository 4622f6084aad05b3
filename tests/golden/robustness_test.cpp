// A model file is untrusted: whatever its bytes, loading and running end in a Status or in numbers, never in a crash.
// The sanitizer builds run these too. Cases are numbered as in docs/field-cases.md: 22, 24, 26; robustness 3, 6.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/file.h"
#include "base/log.h"
#include "formats/safetensors.h"
#include "models/hf/model.h"
#include "support.h"

namespace lithe::test {
namespace {

using formats::GgufFile;
using models::Model;

// So small that each of its header's bits can be flipped in a test.
TinyShape smallest() {
  return {
      .layers = 1, .hidden = 8, .heads = 2, .kv_heads = 1, .head_dim = 4, .ffn = 8, .vocab = 12, .window = 5};
}

class RobustnessTest : public testing::Test {
 protected:
  RobustnessTest() : threads_(1), path_(scratch_folder() / "robust.gguf") {
    options_.kernels = *kernels::default_kernel_table();
    options_.kv_dtype = DType::f32;
  }

  Result<Model> load(const TinyFile& file) {
    file.write(path_);
    return load_path();
  }
  Result<Model> load_path() {
    auto opened = GgufFile::open(path_);
    if (!opened.ok()) return std::move(opened).status();
    file_.emplace(std::move(*opened));
    return Model::load(*file_, options_, threads_);
  }
  std::string error(const TinyFile& file) {
    const auto model = load(file);
    return model.ok() ? "loaded" : model.status().message();
  }

  // Opens, loads and runs whatever lies at path_. True if it came to numbers.
  bool survives() {
    auto model = load_path();
    if (!model.ok()) {
      EXPECT_FALSE(model.status().message().empty());
      return false;
    }
    auto pool = model->make_pool(64);
    if (!pool.ok()) return false;
    kvcache::SequenceCache cache(*pool);
    EXPECT_TRUE(cache.reserve(3).ok());
    models::Batch batch{.tokens = {1, 2, 3}, .sequences = {{&cache, 0, 3}}, .logit_rows = {2}};
    std::vector<float> logits(static_cast<std::size_t>(model->spec().vocab));
    return model->forward(batch, logits).ok();
  }

  static void dump(const std::filesystem::path& path, std::string_view bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  ThreadPool threads_;
  std::filesystem::path path_;
  models::ModelOptions options_;
  std::optional<GgufFile> file_;
};

TEST_F(RobustnessTest, TheSmallModelItselfRuns) {
  tiny_model(smallest(), DType::f32).write(path_);
  EXPECT_TRUE(survives());
}

// Case 22.
TEST_F(RobustnessTest, TruncatedAnywhere) {
  tiny_model(smallest(), DType::f32).write(path_);
  const std::string whole = *read_file(path_);
  int refused = 0;
  for (int percent = 0; percent < 100; ++percent) {
    dump(path_, std::string_view(whole).substr(0, whole.size() * static_cast<std::size_t>(percent) / 100));
    EXPECT_FALSE(survives()) << percent << "%";
    ++refused;
  }
  dump(path_, std::string_view(whole).substr(0, whole.size() - 1));
  const auto model = load_path();
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.status().message().find("blk.0.ffn_down.weight"), std::string::npos)
      << model.status().message();
  fmt::print("[ counts ] {} truncations refused\n", refused + 1);
}

TEST_F(RobustnessTest, EveryHeaderBitFlipped) {
  const TinyFile file = tiny_model(smallest(), DType::f32);
  file.write(path_);
  std::string bytes = *read_file(path_);
  std::size_t data = 0;
  for (const TinyTensor& tensor : file.tensors) data += (tensor.values.size() * sizeof(float) + 31) / 32 * 32;
  const std::size_t header = bytes.size() - data;
  int ran = 0, refused = 0;
  set_log_level(LogLevel::off);  // thousands of warnings about tensors renamed by a bit
  for (std::size_t bit = 0; bit < header * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    dump(path_, bytes);
    (survives() ? ran : refused)++;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
  set_log_level(LogLevel::info);
  EXPECT_GT(refused, 1000);
  fmt::print("[ counts ] {} header bits flipped: {} refused, {} ran\n", header * 8, refused, ran);
}

TEST_F(RobustnessTest, MissingAndMisshapedTensorsAreNamed) {
  const TinyFile whole = tiny_model(smallest(), DType::f32);
  int named = 0;
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    const std::string& name = whole.tensors[i].name;
    TinyFile without = whole;
    without.tensors.erase(without.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(error(without).find(name), std::string::npos) << error(without);

    TinyFile misshaped = whole;
    TinyTensor& tensor = misshaped.tensors[i];
    tensor.dims[0] *= 2;
    tensor.values.resize(tensor.values.size() * 2);
    const std::string message = error(misshaped);
    EXPECT_NE(message.find("shape"), std::string::npos) << name << ": " << message;
    named += 2;
  }
  fmt::print("[ counts ] {} faults named\n", named);
}

TEST_F(RobustnessTest, UnusedTensorsAreAWarning) {
  TinyFile file = tiny_model(smallest(), DType::f32);
  file.tensors.push_back({"blk.7.attn_sinks.weight", {8}, DType::f32, std::vector<float>(8)});
  testing::internal::CaptureStderr();
  const std::string message = error(file);
  EXPECT_EQ(message, "loaded");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("blk.7.attn_sinks.weight"), std::string::npos);
}

TEST_F(RobustnessTest, WildParametersAreNamed) {
  struct Wild {
    const char* key;
    formats::GgufWriter::Value value;
  };
  const std::vector<Wild> wild{
      {"llama.block_count", 0u},
      {"llama.block_count", 1431655766u},
      {"llama.block_count", std::uint64_t{1} << 63},
      {"llama.block_count", std::string("many")},
      {"llama.block_count", 2u},
      {"llama.embedding_length", 0u},
      {"llama.embedding_length", 0xffffffffu},
      {"llama.feed_forward_length", 0u},
      {"llama.feed_forward_length", std::int32_t{-8}},
      {"llama.context_length", 0u},
      {"llama.attention.head_count", 0u},
      {"llama.attention.head_count", 3u},
      {"llama.attention.head_count_kv", 0u},
      {"llama.attention.head_count_kv", 3u},
      {"llama.attention.head_count_kv", 0x80000000u},
      {"llama.attention.key_length", 0x40000000u},
      {"llama.attention.key_length", 6u},
      {"llama.attention.value_length", 1u << 20},
      {"llama.attention.layer_norm_rms_epsilon", -1.0f},
      {"llama.attention.layer_norm_rms_epsilon", std::nanf("")},
      {"llama.rope.dimension_count", 3u},
      {"llama.rope.dimension_count", 0u},
      {"llama.rope.dimension_count", 6u},
      {"llama.rope.freq_base", 0.0f},
      {"llama.rope.freq_base", INFINITY},
      {"llama.rope.scaling.type", std::string("spiral")},
      {"llama.attention.sliding_window", 0xffffffffu},
      {"general.architecture", std::string("mamba")},
      {"general.architecture", 7u},
  };
  for (const Wild& entry : wild) {
    TinyFile file = tiny_model(smallest(), DType::f32);
    file.value(entry.key) = entry.value;
    const auto model = load(file);
    ASSERT_FALSE(model.ok()) << entry.key << " #" << &entry - wild.data();
    EXPECT_FALSE(model.status().message().empty());
  }
  fmt::print("[ counts ] {} wild parameters refused\n", wild.size());
  TinyFile file = tiny_model(smallest(), DType::f32);
  file.value("llama.attention.head_count_kv") = 0x80000000u;
  EXPECT_NE(error(file).find("llama.attention.head_count_kv = 2147483648"), std::string::npos) << error(file);
  file.value("general.architecture") = std::string("mamba");
  EXPECT_NE(error(file).find("'mamba'"), std::string::npos) << error(file);
}

// Case 24: a head that repeats the embedding is shared, another one is used, and without one the embedding serves.
TEST_F(RobustnessTest, TiedAndUntiedHeads) {
  TinyShape shape = smallest();
  const auto bytes = [&](const TinyFile& file, bool& tied) {
    auto model = load(file);
    EXPECT_TRUE(model.ok());
    tied = model->spec().tied_head;
    return model->memory().weights;
  };
  const TinyFile without = tiny_model(shape, DType::f32);
  TinyFile repeated = without;
  repeated.tensors.push_back(repeated.tensor("token_embd.weight"));
  repeated.tensors.back().name = "output.weight";
  TinyFile different = repeated;
  different.tensors.back().values[5] += 1;
  bool tied_without = false, tied_repeated = false, tied_different = true;
  const auto bytes_without = bytes(without, tied_without);
  EXPECT_EQ(bytes(repeated, tied_repeated), bytes_without);
  EXPECT_GT(bytes(different, tied_different), bytes_without);
  EXPECT_TRUE(tied_without);
  EXPECT_TRUE(tied_repeated);
  EXPECT_FALSE(tied_different);
}

// Case 26: more tokens than embedding rows, or fewer. Ids without a row are a request's fault.
TEST_F(RobustnessTest, VocabularyAndRowsMayDiffer) {
  for (const std::size_t tokens : {std::size_t{13}, std::size_t{7}}) {
    TinyFile file = tiny_model(smallest(), DType::f32);
    file.metadata.emplace_back("tokenizer.ggml.tokens", std::vector<std::string>(tokens, "x"));
    auto model = load(file);
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto pool = model->make_pool(64);
    ASSERT_TRUE(pool.ok());
    kvcache::SequenceCache cache(*pool);
    for (const std::int32_t id : {-1, 12, 2147483647}) {
      ASSERT_TRUE(cache.reserve(2).ok());
      const models::Batch batch{.tokens = {1, id}, .sequences = {{&cache, 0, 2}}, .logit_rows = {}};
      const Status status = model->forward(batch, {});
      EXPECT_EQ(status.code(), Code::invalid_argument);
      EXPECT_NE(status.message().find(std::to_string(id)), std::string::npos);
      EXPECT_EQ(cache.length(), 0);
    }
  }
}

// Robustness 6.
TEST_F(RobustnessTest, NotANumberIsFoundWhenAsked) {
  TinyFile file = tiny_model(smallest(), DType::f32);
  file.tensor("blk.0.ffn_up.weight").values[9] = std::nanf("");
  EXPECT_EQ(error(file), "loaded");
  options_.check_tensors = true;
  EXPECT_NE(error(file).find("blk.0.ffn_up.weight"), std::string::npos) << error(file);
  EXPECT_NE(error(file).find("row 1"), std::string::npos) << error(file);
  file = tiny_model(smallest(), DType::f32);
  EXPECT_EQ(error(file), "loaded");
  file.tensor("blk.0.ffn_norm.weight").values[2] = INFINITY;
  EXPECT_NE(error(file).find("blk.0.ffn_norm.weight"), std::string::npos) << error(file);
}

TEST_F(RobustnessTest, WhatDoesNotRunIsSaid) {
  auto model = load(tiny_model(smallest(), DType::f32));
  ASSERT_TRUE(model.ok());
  auto pool = model->make_pool(64);
  kvcache::SequenceCache cache(*pool);
  ASSERT_TRUE(cache.reserve(1).ok());
  const models::Batch batch{
      .tokens = {1}, .sequences = {{&cache, 0, 1}}, .logit_rows = {}, .mask = models::MaskKind::tree};
  EXPECT_EQ(model->forward(batch, {}).code(), Code::unsupported);
  EXPECT_FALSE(model->make_pool(0).ok());
  options_.kv_dtype = DType::q4_k;
  EXPECT_EQ(Model::load(*file_, options_, threads_).status().code(), Code::invalid_argument);
}

// A golden directory with one tensor in place of another.
class CodedTensorTest : public testing::Test {
 protected:
  struct Stored {
    const char *type, *ending;  // of the name
    std::vector<std::uint64_t> shape;
    std::byte fill;
  };
  Result<std::unique_ptr<models::HfModel>> open(const char* name, const char* replaced,
                                                const std::vector<Stored>& by) {
    const std::filesystem::path folder = scratch_folder() / "coded";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    std::filesystem::copy(golden_path(name) / "config.json", folder / "config.json");
    const auto directory = formats::HfDirectory::open(golden_path(name));
    EXPECT_TRUE(directory.ok());
    formats::SafetensorsWriter writer;
    std::vector<std::vector<std::byte>> data;
    for (const formats::SafetensorsTensor& tensor : directory->tensors()) {
      if (tensor.name != replaced) {
        writer.add_tensor(tensor.name, *tensor.type, tensor.shape);
        data.emplace_back(tensor.data.begin(), tensor.data.end());
        continue;
      }
      for (const Stored& one : by) {
        writer.add_tensor(tensor.name + one.ending, *formats::find_safetensors_type(one.type), one.shape);
        std::size_t bytes = 1;  // all of one byte a value
        for (const std::uint64_t length : one.shape) bytes *= static_cast<std::size_t>(length);
        data.emplace_back(bytes, one.fill);
      }
    }
    EXPECT_TRUE(writer.begin(folder, std::uint64_t{1} << 30).ok());
    for (const auto& bytes : data) EXPECT_TRUE(writer.write_tensor(bytes).ok());
    EXPECT_TRUE(writer.commit().ok());
    return models::HfModel::open(folder);
  }
};

// Eight-bit floats and MXFP4 are read row by row of a matrix: a vector of them has no such rows.
TEST_F(CodedTensorTest, VectorsOfCodesAreRefused) {
  const std::vector<Stored> forms[] = {
      {{"F8_E4M3", "", {32}, std::byte{0x38}}},
      {{"U8", "_blocks", {1, 1, 16}, std::byte{0x22}}, {"U8", "_scales", {1, 1}, std::byte{0x7F}}}};
  for (const auto& by : forms) {
    const auto model = open("llama_fp8", "model.norm.weight", by);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.status().code(), Code::unsupported);
    EXPECT_NE(model.status().message().find("model.norm.weight"), std::string::npos)
        << model.status().message();
  }
}

// A router is kept in f32 whatever it was stored as.
TEST_F(CodedTensorTest, RoutersOfCodesAreDecoded) {
  const auto original = models::HfModel::open(golden_path("deepseek_v3"));
  ASSERT_TRUE(original.ok());
  const formats::GgufTensor* router = nullptr;
  int layer = -1;
  while (router == nullptr)
    router = (*original)->find_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", ++layer));
  const auto model = open("deepseek_v3", fmt::format("model.layers.{}.mlp.gate.weight", layer).c_str(),
                          {{"F8_E4M3", "", {router->dims[1], router->dims[0]}, std::byte{0x38}}});
  ASSERT_TRUE(model.ok()) << model.status().message();
  std::vector<std::byte> made;
  const auto* coded = (*model)->find_tensor(router->name);
  ASSERT_EQ(coded->format->dtype, DType::f32);
  const auto bytes = (*model)->slice(*coded, 0, made);
  ASSERT_TRUE(bytes.ok());
  std::vector<float> values(static_cast<std::size_t>(coded->elements()));
  ASSERT_EQ(bytes->size(), values.size() * sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return value == 1.0f; }));
}

}  // namespace
}  // namespace lithe::test
