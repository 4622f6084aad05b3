// A GGUF's vocabulary as the files that Hugging Face's libraries read.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "models/gguf_vocab.h"
#include "models/hf/vocab.h"
#include "models/spm_merges.h"
#include "tokenizer/hf_steps.h"
#include "tokenizer/pre_tokenizer.h"

namespace lithe::models {
namespace {

using Ordered = nlohmann::ordered_json;
using tokenizer::kBlank;
using tokenizer::TokenId;
using tokenizer::TokenType;
using tokenizer::VocabSpec;

bool is_added(TokenType type) {
  return type == TokenType::control || type == TokenType::user_defined || type == TokenType::unknown;
}

TokenType type_of(const VocabSpec& spec, std::size_t id) {
  return spec.types.empty() ? TokenType::normal : spec.types[id];
}

/// BERT's tokens in the form of Hugging Face: "##ab" continues a word.
std::string written(const VocabSpec& spec, std::size_t id) {
  const std::string_view token = spec.tokens[id];
  if (spec.model != "bert" || type_of(spec, id) != TokenType::normal) return std::string(token);
  return token.starts_with(kBlank) ? std::string(token.substr(kBlank.size())) : "##" + std::string(token);
}

Ordered vocabulary(const VocabSpec& spec) {
  Ordered out = Ordered::object();
  // ordered_json finds a key by walking all of them; these are known to be new.
  auto& pairs = out.get_ref<Ordered::object_t&>();
  std::map<std::string, std::size_t> seen;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    std::string token = written(spec, id);
    if (!token.empty() && seen.emplace(token, id).second) pairs.push_back({std::move(token), id});
  }
  return out;
}

Ordered added_tokens(const VocabSpec& spec) {
  Ordered out = Ordered::array();
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    if (!is_added(type_of(spec, id))) continue;
    const auto found = spec.rules.find(static_cast<TokenId>(id));
    const tokenizer::AddedTokenRule rule =
        found == spec.rules.end() ? tokenizer::AddedTokenRule{} : found->second;
    out.push_back({{"id", id},
                   {"content", spec.tokens[id]},
                   {"single_word", rule.single_word},
                   {"lstrip", rule.lstrip},
                   {"rstrip", rule.rstrip},
                   {"normalized", false},
                   {"special", type_of(spec, id) != TokenType::user_defined}});
  }
  return out;
}

Ordered pairs_of(std::span<const std::string_view> merges) {
  Ordered out = Ordered::array();
  for (const std::string_view merge : merges) {
    const std::size_t blank = std::min(merge.find(' ', 1), merge.size());
    out.push_back(
        {std::string(merge.substr(0, blank)), std::string(merge.substr(std::min(blank + 1, merge.size())))});
  }
  return out;
}

Ordered bpe(const VocabSpec& spec, std::span<const std::string_view> merges, bool byte_fallback,
            bool ignore_merges) {
  Ordered unknown = nullptr;
  if (byte_fallback && spec.unk) unknown = spec.tokens[static_cast<std::size_t>(*spec.unk)];
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", byte_fallback},
          {"byte_fallback", byte_fallback},
          {"ignore_merges", ignore_merges},
          {"vocab", vocabulary(spec)},
          {"merges", pairs_of(merges)}};
}

Ordered step(const char* type) {
  return {{"type", type}};
}

Ordered sequence(const char* list, Ordered steps) {
  return {{"type", "Sequence"}, {list, std::move(steps)}};
}

Ordered byte_level(bool regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", regex}};
}

Ordered replace(Ordered pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}};
}

Ordered pre_tokenizer(const tokenizer::PreTokenizerRow& row) {
  Ordered steps = Ordered::array();
  for (const char* pattern : row.patterns) {
    if (pattern == nullptr) break;
    if (std::string_view(pattern).find("BertPunctuation") != std::string_view::npos) {
      steps.push_back({{"type", "Punctuation"}, {"behavior", "Contiguous"}});
    } else {
      steps.push_back({{"type", "Split"},
                       {"pattern", {{"Regex", pattern}}},
                       {"behavior", "Isolated"},
                       {"invert", false}});
    }
  }
  steps.push_back(byte_level(false));
  return sequence("pretokenizers", std::move(steps));
}

/// The token sets its texts between.
Ordered post_processor(const VocabSpec& spec, bool add_bos, bool add_eos) {
  Ordered single = Ordered::array(), pair = Ordered::array(), tokens = Ordered::object();
  const auto special = [&](Ordered& list, TokenId id, int segment) {
    const std::string token = written(spec, static_cast<std::size_t>(id));
    list.push_back({{"SpecialToken", {{"id", token}, {"type_id", segment}}}});
    tokens[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  };
  const auto text = [](Ordered& list, const char* name, int segment) {
    list.push_back({{"Sequence", {{"id", name}, {"type_id", segment}}}});
  };
  for (Ordered* list : {&single, &pair}) {
    if (add_bos && spec.bos) special(*list, *spec.bos, 0);
    text(*list, "A", 0);
    if (add_eos && spec.eos) special(*list, *spec.eos, 0);
  }
  // Encoders know where a text ends; others begin each anew. RoBERTa has a second separator, and no segments.
  const bool ends = add_bos && add_eos && spec.bos && spec.eos;
  const int second = spec.add_sep ? 0 : 1;
  if (ends && spec.add_sep) special(pair, spec.sep ? *spec.sep : *spec.eos, 0);
  if (add_bos && spec.bos && !ends) special(pair, *spec.bos, 1);
  text(pair, "B", second);
  if (add_eos && spec.eos) special(pair, *spec.eos, second);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto byte = at + i < bytes.size() ? static_cast<std::uint8_t>(bytes[at + i]) : std::uint8_t{0};
      bits = bits << 8 | byte;
    }
    const std::size_t digits = std::min<std::size_t>(bytes.size() - at, 3) + 1;
    for (std::size_t i = 0; i < 4; ++i) out += i < digits ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

/// U+2581 for blanks, on the way in and out.
void blanks_as_marks(bool prefix, Ordered& out) {
  Ordered steps = Ordered::array();
  if (prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kBlank}});
  steps.push_back(replace({{"String", " "}}, kBlank));
  out["normalizer"] = sequence("normalizers", std::move(steps));
  Ordered decoders = {replace({{"String", kBlank}}, " "), step("ByteFallback"), step("Fuse")};
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  out["decoder"] = sequence("decoders", std::move(decoders));
}

void unigram(const VocabSpec& spec, Ordered& out) {
  Ordered normalizers = Ordered::array(), pieces = Ordered::array();
  if (!spec.charsmap.empty())
    normalizers.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(spec.charsmap)}});
  if (spec.remove_extra_whitespaces.value_or(false)) {
    normalizers.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
    normalizers.push_back(replace({{"Regex", " {2,}"}}, " "));
  }
  for (std::size_t id = 0; id < spec.tokens.size(); ++id)
    pieces.push_back({spec.tokens[id], id < spec.scores.size() ? spec.scores[id] : 0.0});
  const char* scheme = spec.add_space_prefix.value_or(true) ? "always" : "never";
  const Ordered metaspace = {
      {"type", "Metaspace"}, {"replacement", kBlank}, {"prepend_scheme", scheme}, {"split", true}};
  out["normalizer"] = sequence("normalizers", std::move(normalizers));
  out["pre_tokenizer"] = metaspace;
  out["decoder"] = metaspace;
  out["model"] = {{"type", "Unigram"},
                  {"unk_id", spec.unk ? Ordered(*spec.unk) : Ordered(nullptr)},
                  {"vocab", std::move(pieces)},
                  {"byte_fallback", std::ranges::count(spec.types, TokenType::byte) > 0}};
}

void word_piece(const VocabSpec& spec, Ordered& out) {
  const bool lower = spec.lowercase.value_or(true);
  out["normalizer"] = {{"type", "BertNormalizer"},
                       {"clean_text", true},
                       {"handle_chinese_chars", true},
                       {"strip_accents", spec.strip_accents.value_or(lower)},
                       {"lowercase", lower}};
  out["pre_tokenizer"] = step("BertPreTokenizer");
  out["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  const Ordered unknown =
      spec.unk ? Ordered(spec.tokens[static_cast<std::size_t>(*spec.unk)]) : Ordered("[UNK]");
  out["model"] = {{"type", "WordPiece"},
                  {"unk_token", unknown},
                  {"continuing_subword_prefix", "##"},
                  {"max_input_chars_per_word", 100},
                  {"vocab", vocabulary(spec)}};
}

Result<Ordered> tokenizer_json(const VocabSpec& spec, const tokenizer::Pipeline& pipeline) {
  Ordered out = {{"version", "1.0"},          {"truncation", nullptr},
                 {"padding", nullptr},        {"added_tokens", added_tokens(spec)},
                 {"normalizer", nullptr},     {"pre_tokenizer", nullptr},
                 {"post_processor", nullptr}, {"decoder", nullptr}};
  if (spec.model == "gpt2" && pipeline.model == tokenizer::ModelKind::byte_bpe) {
    const tokenizer::PreTokenizerRow* row = tokenizer::find_pre_tokenizer(spec.pre);
    if (row->nfc) out["normalizer"] = step("NFC");
    out["pre_tokenizer"] = pre_tokenizer(*row);
    out["decoder"] = byte_level(true);
    out["model"] = bpe(spec, spec.merges, false, row->ignore_merges);
  } else if (spec.model == "llama") {
    if (spec.scores.size() != spec.tokens.size())
      return corrupt("{} tokens but {} scores", spec.tokens.size(), spec.scores.size());
    std::vector<std::int32_t> types;
    types.reserve(spec.types.size());
    for (const TokenType type : spec.types) types.push_back(static_cast<std::int32_t>(type));
    const std::vector<std::string> merges = merges_of_scores(spec.tokens, types, spec.scores);
    const std::vector<std::string_view> views(merges.begin(), merges.end());
    blanks_as_marks(spec.add_space_prefix.value_or(true), out);
    out["model"] = bpe(spec, views, true, false);
  } else if (pipeline.model == tokenizer::ModelKind::char_bpe) {
    blanks_as_marks(false, out);
    out["model"] = bpe(spec, spec.merges, true, false);
  } else if (spec.model == "t5") {
    unigram(spec, out);
  } else if (spec.model == "bert") {
    word_piece(spec, out);
  } else {
    return unsupported("tokenizer model {} cannot be written as tokenizer.json", in_quotes(spec.model));
  }
  const bool add_bos = spec.add_bos.value_or(pipeline.add_bos),
             add_eos = spec.add_eos.value_or(pipeline.add_eos);
  if ((add_bos && spec.bos) || (add_eos && spec.eos))
    out["post_processor"] = post_processor(spec, add_bos, add_eos);
  return out;
}

void add_templates(const formats::Metadata& metadata, Ordered& config) {
  const auto text = metadata.optional_string("tokenizer.chat_template");
  const auto* names = metadata.string_array("tokenizer.chat_templates");
  const bool plain = text.ok() && *text;
  if (names == nullptr) {
    if (plain) config["chat_template"] = **text;
    return;
  }
  Ordered list = Ordered::array();
  if (plain) list.push_back({{"name", "default"}, {"template", **text}});
  for (const std::string_view name : *names) {
    const auto named = metadata.optional_string("tokenizer.chat_template." + std::string(name));
    if (named.ok() && *named) list.push_back({{"name", name}, {"template", **named}});
  }
  config["chat_template"] = std::move(list);
}

}  // namespace

Result<std::vector<HfFile>> hf_vocabulary_files(const formats::Metadata& metadata) {
  LITHE_ASSIGN_OR_RETURN(const VocabSpec spec, vocab_spec(metadata));
  Ordered special = Ordered::object();
  const std::pair<const char*, std::optional<TokenId>> marks[] = {
      {"bos_token", spec.bos}, {"eos_token", spec.eos}, {"unk_token", spec.unk}, {"pad_token", spec.pad}};
  for (const auto& [name, id] : marks) {
    if (id) special[name] = written(spec, static_cast<std::size_t>(*id));
  }
  if (spec.model == "bert") {
    if (spec.bos) special["cls_token"] = special["bos_token"];
    if (spec.eos) special["sep_token"] = special["eos_token"];
    special.erase("bos_token");
    special.erase("eos_token");
  }
  if (spec.add_sep && spec.bos && spec.eos) {
    special["cls_token"] = special["bos_token"];
    special["sep_token"] = written(spec, static_cast<std::size_t>(spec.sep ? *spec.sep : *spec.eos));
  }
  Ordered config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  config.update(special);
  if (spec.add_bos) config["add_bos_token"] = *spec.add_bos;
  if (spec.add_eos) config["add_eos_token"] = *spec.add_eos;
  add_templates(metadata, config);

  std::string json;
  LITHE_ASSIGN_OR_RETURN(const auto carried, metadata.optional_string(kHuggingFaceJson));
  if (spec.pipeline && carried) {
    json = *carried;
  } else {
    LITHE_ASSIGN_OR_RETURN(const tokenizer::Pipeline pipeline, tokenizer::pipeline_of(spec));
    LITHE_ASSIGN_OR_RETURN(const Ordered made, tokenizer_json(spec, pipeline));
    json = made.dump(-1, ' ', false, Ordered::error_handler_t::replace);
  }
  Ordered generation = Ordered::object();
  if (spec.bos) generation["bos_token_id"] = *spec.bos;
  std::set<TokenId> ends = spec.extra_eos;
  if (spec.eos) ends.insert(*spec.eos);
  if (spec.eot) ends.insert(*spec.eot);
  if (ends.size() == 1) generation["eos_token_id"] = *ends.begin();
  if (ends.size() > 1) generation["eos_token_id"] = ends;
  const auto text = [](const Ordered& object) {
    return object.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n";
  };
  return std::vector<HfFile>{{"tokenizer.json", std::move(json)},
                             {"tokenizer_config.json", text(config)},
                             {"special_tokens_map.json", text(special)},
                             {"generation_config.json", text(generation)}};
}

}  // namespace lithe::models
