// What Hugging Face directories say about a vocabulary beside tokenizer.json itself, as keys and as behaviour.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include "formats/hf_directory.h"
#include "models/gguf_vocab.h"
#include "models/hf/vocab.h"
#include "tokenizer/hf_json.h"
#include "tokenizer/sentencepiece_model.h"

namespace lithe::models {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tokenizer::TokenId;
using tokenizer::Tokenizer;
using tokenizer::TokenType;
using Files = std::map<std::string, std::string>;

constexpr const char* kWords = R"({"version":"1.0","added_tokens":[
  {"id":4,"content":"<s>","special":true,"normalized":false,"lstrip":false,"rstrip":false,"single_word":false},
  {"id":5,"content":"</s>","special":true,"normalized":false,"lstrip":false,"rstrip":true,"single_word":false},
  {"id":6,"content":"<tool>","special":false,"normalized":false,"lstrip":false,"rstrip":false,"single_word":false}],
  "normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},
  "post_processor":null,"decoder":{"type":"ByteLevel"},
  "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"\u0120":3},"merges":[["a","b"]]}})";

Result<formats::Metadata> read(const Files& files) {
  const fs::path folder = fs::temp_directory_path() / ("lithe_hf_vocab_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  for (const auto& [name, text] : files) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << text;
  }
  const auto directory = formats::HfDirectory::open(folder, formats::HfDirectory::Parts::text_only);
  formats::MetadataBuilder keys;
  const Status status = directory.ok() ? add_hf_vocabulary(*directory, keys) : directory.status();
  fs::remove_all(folder);
  if (!status.ok()) return status;
  return keys.build();
}

formats::Metadata keys_of(const Files& files) {
  auto keys = read(files);
  if (!keys.ok()) throw std::runtime_error(keys.status().message());
  return std::move(keys).value();
}

Tokenizer tokenizer_of(const formats::Metadata& keys) {
  const auto spec = vocab_spec(keys);
  if (!spec.ok()) throw std::runtime_error(spec.status().message());
  auto made = Tokenizer::create(*spec);
  if (!made.ok()) throw std::runtime_error(made.status().message());
  return std::move(made).value();
}

std::string_view text_of(const formats::Metadata& keys, std::string_view key) {
  return keys.required_string(key).value();
}

TEST(HfVocabulary, IsWrittenUnderTheKeysOfGguf) {
  const auto keys =
      keys_of({{"config.json", "{}"},
               {"tokenizer.json", kWords},
               {"tokenizer_config.json", R"({"bos_token":"<s>","eos_token":{"content":"</s>"}})"}});
  EXPECT_EQ(text_of(keys, "tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(text_of(keys, "tokenizer.ggml.pre"), "gpt-2");
  EXPECT_THAT(*keys.string_array("tokenizer.ggml.tokens"),
              ElementsAre("a", "b", "ab", "\xC4\xA0", "<s>", "</s>", "<tool>"));
  EXPECT_THAT(*keys.int_array("tokenizer.ggml.token_type"), ElementsAre(1, 1, 1, 1, 3, 3, 4));
  EXPECT_THAT(*keys.string_array("tokenizer.ggml.merges"), ElementsAre("a b"));
  EXPECT_EQ(keys.required_uint("tokenizer.ggml.bos_token_id").value(), 4u);
  EXPECT_EQ(keys.required_uint("tokenizer.ggml.eos_token_id").value(), 5u);
  EXPECT_FALSE(keys.contains(kHuggingFaceJson));  // the keys say all
  EXPECT_THAT(*keys.int_array(kAddedRules), ElementsAre(5, 2));
  const Tokenizer tokenizer = tokenizer_of(keys);
  EXPECT_THAT(tokenizer.encode("ab</s>  b<tool>").value(),
              ElementsAre(2, 5, 1, 6));  // </s> takes blanks along
}

TEST(HfVocabulary, RowsWithoutATokenAreFilledUpAndNeverFound) {  // field case 26
  const auto keys = keys_of({{"config.json", R"({"vocab_size":9})"}, {"tokenizer.json", kWords}});
  EXPECT_EQ(keys.string_array("tokenizer.ggml.tokens")->size(), 9u);
  const Tokenizer tokenizer = tokenizer_of(keys);
  EXPECT_EQ(tokenizer.size(), 9);
  EXPECT_EQ(tokenizer.written(8), "[PAD8]");
  EXPECT_EQ(tokenizer.type(8), TokenType::unused);
  for (const TokenId id : tokenizer.encode("a[PAD8]b").value()) EXPECT_LT(id, 7);
  // More tokens than rows: all are kept, and whoever runs the model refuses those.
  EXPECT_EQ(keys_of({{"config.json", R"({"vocab_size":6})"}, {"tokenizer.json", kWords}})
                .string_array("tokenizer.ggml.tokens")
                ->size(),
            7u);
}

TEST(HfVocabulary, EveryEndIsOne) {  // field case 6
  const auto keys = keys_of({{"config.json", R"({"eos_token_id":6})"},
                             {"tokenizer.json", kWords},
                             {"tokenizer_config.json", R"({"eos_token":"</s>"})"},
                             {"generation_config.json", R"({"eos_token_id":[2,4,99,-1,"x"]})"}});
  const std::set<TokenId> all{2, 4, 5, 6};
  EXPECT_EQ(tokenizer_of(keys).end_ids(), all);
}

// BERT's kin put one token between two texts, RoBERTa's a second: in every form that a tokenizer.json says it, through the
// keys and back.
TEST(HfVocabulary, TwoTextsAreJoinedAsTheFileSays) {
  constexpr const char* kTemplate =
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
      {"SpecialToken":{"id":"</s>","type_id":0}}],"pair":[{"SpecialToken":{"id":"<s>","type_id":0}},
      {"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}},SECOND
      {"Sequence":{"id":"B","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],
      "special_tokens":{"<s>":{"id":"<s>","ids":[4],"tokens":["<s>"]},"</s>":{"id":"</s>","ids":[5],"tokens":["</s>"]},
      "<tool>":{"id":"<tool>","ids":[6],"tokens":["<tool>"]}}})";
  const auto with = [&](std::string processor, const std::string& second) {
    if (const std::size_t at = processor.find("SECOND"); at != std::string::npos)
      processor.replace(at, 6, second);
    std::string json = kWords;
    const std::string none = R"("post_processor":null)";
    return json.replace(json.find(none), none.size(), "\"post_processor\":" + processor);
  };
  const std::string roberta = R"({"type":"RobertaProcessing","sep":["</s>",5],"cls":["<s>",4]})",
                    bert = R"({"type":"BertProcessing","sep":["</s>",5],"cls":["<s>",4]})";
  struct Case {
    std::string json;
    std::optional<TokenId> separator;
  };
  const std::vector<Case> cases{
      {with(roberta, ""), 5},
      {with(bert, ""), std::nullopt},
      {with(kTemplate, R"({"SpecialToken":{"id":"</s>","type_id":0}},)"), 5},
      {with(kTemplate, R"({"SpecialToken":{"id":"<tool>","type_id":0}},)"), 6},
      {with(kTemplate, ""), std::nullopt},
  };
  for (const auto& [json, separator] : cases) {
    const auto keys = keys_of({{"config.json", "{}"}, {"tokenizer.json", json}});
    EXPECT_EQ(*keys.optional_bool("tokenizer.ggml.add_sep_token"), separator.has_value()) << json;
    EXPECT_EQ(tokenizer_of(keys).separator(), separator) << json;
    if (separator) {
      EXPECT_EQ(keys.required_uint("tokenizer.ggml.seperator_token_id").value(), *separator);
    }
    Files back{{"config.json", "{}"}};
    for (HfFile& file : hf_vocabulary_files(keys).value()) back[file.name] = std::move(file.text);
    EXPECT_EQ(tokenizer_of(keys_of(back)).separator(), separator) << back["tokenizer.json"];
  }
  // Files of llama.cpp's from before there was a key for it.
  const auto old = [](const char* architecture, const char* model) {
    formats::MetadataBuilder out;
    out.add("general.architecture", std::string(architecture));
    out.add("tokenizer.ggml.model", std::string(model));
    out.add("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "</s>", "a"});
    out.add("tokenizer.ggml.scores", std::vector<float>(4));
    out.add("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 3, 1});
    out.add("tokenizer.ggml.bos_token_id", 1u);
    out.add("tokenizer.ggml.eos_token_id", 2u);
    return tokenizer_of(out.build().value()).separator();
  };
  EXPECT_EQ(old("bert", "t5"), 2);
  EXPECT_EQ(old("bert", "bert"), std::nullopt);
  EXPECT_EQ(old("t5", "t5"), std::nullopt);
}

TEST(HfVocabulary, TemplatesHaveNamesAndAnOrder) {
  Files files{
      {"config.json", "{}"},
      {"tokenizer.json", kWords},
      {"tokenizer_config.json",
       R"({"chat_template":[{"name":"default","template":"plain"},{"name":"rag","template":"docs"}]})"}};
  EXPECT_EQ(text_of(keys_of(files), "tokenizer.chat_template"), "plain");
  EXPECT_EQ(text_of(keys_of(files), "tokenizer.chat_template.rag"), "docs");
  EXPECT_THAT(*keys_of(files).string_array("tokenizer.chat_templates"), ElementsAre("rag"));
  files["chat_template.json"] = R"({"chat_template":"from json"})";
  EXPECT_EQ(text_of(keys_of(files), "tokenizer.chat_template"), "from json");
  files["chat_template.jinja"] = "from jinja";
  EXPECT_EQ(text_of(keys_of(files), "tokenizer.chat_template"), "from jinja");
  EXPECT_FALSE(keys_of(files).contains("tokenizer.chat_templates"));  // all of the list is out of date
  files["additional_chat_templates/tool_use.jinja"] = "for tools";
  EXPECT_THAT(*keys_of(files).string_array("tokenizer.chat_templates"), ElementsAre("tool_use"));
  const auto chosen = [&](std::string_view name, bool tools) {
    return std::string(**chat_template(keys_of(files), name, tools));
  };
  EXPECT_EQ(chosen("", false), "from jinja");
  EXPECT_EQ(chosen("", true), "for tools");
  EXPECT_EQ(chosen("default", true), "from jinja");
  EXPECT_EQ(chat_template(keys_of(files), "rag").status().message(),
            "no chat template is called 'rag'; it has tool_use");
}

TEST(HfVocabulary, WhatIsMissingOrUnknownIsNamed) {
  const auto refused = [](const Files& files, Code code, std::string_view part) {
    const auto keys = read(files);
    ASSERT_FALSE(keys.ok()) << part;
    EXPECT_EQ(keys.status().code(), code) << keys.status().message();
    EXPECT_THAT(keys.status().message(), HasSubstr(part));
  };
  const auto changed = [](std::string_view from, std::string_view to) {
    std::string text = kWords;
    text.replace(text.find(from), from.size(), to);
    return Files{{"config.json", "{}"}, {"tokenizer.json", text}};
  };
  refused({{"config.json", "{}"}}, Code::not_found, "neither tokenizer.json nor tokenizer.model");
  refused({{"config.json", "{}"}, {"tokenizer.json", "{"}}, Code::corrupt, "tokenizer.json");
  refused(changed("\"BPE\"", "\"Magic\""), Code::unsupported, "'Magic'");
  refused(changed("\"type\":\"ByteLevel\",\"add", "\"type\":\"UnicodeScripts\",\"add"), Code::unsupported,
          "'UnicodeScripts'");
  refused(
      changed("\"normalizer\":null", R"("normalizer":{"type":"Sequence","normalizers":[{"type":"Nmt"}]})"),
      Code::unsupported, "'Nmt'");
  refused(changed("\"id\":6", "\"id\":1048575"), Code::corrupt, "1048575");
  refused(changed("[[\"a\",\"b\"]]", "[[\"a\"]]"), Code::corrupt, "merge 0");
}

TEST(HfVocabulary, AnUnknownPreIsFollowedByTheFileThatIsCarried) {
  formats::MetadataBuilder builder;
  builder.add("tokenizer.ggml.model", std::string("gpt2"));
  builder.add("tokenizer.ggml.pre", std::string("nobody-knows"));
  builder.add("tokenizer.ggml.tokens",
              std::vector<std::string>{"a", "b", "ab", "\xC4\xA0", "<s>", "</s>", "<tool>", "[PAD7]"});
  builder.add(std::string(kHuggingFaceJson), std::string(kWords));
  const auto keys = builder.build();
  const Tokenizer tokenizer = tokenizer_of(*keys);
  EXPECT_THAT(tokenizer.encode("ab b").value(), ElementsAre(2, 3, 1));
  EXPECT_EQ(tokenizer.size(), 8);
}

/// A protocol buffer's fields.
std::string field(int id, std::string_view bytes) {
  return std::string{static_cast<char>(id << 3 | 2), static_cast<char>(bytes.size())} + std::string(bytes);
}
std::string piece(std::string_view text, float score, int type) {
  const auto bits = std::bit_cast<std::uint32_t>(score);
  std::string number{static_cast<char>(2 << 3 | 5)};
  for (int shift = 0; shift < 32; shift += 8) number += static_cast<char>(bits >> shift & 255);
  return field(1, field(1, text) + number + std::string{static_cast<char>(3 << 3), static_cast<char>(type)});
}

TEST(SentencePiece, AModelAloneIsEnough) {
  const std::string model = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) +
                            piece("<0x41>", 0, 6) + piece("\xE2\x96\x81", -2, 1) + piece("a", -3, 1) +
                            piece("\xE2\x96\x81\x61", -1, 1) + field(2, std::string{3 << 3, 2}) +
                            field(3, std::string{3 << 3, 1});
  const auto keys =
      keys_of({{"config.json", "{}"},
               {"tokenizer.model", model},
               {"tokenizer_config.json",
                R"({"add_bos_token":true,"added_tokens_decoder":{"7":{"content":"<x>","special":true}}})"}});
  EXPECT_EQ(text_of(keys, "tokenizer.ggml.model"), "llama");
  const Tokenizer tokenizer = tokenizer_of(keys);
  const auto ids = tokenizer.encode("aA<x>a").value();
  EXPECT_THAT(ids, ElementsAre(1, 6, 3, 7, 6));
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{6, 3, 6}).value(), "aA a");
}

TEST(SentencePiece, DamagedModelsAreRefused) {
  const std::string whole = piece("<unk>", 0, 2) + piece("a", -1, 1) + field(2, std::string{3 << 3, 1});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto model = tokenizer::parse_sentencepiece_model(std::string_view(whole).substr(0, size));
    EXPECT_TRUE(!model.ok() || model->pieces.size() <= 2);
  }
  EXPECT_TRUE(tokenizer::parse_sentencepiece_model(whole).ok());
  for (const std::string& damaged :
       {std::string(), std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11),
        std::string("\x0A\x7F", 2), std::string("\x0B", 1), piece("a", 0, 9),
        piece("a", 0, 1) + field(2, std::string{3 << 3, 3})}) {
    EXPECT_FALSE(tokenizer::parse_sentencepiece_model(damaged).ok());
  }
}

}  // namespace
}  // namespace lithe::models
