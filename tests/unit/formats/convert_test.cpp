// Conversion between all formats, the choice of types, and what must never reach an output file.
#include "formats/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "base/rng.h"
#include "gguf_bytes.h"

namespace lithe::formats {
namespace {

using Dims = std::vector<std::uint64_t>;

constexpr auto kNoProgress = [](std::uint64_t, std::string_view) { return true; };

std::vector<float> normal_values(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.normal()) * 0.05f;
  return values;
}

std::vector<std::byte> encode(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> out(*row_bytes(dtype, values.size()));
  block_format(dtype).encode(values.data(), static_cast<std::int64_t>(values.size()), out.data());
  return out;
}

std::vector<float> decode(DType dtype, std::span<const std::byte> blocks, std::size_t count) {
  std::vector<float> values(count);
  block_format(dtype).decode(blocks.data(), static_cast<std::int64_t>(count), values.data());
  return values;
}

class Convert : public ::testing::Test {
 protected:
  struct Tensor {
    std::string name;
    DType dtype;
    Dims dims;
    std::vector<float> values;  // empty: random
  };

  void write(const std::string& name, const std::vector<Tensor>& tensors,
             const std::string& architecture = "llama") {
    GgufWriter writer;
    writer.add_metadata("general.architecture", architecture);
    writer.add_metadata("general.file_type", std::uint32_t{1});
    writer.add_metadata("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
    for (const Tensor& tensor : tensors) writer.add_tensor(tensor.name, tensor.dtype, tensor.dims);
    ASSERT_TRUE(writer.begin(folder_ / name).ok());
    std::uint64_t seed = 1;
    for (const Tensor& tensor : tensors) {
      std::size_t count = 1;
      for (const auto dim : tensor.dims) count *= dim;
      const auto values = tensor.values.empty() ? normal_values(count, seed++) : tensor.values;
      ASSERT_EQ(values.size(), count);
      ASSERT_TRUE(writer.write_tensor(encode(tensor.dtype, values)).ok());
    }
    ASSERT_TRUE(writer.commit().ok());
  }

  Status run(const std::string& in, const std::string& out, DType target, bool pure = false,
             int threads = 2) {
    LITHE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(folder_ / in));
    LITHE_ASSIGN_OR_RETURN(const ConversionPlan plan, plan_conversion(file, target, pure));
    ThreadPool pool(threads);
    return convert(file, plan, folder_ / out, pool, kNoProgress);
  }

  std::map<std::string, std::string> planned_types(const std::string& in, DType target, bool pure = false) {
    const auto file = GgufFile::open(folder_ / in);
    EXPECT_TRUE(file.ok());
    const auto plan = plan_conversion(*file, target, pure);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    std::map<std::string, std::string> out;
    for (const PlannedTensor& planned : plan->tensors) {
      out[std::string(planned.source->name)] =
          std::string(planned.type->name) +
          (planned.wanted ? " for " + std::string(planned.wanted->name) : "");
    }
    return out;
  }

  TemporaryFolder folder_;
};

TEST_F(Convert, EveryFormatIntoEveryOther) {
  int pairs = 0;
  std::size_t bytes = 0;
  for (const BlockFormat& from : block_formats()) {
    // 768 x 131 values: three pieces of work, the last one odd. Some encoders search for long: from one format is enough.
    const Dims dims = {768, from.dtype == DType::f32 ? 131u : 5u};
    write("in.gguf",
          {{"blk.0.ffn_up.weight", from.dtype, dims, {}}, {"blk.0.ffn_norm.weight", DType::f32, {768}, {}}});
    const auto in = GgufFile::open(folder_ / "in.gguf");
    ASSERT_TRUE(in.ok());
    const auto values = decode(from.dtype, in->tensors()[0].data, dims[0] * dims[1]);
    for (const BlockFormat& to : block_formats()) {
      const Status status = run("in.gguf", "out.gguf", to.dtype);
      ASSERT_TRUE(status.ok()) << status.message();
      const auto out = GgufFile::open(folder_ / "out.gguf");
      ASSERT_TRUE(out.ok()) << out.status().message();
      ASSERT_EQ(out->tensors()[0].format, &to) << from.name << " to " << to.name;
      const auto expected = from.dtype == to.dtype ? std::vector<std::byte>(in->tensors()[0].data.begin(),
                                                                            in->tensors()[0].data.end())
                                                   : encode(to.dtype, values);
      const auto data = out->tensors()[0].data;
      EXPECT_TRUE(std::equal(data.begin(), data.end(), expected.begin(), expected.end()))
          << from.name << " to " << to.name;
      EXPECT_EQ(out->tensors()[1].format->dtype, DType::f32);
      ++pairs;
      bytes += data.size();
    }
  }
  EXPECT_EQ(pairs, kDTypeCount * kDTypeCount);
  std::printf("[ counts ] %d pairs of formats, %zu bytes equal\n", pairs, bytes);
}

// Types that Lithe does not run are read like any other, and nothing is converted into them.
TEST_F(Convert, WhatIsOnlyDecodedBecomesAnything) {
  Rng rng(5);
  for (const BlockFormat& from : decode_only_formats()) {
    std::vector<std::byte> data(*row_bytes(from, 512) * 3);
    for (auto& byte : data)
      byte = static_cast<std::byte>(rng.next_u64() & 0x3b);  // scales are ordinary numbers
    GgufWriter writer;
    writer.add_metadata("general.architecture", std::string("llama"));
    writer.add_tensor("blk.0.ffn_up.weight", *find_gguf_type(from.gguf_id), {512, 3});
    ASSERT_TRUE(writer.begin(folder_ / "in.gguf").ok());
    ASSERT_TRUE(writer.write_tensor(data).ok());
    ASSERT_TRUE(writer.commit().ok());
    std::vector<float> values(512 * 3);
    from.decode(data.data(), std::ssize(values), values.data());
    for (const DType to : {DType::f32, DType::q8_0}) {
      const Status status = run("in.gguf", "out.gguf", to);
      ASSERT_TRUE(status.ok()) << status.message();
      const auto out = GgufFile::open(folder_ / "out.gguf");
      const auto got = out->tensors()[0].data;
      const auto expected = encode(to, values);
      EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin(), expected.end())) << from.name;
    }
  }
}

TEST_F(Convert, AnyNumberOfThreadsWritesTheSameBytes) {
  write("in.gguf", {{"blk.0.ffn_up.weight", DType::f32, {512, 300}, {}},
                    {"blk.0.attn_q.weight", DType::f16, {512, 7}, {}}});
  ASSERT_TRUE(run("in.gguf", "one.gguf", DType::q4_k, false, 1).ok());
  ASSERT_TRUE(run("in.gguf", "three.gguf", DType::q4_k, false, 3).ok());
  EXPECT_EQ(slurp(folder_ / "one.gguf"), slurp(folder_ / "three.gguf"));
}

// Field case 28: SmolLM2's rows of 576 and others that 256, or even 32, does not divide.
TEST_F(Convert, RowsThatDoNotDivideFallBack) {
  write("in.gguf", {{"token_embd.weight", DType::f32, {576, 8}, {}},
                    {"blk.0.attn_norm.weight", DType::f32, {576}, {}},
                    {"blk.0.attn_q.weight", DType::f32, {576, 4}, {}},
                    {"blk.0.attn_q.bias", DType::f32, {576}, {}},
                    {"blk.0.ffn_down.weight", DType::f32, {1536, 4}, {}},
                    {"blk.0.ffn_up.weight", DType::f32, {192, 4}, {}},
                    {"blk.0.odd.weight", DType::f32, {33, 4}, {}},
                    {"blk.0.ffn_gate_inp.weight", DType::f32, {576, 8}, {}},
                    {"blk.0.one_row.weight", DType::f32, {256, 1}, {}}});
  auto types = planned_types("in.gguf", DType::q4_k);
  EXPECT_EQ(types["token_embd.weight"], "Q8_0") << "tied to the head";
  EXPECT_EQ(types["blk.0.attn_norm.weight"], "F32");
  EXPECT_EQ(types["blk.0.attn_q.weight"], "Q5_0 for Q4_K");
  EXPECT_EQ(types["blk.0.attn_q.bias"], "F32");
  EXPECT_EQ(types["blk.0.ffn_down.weight"], "Q4_K");
  EXPECT_EQ(types["blk.0.ffn_up.weight"], "Q5_0 for Q4_K");
  EXPECT_EQ(types["blk.0.odd.weight"], "F16 for Q4_K");
  EXPECT_EQ(types["blk.0.ffn_gate_inp.weight"], "F32") << "a router";
  EXPECT_EQ(types["blk.0.one_row.weight"], "F32") << "a vector, whatever its number of dimensions";
  EXPECT_EQ(planned_types("in.gguf", DType::q5_k)["blk.0.attn_q.weight"], "Q5_1 for Q5_K");
  EXPECT_EQ(planned_types("in.gguf", DType::q6_k)["blk.0.attn_q.weight"], "Q8_0 for Q6_K");
  for (const DType dtype : {DType::q2_k, DType::q3_k, DType::tq1_0, DType::tq2_0}) {
    auto of = planned_types("in.gguf", dtype);
    const std::string name(find_gguf_type(block_format(dtype).gguf_id)->name);
    EXPECT_EQ(of["blk.0.ffn_down.weight"], name);
    EXPECT_EQ(of["blk.0.attn_q.weight"], "Q4_0 for " + name);
    EXPECT_EQ(of["blk.0.odd.weight"], "F16 for " + name);
  }
  EXPECT_EQ(planned_types("in.gguf", DType::iq4_xs)["blk.0.attn_q.weight"], "IQ4_NL for IQ4_XS");
  EXPECT_EQ(planned_types("in.gguf", DType::iq4_nl)["blk.0.odd.weight"], "F16 for IQ4_NL");
  EXPECT_EQ(planned_types("in.gguf", DType::mxfp4)["blk.0.attn_q.weight"], "MXFP4");
  EXPECT_EQ(planned_types("in.gguf", DType::mxfp4)["blk.0.odd.weight"], "F16 for MXFP4");
  EXPECT_EQ(planned_types("in.gguf", DType::q8_0)["blk.0.odd.weight"], "F16 for Q8_0");
  EXPECT_EQ(planned_types("in.gguf", DType::q4_k, true)["token_embd.weight"], "Q5_0 for Q4_K");
  EXPECT_EQ(planned_types("in.gguf", DType::q4_0)["token_embd.weight"], "Q8_0 for Q6_K");
  EXPECT_EQ(planned_types("in.gguf", DType::q4_0, true)["token_embd.weight"], "Q4_0");
  EXPECT_EQ(planned_types("in.gguf", DType::f16)["blk.0.odd.weight"], "F16");

  ASSERT_TRUE(run("in.gguf", "out.gguf", DType::q4_k).ok());
  const auto out = GgufFile::open(folder_ / "out.gguf");
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->find_tensor("blk.0.attn_q.weight")->format->dtype, DType::q5_0);
}

TEST_F(Convert, TheHeadGetsMoreBits) {
  write("tied.gguf", {{"token_embd.weight", DType::f32, {256, 8}, {}}});
  write("untied.gguf",
        {{"token_embd.weight", DType::f32, {256, 8}, {}}, {"output.weight", DType::f32, {256, 8}, {}}});
  EXPECT_EQ(planned_types("tied.gguf", DType::q4_0)["token_embd.weight"], "Q6_K");
  EXPECT_EQ(planned_types("untied.gguf", DType::q4_0)["token_embd.weight"], "Q4_0");
  EXPECT_EQ(planned_types("untied.gguf", DType::q4_0)["output.weight"], "Q6_K");
  EXPECT_EQ(planned_types("untied.gguf", DType::q8_0)["output.weight"], "Q8_0");
  EXPECT_EQ(planned_types("untied.gguf", DType::q4_0, true)["output.weight"], "Q4_0");
  EXPECT_EQ(planned_types("untied.gguf", DType::bf16)["output.weight"], "BF16");
}

TEST_F(Convert, MetadataGoesOverAndTheFileTypeIsNew) {
  write("in.gguf", {{"blk.0.ffn_up.weight", DType::f32, {256, 2}, {}}});
  ASSERT_TRUE(run("in.gguf", "out.gguf", DType::q5_k).ok());
  const auto out = GgufFile::open(folder_ / "out.gguf");
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(**out->metadata().optional_uint("general.file_type"), 16u);
  EXPECT_EQ(**out->metadata().optional_uint("general.quantization_version"), 2u);
  EXPECT_EQ(out->metadata().string_array("tokenizer.ggml.tokens")->at(1), "b");
  EXPECT_EQ(out->metadata().pairs()[1].key, "general.file_type") << "in its old place";
}

TEST_F(Convert, WhatIsNotFiniteNeverReachesAFile) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  struct Case {
    float value;
    DType target;
    bool refused;
  };
  const std::vector<Case> cases = {
      {nan, DType::q8_0, true},      {inf, DType::q4_k, true},     {-inf, DType::bf16, true},
      {nan, DType::f16, true},       {65505.0f, DType::f16, true}, {-70000.0f, DType::q8_0, true},
      {65504.0f, DType::f16, false}, {1e30f, DType::bf16, false},  {3.4e38f, DType::bf16, true}};
  for (const Case& c : cases) {
    std::vector<float> values(256 * 300, 0.5f);
    values[256 * 257 + 3] = c.value;
    write("in.gguf", {{"blk.3.ffn_up.weight", DType::f32, {256, 300}, values}});
    const Status status = run("in.gguf", "out.gguf", c.target);
    EXPECT_EQ(!status.ok(), c.refused) << c.value;
    EXPECT_EQ(std::filesystem::exists(folder_ / "out.gguf"), !c.refused);
    std::filesystem::remove(folder_ / "out.gguf");
    if (!c.refused) continue;
    EXPECT_EQ(status.code(), Code::corrupt);
    EXPECT_NE(status.message().find("'blk.3.ffn_up.weight' holds"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("row 257, column 3"), std::string::npos) << status.message();
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1)
      << "no temporary file stays";
}

TEST_F(Convert, CancellingLeavesNothing) {
  write("in.gguf", {{"blk.0.ffn_up.weight", DType::f32, {256, 100}, {}},
                    {"blk.1.ffn_up.weight", DType::f32, {256, 100}, {}}});
  const auto file = GgufFile::open(folder_ / "in.gguf");
  const auto plan = plan_conversion(*file, DType::q8_0, false);
  ThreadPool pool(2);
  std::uint64_t seen = 0;
  const auto once = [&](std::uint64_t bytes, std::string_view) { return (seen += bytes) < 100000; };
  EXPECT_EQ(convert(*file, *plan, folder_ / "out.gguf", pool, once).code(), Code::cancelled);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
  seen = 0;
  const auto all = [&](std::uint64_t bytes, std::string_view) { return (seen += bytes) > 0; };
  EXPECT_TRUE(convert(*file, *plan, folder_ / "out.gguf", pool, all).ok());
  EXPECT_EQ(seen, 2u * 256 * 100 * 4) << "progress counts the source's bytes";
}

TEST_F(Convert, TypesThatAreNotDecodedAreCopiedOrRefused) {
  const auto file_with = [&](const std::string& name, const Dims& dims, const char* type_name) {
    const GgufType* type = nullptr;
    for (std::uint32_t id = 0; id < 64; ++id) {
      if (find_gguf_type(id) != nullptr && find_gguf_type(id)->name == type_name) type = find_gguf_type(id);
    }
    GgufWriter writer;
    writer.add_tensor(name, *type, dims);
    EXPECT_TRUE(writer.begin(folder_ / "in.gguf").ok());
    std::uint64_t count = 1;
    for (const auto dim : dims) count *= dim;
    EXPECT_TRUE(
        writer.write_tensor(std::vector<std::byte>(count / type->block_elems * type->block_bytes)).ok());
    EXPECT_TRUE(writer.commit().ok());
  };
  file_with("rope_freqs.weight", {32}, "F64");
  EXPECT_TRUE(run("in.gguf", "out.gguf", DType::q8_0).ok());
  file_with("blk.0.ffn_up.weight", {256, 2}, "Q8_K");
  const Status status = run("in.gguf", "out.gguf", DType::q8_0);
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_EQ(status.message(), "tensor 'blk.0.ffn_up.weight' is of type Q8_K, which Lithe does not decode");
}

TEST_F(Convert, SplitsAreMerged) {
  for (std::uint32_t shard = 0; shard < 2; ++shard) {
    GgufWriter writer;
    if (shard == 0) writer.add_metadata("general.architecture", "llama");
    writer.add_metadata("split.no", shard);
    writer.add_metadata("split.count", std::uint32_t{2});
    writer.add_metadata("split.tensors.count", std::int32_t{2});
    writer.add_tensor("blk." + std::to_string(shard) + ".ffn_up.weight", DType::f16, {64, 2});
    ASSERT_TRUE(writer.begin(folder_ / ("m-0000" + std::to_string(shard + 1) + "-of-00002.gguf")).ok());
    ASSERT_TRUE(writer.write_tensor(encode(DType::f16, normal_values(128, shard))).ok());
    ASSERT_TRUE(writer.commit().ok());
  }
  ASSERT_TRUE(run("m-00002-of-00002.gguf", "out.gguf", DType::q8_0).ok());
  const auto out = GgufFile::open(folder_ / "out.gguf");
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->tensors().size(), 2u);
  EXPECT_EQ(out->metadata().contains("split.count"), false);
  EXPECT_EQ(out->shard_count(), 1);
}

}  // namespace
}  // namespace lithe::formats
