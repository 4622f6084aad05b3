// Ids equal to Hugging Face tokenizers' on tiny vocabularies trained under each family's pre-tokenizer.
// Made by tests/oracle/tokenizer_goldens.py. A string that differs is shown with our ids; the script knows theirs.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "formats/gguf.h"
#include "models/gguf_vocab.h"
#include "odd_strings.h"
#include "tokenizer/tokenizer.h"

namespace lithe::tokenizer {
namespace {

const std::string kFolder = LITHE_TEST_DATA "/parity/tokenizer/";

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// FNV-1a of the ids as 32-bit little-endian numbers, from `hash` on.
constexpr std::uint32_t kEmptyHash = 0x811C9DC5;
std::uint32_t hash_of(const std::vector<TokenId>& ids, std::uint32_t hash) {
  for (const TokenId id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (static_cast<std::uint32_t>(id) >> shift & 255)) * 0x01000193;
    }
  }
  return hash;
}

class Parity : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto goldens = nlohmann::json::parse(slurp(kFolder + "goldens.json"));
    inputs_ = goldens.at("inputs").get<std::vector<std::string>>();
    set_ = goldens.at("sets").at(GetParam());
    auto file = formats::GgufFile::open(kFolder + set_.at("vocabulary").get<std::string>());
    ASSERT_TRUE(file.ok()) << file.status().message();
    auto spec = models::vocab_spec(file->metadata());
    ASSERT_TRUE(spec.ok()) << spec.status().message();
    for (const auto& [id, rule] : set_.at("rules").items()) {
      spec->rules[std::stoi(id)] = {rule.value("lstrip", false), rule.value("rstrip", false),
                                    rule.value("single_word", false)};
    }
    kind_ = spec->model;
    auto made = Tokenizer::create(*spec);
    ASSERT_TRUE(made.ok()) << made.status().message();
    tokenizer_.emplace(std::move(made).value());
  }

  std::vector<TokenId> encode(std::string_view text) const {
    auto ids = tokenizer_->encode(text, {.add_special = false});
    EXPECT_TRUE(ids.ok());
    return ids.ok() ? *ids : std::vector<TokenId>();
  }

  std::vector<std::string> inputs_;
  nlohmann::json set_;
  std::string kind_;
  std::optional<Tokenizer> tokenizer_;
};

TEST_P(Parity, TestStringsInFull) {
  std::size_t ids = 0;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto expected = set_.at("ids")[i].get<std::vector<TokenId>>();
    EXPECT_EQ(encode(inputs_[i]), expected) << ::testing::PrintToString(inputs_[i]);
    ids += expected.size();
    if (!set_.contains("decoded")) continue;
    const auto text = tokenizer_->decode(expected);
    ASSERT_TRUE(text.ok());
    EXPECT_EQ(*text, set_.at("decoded")[i].get<std::string>());
    StreamDecoder stream(*tokenizer_, true);
    std::string streamed;
    for (const TokenId id : expected) streamed += stream.push(id);
    EXPECT_EQ(streamed + stream.flush(), *text);
  }
  std::printf("[ counts ] %s: %zu strings, %zu ids equal\n", GetParam(), inputs_.size(), ids);
  EXPECT_EQ(inputs_.size(), 47u);
}

TEST_P(Parity, OddStrings) {
  const testing::OddStrings odd(kFolder + "odd_parts.json");
  const auto extra = set_.at("extra").get<std::vector<std::string>>();
  const auto in_full = set_.at("odd").get<std::vector<std::vector<TokenId>>>();
  const std::string hashes = slurp(kFolder + GetParam() + ".ids");
  const std::size_t group = set_.value("group", std::size_t{1});  // strings behind one hash
  const std::size_t strings = hashes.size() / 4 * group;
  ASSERT_EQ(strings, 10'000u);
  std::size_t ids = 0, differ = 0;
  for (std::size_t first = 0; first < strings; first += group) {
    std::uint32_t hash = kEmptyHash, expected = 0;
    std::string shown;
    for (std::size_t i = first; i < first + group; ++i) {
      const std::string text = odd.make(i, extra);
      const std::vector<TokenId> got = encode(text);
      if (i < in_full.size()) {
        EXPECT_EQ(got, in_full[i]) << i;
      }
      hash = hash_of(got, hash);
      ids += got.size();
      if (differ < 5)
        shown += ::testing::PrintToString(text) + " gives " + ::testing::PrintToString(got) + "\n";
    }
    for (std::size_t byte = 4; byte-- > 0;) {
      expected = expected << 8 | static_cast<std::uint8_t>(hashes[first / group * 4 + byte]);
    }
    if (hash != expected && ++differ <= 5) ADD_FAILURE() << "odd strings from " << first << " on: " << shown;
  }
  EXPECT_EQ(differ, 0u);
  std::printf("[ counts ] %s: %zu odd strings, %zu ids equal\n", GetParam(), strings - differ * group, ids);
  if (HasFailure()) return;
  std::printf("[ proved ] vocabulary | %s | %s | ids of %zu odd strings equal, texts too\n", GetParam(),
              kind_.c_str(), strings);
}

INSTANTIATE_TEST_SUITE_P(Families, Parity,
                         ::testing::Values("gpt-2", "smollm", "llama-bpe", "qwen2", "qwen2-rules", "gpt-4o",
                                           "tekken", "kimi-k2", "deepseek-v3", "deepseek-llm",
                                           "deepseek-coder", "falcon", "bloom", "viking", "qwen35",
                                           "bailingmoe", "seed-coder", "tiny_aya", "superbpe", "mpt", "afmoe",
                                           "llama", "t5", "bert", "gemma4", "whitespace"));

// Other names of what gemma4 is.
TEST(ParityOfNames, SharedByGemma4) {
  const auto goldens = nlohmann::json::parse(slurp(kFolder + "goldens.json"));
  auto file = formats::GgufFile::open(kFolder + "gemma4.gguf");
  ASSERT_TRUE(file.ok());
  auto spec = models::vocab_spec(file->metadata());
  ASSERT_TRUE(spec.ok());
  for (const char* name : {"gemma4", "granite-embed-multi-311m", "sarvam-moe"}) {
    spec->model = "gpt2";
    spec->pre = name;
    const auto tokenizer = Tokenizer::create(*spec);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    for (std::size_t i = 0; i < goldens.at("inputs").size(); ++i) {
      const auto text = goldens.at("inputs")[i].get<std::string>();
      EXPECT_EQ(*tokenizer->encode(text, {.add_special = false}),
                goldens.at("sets").at("gemma4").at("ids")[i].get<std::vector<TokenId>>())
          << name << ": " << ::testing::PrintToString(text);
    }
    if (!HasFailure() && name != std::string_view("gemma4"))
      std::printf("[ proved ] vocabulary | %s | gpt2 | the ids of gemma4\n", name);
  }
}

}  // namespace
}  // namespace lithe::tokenizer
