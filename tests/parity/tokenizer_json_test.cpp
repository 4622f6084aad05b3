// tokenizer.json of many shapes: ids and texts equal to Hugging Face tokenizers' (tests/oracle/tokenizer_json_goldens.py),
// read as they are, through the keys of a GGUF, and written back.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "formats/gguf.h"
#include "formats/hf_directory.h"
#include "models/gguf_vocab.h"
#include "models/hf/vocab.h"
#include "odd_strings.h"
#include "tokenizer/hf_json.h"
#include "tokenizer/normalize.h"

namespace lithe::tokenizer {
namespace {

namespace fs = std::filesystem;
const std::string kFolder = LITHE_TEST_DATA "/parity/tokenizer_json/",
                  kVocabularies = LITHE_TEST_DATA "/parity/tokenizer/";

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::uint32_t hash_of(const std::vector<TokenId>& ids, std::uint32_t hash) {
  for (const TokenId id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (static_cast<std::uint32_t>(id) >> shift & 255)) * 0x01000193;
    }
  }
  return hash;
}

Tokenizer made(const Result<VocabSpec>& spec) {
  if (!spec.ok()) throw std::runtime_error(spec.status().message());
  auto tokenizer = Tokenizer::create(*spec);
  if (!tokenizer.ok()) throw std::runtime_error(tokenizer.status().message());
  return std::move(tokenizer).value();
}

Tokenizer of_json(const std::string& text) {
  const auto file = parse_tokenizer_json(text);
  if (!file.ok()) throw std::runtime_error(file.status().message());
  return made((*file)->spec);
}

/// The metadata of a folder with these files.
formats::Metadata metadata_of(const std::map<std::string, std::string>& files) {
  fs::path folder = fs::temp_directory_path() / ("lithe_json_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  for (const auto& [file, text] : files) std::ofstream(folder / file, std::ios::binary) << text;
  const auto directory = formats::HfDirectory::open(folder, formats::HfDirectory::Parts::text_only);
  formats::MetadataBuilder keys;
  const Status status = directory.ok() ? models::add_hf_vocabulary(*directory, keys) : directory.status();
  fs::remove_all(folder);
  if (!status.ok()) throw std::runtime_error(status.message());
  return std::move(keys.build()).value();
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text, bool special = true) {
  return tokenizer.encode(text, {.add_special = special}).value();
}

class Json : public ::testing::TestWithParam<const char*> {};

TEST_P(Json, IdsAndTextsEqualTheReference) {
  const auto golden = nlohmann::json::parse(slurp(kFolder + "goldens.json")).at(GetParam());
  const auto inputs = nlohmann::json::parse(slurp(kVocabularies + "goldens.json")).at("inputs");
  const auto added = golden.at("added").get<std::vector<std::string>>();
  const auto hashes = golden.at("hashes").get<std::vector<std::uint32_t>>();
  const std::string text = slurp(kFolder + GetParam() + ".json");
  const testing::OddStrings odd(kVocabularies + "odd_parts.json");

  const formats::Metadata keys = metadata_of({{"tokenizer.json", text}, {"config.json", "{}"}});
  const auto files = models::hf_vocabulary_files(keys);
  ASSERT_TRUE(files.ok()) << files.status().message();
  const std::pair<const char*, Tokenizer> ways[] = {{"tokenizer.json", of_json(text)},
                                                    {"GGUF keys", made(models::vocab_spec(keys))},
                                                    {"written back", of_json(files->at(0).text)}};
  for (const auto& [way, tokenizer] : ways) {
    std::size_t ids = 0, differ = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto expected = golden.at("ids")[i].get<std::vector<TokenId>>();
      ASSERT_EQ(encode(tokenizer, inputs[i].get<std::string>()), expected)
          << GetParam() << ", " << way << ": " << ::testing::PrintToString(inputs[i].get<std::string>());
      const std::string decoded = tokenizer.decode(expected).value();
      std::vector<ByteRange> none;
      EXPECT_EQ(replace_invalid_utf8(decoded, none).value_or(decoded),
                golden.at("decoded")[i].get<std::string>())
          << way;
    }
    for (std::size_t group = 0; group < hashes.size(); ++group) {
      std::uint32_t hash = 0x811C9DC5;
      std::string shown;
      for (std::size_t i = 10 * group; i < 10 * group + 10; ++i) {
        const std::string string = odd.make(i, added);
        const auto got = encode(tokenizer, string, false);
        hash = hash_of(got, hash);
        ids += got.size();
        shown += ::testing::PrintToString(string) + " gives " + ::testing::PrintToString(got) + "\n";
      }
      if (hash != hashes[group] && ++differ <= 3) ADD_FAILURE() << way << ": " << shown;
    }
    EXPECT_EQ(differ, 0u);
    std::printf("[ counts ] %s, %s: %zu odd strings, %zu ids equal\n", GetParam(), way,
                10 * (hashes.size() - differ), ids);
  }
  if (HasFailure()) return;
  std::printf(
      "[ proved ] vocabulary | %s | tokenizer.json | ids of %zu odd strings equal, read, through GGUF's "
      "keys and written back\n",
      GetParam(), 10 * hashes.size());
}

INSTANTIATE_TEST_SUITE_P(Shapes, Json,
                         ::testing::Values("llama", "mistral", "gemma", "t5", "xlm", "bert", "words", "qwen2",
                                           "roberta", "odd", "contiguous"));

class Export : public ::testing::TestWithParam<const char*> {};

TEST_P(Export, AGgufsVocabularyWrittenAsJsonGivesTheSameIds) {
  const auto file = formats::GgufFile::open(kVocabularies + GetParam() + ".gguf");
  ASSERT_TRUE(file.ok());
  const Tokenizer original = made(models::vocab_spec(file->metadata()));
  const auto files = models::hf_vocabulary_files(file->metadata());
  ASSERT_TRUE(files.ok()) << files.status().message();
  const Tokenizer back = of_json(files->at(0).text);
  std::map<std::string, std::string> folder{{"config.json", "{}"}};
  for (const auto& [name, text] : *files) folder[name] = text;
  const formats::Metadata keys = metadata_of(folder);
  EXPECT_EQ(std::get<std::string_view>(*keys.find("tokenizer.ggml.model")),
            GetParam() == std::string_view("gemma4")
                ? "llama"
                : file->metadata().required_string("tokenizer.ggml.model").value());
  const Tokenizer again = made(models::vocab_spec(keys));
  EXPECT_EQ(again.end_ids(), original.end_ids());
  const testing::OddStrings odd(kVocabularies + "odd_parts.json");
  std::size_t ids = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::string text = odd.make(i, {});
    const auto expected = encode(original, text);
    ASSERT_EQ(encode(back, text), expected) << ::testing::PrintToString(text);
    ASSERT_EQ(encode(again, text), expected) << ::testing::PrintToString(text);
    ids += expected.size();
  }
  std::printf("[ counts ] %s: 1000 odd strings, %zu ids equal, twice\n", GetParam(), ids);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, Export,
                         ::testing::Values("gpt-2", "smollm", "llama-bpe", "qwen2", "gpt-4o", "deepseek-v3",
                                           "falcon", "llama", "bert", "gemma4"));

}  // namespace
}  // namespace lithe::tokenizer
