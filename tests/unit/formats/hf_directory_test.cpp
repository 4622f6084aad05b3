// A Hugging Face directory: the index is the authority, what is missing or strange is named, nothing is trusted.
#include "formats/hf_directory.h"

#include <gtest/gtest.h>

#include "gguf_bytes.h"

namespace lithe::formats {
namespace {

using testing::Test;

class HfDirectoryTest : public Test {
 protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  void remove(const std::string& name) { std::filesystem::remove(folder_ / name); }

  // A file of one F32 tensor of two values for each name.
  void shard(const std::string& file, const std::vector<std::string>& tensors) {
    std::string header = "{";
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[2],"data_offsets":[{},{}]}})",
                            i > 0 ? "," : "", tensors[i], 8 * i, 8 * i + 8);
    }
    header += "}";
    const std::uint64_t length = header.size();
    std::string out(reinterpret_cast<const char*>(&length), sizeof length);
    write(file, out + header + std::string(8 * tensors.size(), 'x'));
  }
  void two_shards() {
    write("config.json",
          R"({"model_type":"llama","limit":[0.0, Infinity, NaN, -Infinity], "s":"NaN \" Infinity"})");
    shard("model-00001-of-00002.safetensors", {"a", "b"});
    shard("model-00002-of-00002.safetensors", {"c"});
    write("model.safetensors.index.json",
          R"({"metadata":{"total_size":24},"weight_map":{"a":"model-00001-of-00002.safetensors",
              "b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}})");
  }

  Result<HfDirectory> open(HfDirectory::Parts parts = HfDirectory::Parts::all) {
    return HfDirectory::open(folder_ / "", parts);
  }
  void refused(Code code, std::string_view part, HfDirectory::Parts parts = HfDirectory::Parts::all) {
    const auto opened = open(parts);
    ASSERT_FALSE(opened.ok()) << "expected: " << part;
    EXPECT_EQ(opened.status().code(), code) << opened.status().message();
    EXPECT_NE(opened.status().message().find(part), std::string::npos)
        << "got: " << opened.status().message() << "\nexpected: " << part;
  }

  TemporaryFolder folder_;
};

TEST_F(HfDirectoryTest, OpensShardsByTheirIndex) {
  two_shards();
  EXPECT_TRUE(is_hf_directory(folder_ / ""));
  const auto model = open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_TRUE(model->warnings().empty());
  ASSERT_EQ(model->tensors().size(), 3u);
  EXPECT_EQ(model->find_tensor("c")->shard, 1);
  EXPECT_EQ(model->find_tensor("d"), nullptr);
  EXPECT_EQ(model->shard_paths().size(), 2u);
  model->release(*model->find_tensor("b"));
  EXPECT_EQ(static_cast<char>(model->find_tensor("b")->data[0]), 'x') << "readable after release";
  const Json& config = model->config();
  EXPECT_EQ(config.at("model_type"), "llama");
  EXPECT_GT(config.at("limit").at(1).get<double>(), 1e308);
  EXPECT_TRUE(config.at("limit").at(2).is_null());
  EXPECT_EQ(config.at("s"), "NaN \" Infinity");
}

// Field case 23.
TEST_F(HfDirectoryTest, NamesTheShardThatIsMissing) {
  two_shards();
  remove("model-00002-of-00002.safetensors");
  refused(Code::not_found,
          "model-00002-of-00002.safetensors is missing: model.safetensors.index.json places 1 tensors");
}

TEST_F(HfDirectoryTest, IgnoresAStrayShardWithAWarning) {
  two_shards();
  shard("model-00003-of-00003.safetensors", {"a"});
  const auto model = open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->find_tensor("a")->shard, 0);
  ASSERT_EQ(model->warnings().size(), 1u);
  EXPECT_NE(model->warnings()[0].find("model-00003-of-00003.safetensors is no part"), std::string::npos);
}

TEST_F(HfDirectoryTest, HoldsTheIndexAgainstTheShards) {
  two_shards();
  shard("model-00002-of-00002.safetensors", {"c", "b"});
  refused(Code::corrupt,
          "tensor 'b', which model.safetensors.index.json places in model-00001-of-00002.safetensors");
  shard("model-00002-of-00002.safetensors", {"d"});
  refused(Code::corrupt, "model-00002-of-00002.safetensors holds no tensor 'c'");
  shard("model-00002-of-00002.safetensors", {"c", "d"});
  const auto model = open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->find_tensor("d"), nullptr);
  ASSERT_EQ(model->warnings().size(), 1u);
  EXPECT_NE(model->warnings()[0].find("1 tensors"), std::string::npos);
}

TEST_F(HfDirectoryTest, NamesTheShardThatIsDamaged) {
  two_shards();
  write("model-00002-of-00002.safetensors", std::string("\x05\0\0\0\0\0\0\0{}", 10));
  refused(Code::corrupt, "model-00002-of-00002.safetensors: its header should take 5 bytes");
}

TEST_F(HfDirectoryTest, RefusesAnIndexThatLeavesTheFolder) {
  for (const char* name : {"../model.safetensors", "/etc/passwd.safetensors", "a/b.safetensors",
                           ".x.safetensors", "model.bin", "a\\u0000.safetensors", ".safetensors", ""}) {
    const auto places = parse_shard_index(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", name));
    EXPECT_FALSE(places.ok()) << name;
  }
  for (const char* text :
       {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})", R"({"weight_map":{"a":1}})", "{",
        "{\"weight_map\":{\"a\":\"\xff.safetensors\"}}"}) {
    EXPECT_FALSE(parse_shard_index(text).ok()) << text;
  }
  EXPECT_TRUE(parse_shard_index(R"({"weight_map":{"a":"b.safetensors"}})").ok());
}

TEST_F(HfDirectoryTest, SaysWhatIsThereInsteadOfWeights) {
  EXPECT_FALSE(is_hf_directory(folder_ / ""));
  refused(Code::not_found, "has no config.json");
  write("config.json", "{}");
  EXPECT_TRUE(is_hf_directory(folder_ / ""));
  refused(Code::not_found, "holds no weights");
  write("pytorch_model.bin", "x");
  refused(Code::unsupported, "pickle (pytorch_model.bin), which could run code and is never read");
  write("m.gguf", "x");
  refused(Code::not_found, "m.gguf");
  write("adapter_model.safetensors", "x");
  refused(Code::unsupported, "adapter");
  write("model-00001-of-00002.safetensors", "x");
  remove("adapter_model.safetensors");
  refused(Code::not_found, "fetch the model again");
  shard("model.safetensors", {"a"});
  EXPECT_TRUE(open().ok()) << "pickles beside safetensors do no harm";
}

TEST_F(HfDirectoryTest, BoundsItsTexts) {
  shard("model.safetensors", {"a"});
  write("config.json", std::string(100, '['));
  refused(Code::unsupported, "nested 100 deep");
  write("config.json", "[]");
  refused(Code::corrupt, "config.json: not an object");
  write("config.json", "{\"a\":1,}");
  refused(Code::corrupt, "config.json: not valid JSON");
  write("config.json", "{\"a\":\"" + std::string(1 << 20, 'x') + "\"}");
  refused(Code::unsupported, "larger than such a file can be");
  write("config.json", "{}");
  write("tokenizer_config.json", R"({"bos_token":"<s>"})");
  write("chat_template.jinja", "{{ x }}");
  write("generation_config.json", "{");
  std::filesystem::create_directory(folder_ / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "{{ tools }}");
  write("additional_chat_templates/rag.jinja", "{{ documents }}");
  write("additional_chat_templates/README.md", "no template");
  const auto model = open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model->json(HfText::tokenizer_config))->at("bos_token"), "<s>");
  EXPECT_EQ(**model->text(HfText::chat_template_jinja), "{{ x }}");
  using Named = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(*model->additional_templates(), (Named{{"rag", "{{ documents }}"}, {"tool_use", "{{ tools }}"}}));
  for (int i = 0; i < 64; ++i) write("additional_chat_templates/" + std::to_string(i) + ".jinja", "x");
  EXPECT_EQ(model->additional_templates().status().code(), Code::unsupported);
  EXPECT_EQ(*model->text(HfText::tokenizer_json), std::nullopt);
  EXPECT_EQ(*model->json(HfText::added_tokens), std::nullopt);
  const auto damaged = model->json(HfText::generation_config);
  ASSERT_FALSE(damaged.ok());
  EXPECT_NE(damaged.status().message().find("generation_config.json: not valid JSON"), std::string::npos);
}

TEST_F(HfDirectoryTest, OpensTextAloneWithoutWeights) {
  write("tokenizer.json", "{}");
  EXPECT_TRUE(is_hf_directory(folder_ / ""));
  const auto model = open(HfDirectory::Parts::text_only);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_TRUE(model->config().is_object() && model->config().empty());
  EXPECT_TRUE(model->tensors().empty());
  EXPECT_EQ(HfDirectory::open(folder_ / "tokenizer.json").status().code(), Code::not_found);
  EXPECT_EQ(HfDirectory::open(folder_ / "absent").status().code(), Code::not_found);
}

}  // namespace
}  // namespace lithe::formats
