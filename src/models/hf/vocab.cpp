#include "models/hf/vocab.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "models/spm_merges.h"
#include "tokenizer/hf_json.h"
#include "tokenizer/hf_steps.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/token_table.h"

namespace lithe::models {
namespace {

using formats::HfText;
using tokenizer::Alphabet;
using tokenizer::HfTokenizer;
using tokenizer::kBlank;
using tokenizer::ModelKind;
using tokenizer::NormalizerStep;
using tokenizer::SentencePieceModel;
using tokenizer::SplitStep;
using tokenizer::string_of;
using tokenizer::TokenId;
using tokenizer::TokenType;

/// A vocabulary under way into a GGUF's keys.
struct Vocabulary {
  std::string model, pre = "default";
  std::vector<std::string> tokens, merges;
  std::vector<std::int32_t> types;
  std::vector<float> scores;
  std::optional<TokenId> bos, eos, unk, pad, sep;
  std::optional<bool> add_bos, add_eos, add_sep;
  std::optional<bool> add_space_prefix, remove_extra_whitespaces, lowercase, strip_accents;
  std::string charsmap;
  std::vector<std::uint32_t> rules;
  std::string json;          // carried along, if not empty
  bool follow_json = false;  // in spite of `pre`

  std::optional<TokenId> find(std::string_view token) const {
    const auto found = std::find(tokens.begin(), tokens.end(), token);
    if (found == tokens.end()) return std::nullopt;
    return static_cast<TokenId>(found - tokens.begin());
  }
};

/// llama.cpp's converter takes these for control tokens whatever the file says.
bool looks_special(std::string_view token) {
  static constexpr std::array<std::string_view, 4> kNames = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
  const auto between = [&](std::string_view begin, std::string_view end) {
    return token.size() >= begin.size() + end.size() && token.starts_with(begin) && token.ends_with(end);
  };
  return std::ranges::find(kNames, token) != kNames.end() || between("<|", "|>") ||
         between("<\xEF\xBD\x9C", "\xEF\xBD\x9C>") || between("<unused", ">");
}

std::string with_spaces(std::string_view token) {
  std::string out(token);
  for (std::size_t at = 0; (at = out.find(kBlank, at)) != std::string::npos; ++at)
    out.replace(at, kBlank.size(), " ");
  return out;
}

void add_token(Vocabulary& out, std::string_view token, TokenType type) {
  if (type == TokenType::user_defined && looks_special(token)) type = TokenType::control;
  out.tokens.push_back(type == TokenType::user_defined ? with_spaces(token) : std::string(token));
  out.types.push_back(static_cast<std::int32_t>(type));
}

// ---- SentencePiece's own file ---------------------------------------------------------------------------------------

void take_normalization(const SentencePieceModel& model, Vocabulary& out) {
  out.add_space_prefix = model.add_dummy_prefix;
  if (model.kind != SentencePieceModel::Kind::unigram) return;
  out.remove_extra_whitespaces = model.remove_extra_whitespaces;
  out.charsmap = model.charsmap;
}

Vocabulary of_sentencepiece(const SentencePieceModel& model) {
  Vocabulary out;
  out.model = model.kind == SentencePieceModel::Kind::bpe ? "llama" : "t5";
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    add_token(out, piece.text, piece.type);
    out.scores.push_back(piece.score);
  }
  take_normalization(model, out);
  out.bos = model.bos;
  out.eos = model.eos;
  out.unk = model.unk;
  out.pad = model.pad;
  return out;
}

/// Tokens that a tokenizer_config.json adds to a SentencePiece model.
Status add_decoder_tokens(const Json& config, Vocabulary& out) {
  const Json* added = find_member(config, "added_tokens_decoder");
  if (added == nullptr || !added->is_object()) return {};
  for (const auto& [key, token] : added->items()) {
    std::size_t id = 0;
    bool good = !key.empty();
    for (const char c : key) {
      good = good && c >= '0' && c <= '9' && id < tokenizer::kMaxTokens;
      if (good) id = id * 10 + static_cast<std::size_t>(c - '0');
    }
    if (!good || id >= tokenizer::kMaxTokens)
      return corrupt("tokenizer_config.json: added token {} has no id", in_quotes(key));
    while (out.tokens.size() <= id) {
      add_token(out, "[PAD" + std::to_string(out.tokens.size()) + "]", TokenType::unused);
      out.scores.push_back(-10000.0f);
    }
    const std::string_view content = string_of(token, "content");
    if (out.types[id] == static_cast<std::int32_t>(TokenType::unknown)) continue;
    const bool special = tokenizer::bool_of(token, "special", false) || looks_special(content);
    out.types[id] = static_cast<std::int32_t>(special ? TokenType::control : TokenType::user_defined);
    out.tokens[id] = special ? std::string(content) : with_spaces(content);
    const std::uint32_t flags = (tokenizer::bool_of(token, "lstrip", false) ? 1u : 0u) |
                                (tokenizer::bool_of(token, "rstrip", false) ? 2u : 0u) |
                                (tokenizer::bool_of(token, "single_word", false) ? 4u : 0u);
    if (flags != 0) out.rules.insert(out.rules.end(), {static_cast<std::uint32_t>(id), flags});
  }
  return {};
}

// ---- tokenizer.json -------------------------------------------------------------------------------------------------

/// The steps are what llama.cpp's "llama" stands for: blanks as U+2581, perhaps one in front of every text.
bool is_plain_llama(const tokenizer::Pipeline& pipeline, bool& prefix) {
  if (pipeline.alphabet != Alphabet::spaced || !pipeline.byte_fallback || pipeline.ignore_merges)
    return false;
  prefix = false;
  for (const NormalizerStep& step : pipeline.normalizers) {
    if (step.kind == NormalizerStep::Kind::prepend && step.text == " ") {
      prefix = true;
    } else if (step.kind != NormalizerStep::Kind::replace || step.regex || step.pattern != kBlank) {
      return false;
    }
  }
  for (const SplitStep& step : pipeline.splits) {
    if (step.kind != SplitStep::Kind::respace)
      return false;  // a prefix of Metaspace spares texts that begin with a blank
  }
  return true;
}

bool is_plain_bert(const tokenizer::Pipeline& pipeline) {
  return pipeline.normalizers.size() == 1 && pipeline.normalizers[0].kind == NormalizerStep::Kind::bert &&
         pipeline.normalizers[0].clean && pipeline.normalizers[0].cjk && pipeline.longest_word == 100 &&
         pipeline.splits.size() == 2 && pipeline.splits[0].text == "\\s" &&
         pipeline.splits[1].text == "\\p{BertPunctuation}" &&
         pipeline.splits[1].behavior == SplitStep::Behavior::isolated;
}

/// Runs of blanks count as one, and those at the ends not at all: XLM-RoBERTa's words, T5's expression.
bool joins_blanks(const tokenizer::Pipeline& pipeline) {
  const auto cuts = [](const SplitStep& step) {
    return step.kind == SplitStep::Kind::pattern && step.text == "\\s" &&
           step.behavior == SplitStep::Behavior::removed;
  };
  const auto joins = [](const NormalizerStep& step) {
    return step.kind == NormalizerStep::Kind::replace && step.regex && step.pattern == " {2,}";
  };
  return std::ranges::any_of(pipeline.splits, cuts) || std::ranges::any_of(pipeline.normalizers, joins);
}

void name_the_model(const HfTokenizer& file, const SentencePieceModel* sentencepiece, Vocabulary& out) {
  const tokenizer::Pipeline& pipeline = *file.spec.pipeline;
  switch (pipeline.model) {
    case ModelKind::byte_bpe:
      out.model = "gpt2";
      out.pre = file.pre_row.empty() ? "huggingface" : file.pre_row;
      out.follow_json = !file.exact_row;
      return;
    case ModelKind::char_bpe: {
      out.model = "llama";
      bool prefix = false;
      const bool plain = is_plain_llama(pipeline, prefix);
      out.add_space_prefix = prefix;
      const bool exact = scores_of_merges(out.tokens, out.types, out.merges, out.scores);
      if (sentencepiece != nullptr && sentencepiece->kind == SentencePieceModel::Kind::bpe) {
        for (std::size_t id = 0; id < std::min(out.tokens.size(), sentencepiece->pieces.size()); ++id)
          out.scores[id] = sentencepiece->pieces[id].score;
      }
      out.follow_json = !plain || !exact;
      if (!out.follow_json) out.merges.clear();
      return;
    }
    case ModelKind::unigram:
      out.model = "t5";
      out.add_space_prefix = true;
      for (const NormalizerStep& step : pipeline.normalizers) {
        if (step.kind == NormalizerStep::Kind::charsmap) out.charsmap = step.text;
      }
      out.remove_extra_whitespaces = joins_blanks(pipeline);
      if (sentencepiece != nullptr) take_normalization(*sentencepiece, out);
      out.follow_json = true;
      return;
    case ModelKind::word_piece:
      out.model = "bert";
      for (std::size_t id = 0; id < out.tokens.size(); ++id) {
        if (out.types[id] != static_cast<std::int32_t>(TokenType::normal)) continue;
        const bool continues = out.tokens[id].starts_with("##");
        out.tokens[id] = continues ? out.tokens[id].substr(2) : std::string(kBlank) + out.tokens[id];
      }
      out.follow_json = !is_plain_bert(pipeline);
      if (!out.follow_json) {
        out.lowercase = pipeline.normalizers[0].lower;
        out.strip_accents = pipeline.normalizers[0].accents;
      }
      return;
    case ModelKind::word_level:
    case ModelKind::scored_bpe:
      out.model = out.pre = "huggingface";
      out.follow_json = true;
  }
}

Result<Vocabulary> of_tokenizer_json(std::string text, const SentencePieceModel* sentencepiece) {
  LITHE_ASSIGN_OR_RETURN(const std::unique_ptr<HfTokenizer> file, tokenizer::parse_tokenizer_json(text));
  const tokenizer::VocabSpec& spec = file->spec;
  Vocabulary out;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    TokenType type = spec.types[id];
    if (spec.unk && *spec.unk == static_cast<TokenId>(id) &&
        spec.pipeline->alphabet != Alphabet::byte_level && spec.pipeline->model != ModelKind::word_piece) {
      type = TokenType::unknown;
    }
    add_token(out, spec.tokens[id], type);
  }
  out.merges.assign(spec.merges.begin(), spec.merges.end());
  for (const double score : spec.scores) out.scores.push_back(static_cast<float>(score));
  out.bos = spec.bos;
  out.eos = spec.eos;
  out.unk = spec.unk;
  out.add_bos = spec.bos.has_value();
  out.add_eos = spec.eos.has_value();
  if (spec.bos && spec.eos) out.add_sep = spec.add_sep;
  out.sep = spec.sep;
  for (const auto& [id, rule] : spec.rules) {
    const std::uint32_t flags =
        (rule.lstrip ? 1u : 0u) | (rule.rstrip ? 2u : 0u) | (rule.single_word ? 4u : 0u);
    if (flags != 0) out.rules.insert(out.rules.end(), {static_cast<std::uint32_t>(id), flags});
    if (rule.normalized && spec.types[static_cast<std::size_t>(id)] == TokenType::user_defined)
      out.follow_json = true;
  }
  const bool needed = out.follow_json;
  name_the_model(*file, sentencepiece, out);
  out.follow_json |= needed;
  if (out.follow_json) out.json = std::move(text);
  return out;
}

// ---- beside the vocabulary ------------------------------------------------------------------------------------------

/// A token's text, as a string or as an object that describes it.
std::string_view token_text(const Json& object, std::string_view key) {
  const Json* member = find_member(object, key);
  return member != nullptr && member->is_object() ? string_of(*member, "content") : string_of(object, key);
}

/// The number or the numbers under `key`, those that are ids of `count` tokens.
std::vector<TokenId> ids_under(const Json& object, std::string_view key, std::size_t count) {
  std::vector<TokenId> ids;
  const auto take = [&](const Json& number) {
    if (number.is_number_unsigned() && number.get<std::uint64_t>() < count)
      ids.push_back(number.get<TokenId>());
  };
  const Json* member = find_member(object, key);
  if (member == nullptr) return ids;
  if (!member->is_array()) take(*member);
  if (member->is_array()) {
    for (const Json& number : *member) take(number);
  }
  return ids;
}

struct Texts {
  Json config = Json::object(), tokenizer_config = Json::object(), special = Json::object(),
       generation = Json::object();
};

void add_special_ids(const Texts& texts, const Vocabulary& vocabulary, formats::MetadataBuilder& out) {
  struct Special {
    const char *name, *key;
  };
  static constexpr Special kSpecials[] = {{"bos", "bos_token_id"},     {"eos", "eos_token_id"},
                                          {"unk", "unknown_token_id"}, {"sep", "seperator_token_id"},
                                          {"pad", "padding_token_id"}, {"cls", "cls_token_id"},
                                          {"mask", "mask_token_id"}};
  const bool bert = vocabulary.model == "bert";
  for (const auto& [name, key] : kSpecials) {
    const std::string field = std::string(name) + "_token";
    std::optional<TokenId> id;
    std::string_view text = token_text(texts.tokenizer_config, field);
    if (text.empty()) text = token_text(texts.special, field);
    if (!text.empty()) id = vocabulary.find(text);
    for (const Json* file : {&texts.config, &texts.generation}) {
      if (id) break;
      const auto ids = ids_under(*file, field + "_id", vocabulary.tokens.size());
      if (!ids.empty()) id = ids[0];
    }
    const std::string_view which = name;
    if (!id && which == "unk") id = vocabulary.unk;
    if (!id && which == "pad") id = vocabulary.pad;
    // What the tokenizer really puts around a text decides.
    if (vocabulary.bos && (which == (bert ? "cls" : "bos")) && (vocabulary.add_bos == true || !id))
      id = vocabulary.bos;
    if (vocabulary.eos && (which == (bert ? "sep" : "eos")) && (vocabulary.add_eos == true || !id))
      id = vocabulary.eos;
    // llama.cpp puts BOS and EOS around two of BERT's texts, and its own idea of them where a file names none.
    if (bert && !id && which == "bos") id = vocabulary.bos;
    if (bert && !id && which == "eos") id = vocabulary.eos;
    if (which == "sep" && vocabulary.add_sep == true) id = vocabulary.sep ? vocabulary.sep : vocabulary.eos;
    if (id) out.add("tokenizer.ggml." + std::string(key), static_cast<std::uint32_t>(*id));
  }
}

void add_end_ids(const Texts& texts, const Vocabulary& vocabulary, formats::MetadataBuilder& out) {
  std::vector<std::uint32_t> ends;
  const auto add = [&](TokenId id) {
    if (std::ranges::find(ends, static_cast<std::uint32_t>(id)) == ends.end())
      ends.push_back(static_cast<std::uint32_t>(id));
  };
  for (const Json* file : {&texts.generation, &texts.config}) {
    for (const TokenId id : ids_under(*file, "eos_token_id", vocabulary.tokens.size())) add(id);
  }
  std::string_view text = token_text(texts.tokenizer_config, "eos_token");
  if (text.empty()) text = token_text(texts.special, "eos_token");
  if (const auto id = text.empty() ? std::nullopt : vocabulary.find(text)) add(*id);
  if (ends.size() > 1) out.add(std::string(kEndIds), ends);
}

using Templates = std::map<std::string, std::string>;  // by name; "default" is the plain one

/// One template, or a list of templates with names.
void take_templates(const Json& templates, Templates& out) {
  if (templates.is_string()) out["default"] = templates.get<std::string>();
  if (!templates.is_array()) return;
  for (const Json& entry : templates) {
    const std::string name(string_of(entry, "name")), text(string_of(entry, "template"));
    if (!name.empty() && !text.empty()) out[name] = text;
  }
}

/// Files of their own stand in place of what tokenizer_config.json holds, all of it.
Status add_chat_templates(const formats::HfDirectory& directory, const Json& tokenizer_config,
                          formats::MetadataBuilder& out) {
  Templates templates;
  if (const Json* listed = find_member(tokenizer_config, "chat_template")) take_templates(*listed, templates);
  LITHE_ASSIGN_OR_RETURN(const auto json, directory.json(HfText::chat_template_json));
  if (json) {
    if (const Json* listed = find_member(*json, "chat_template")) take_templates(*listed, templates);
  }
  LITHE_ASSIGN_OR_RETURN(auto jinja, directory.text(HfText::chat_template_jinja));
  LITHE_ASSIGN_OR_RETURN(auto more, directory.additional_templates());
  if (jinja || !more.empty()) templates.clear();
  if (jinja) templates["default"] = std::move(*jinja);
  for (auto& [name, text] : more) templates[name] = std::move(text);
  std::vector<std::string> names;
  for (auto& [name, text] : templates) {
    const bool plain = name == "default";
    if (!plain) names.push_back(name);
    out.add(plain ? "tokenizer.chat_template" : "tokenizer.chat_template." + name, std::move(text));
  }
  if (!names.empty()) out.add("tokenizer.chat_templates", std::move(names));
  return {};
}

void fill_up(std::size_t rows, Vocabulary& vocabulary) {
  while (vocabulary.tokens.size() < rows) {
    add_token(vocabulary, "[PAD" + std::to_string(vocabulary.tokens.size()) + "]", TokenType::unused);
    if (!vocabulary.scores.empty()) vocabulary.scores.push_back(-1000.0f);
  }
}

void add_keys(Vocabulary vocabulary, formats::MetadataBuilder& out) {
  const auto add_switch = [&](const char* key, std::optional<bool> value) {
    if (value) out.add(std::string("tokenizer.ggml.") + key, *value);
  };
  out.add("tokenizer.ggml.model", vocabulary.model);
  out.add("tokenizer.ggml.pre", vocabulary.pre);
  out.add("tokenizer.ggml.tokens", std::move(vocabulary.tokens));
  if (!vocabulary.scores.empty()) out.add("tokenizer.ggml.scores", std::move(vocabulary.scores));
  out.add("tokenizer.ggml.token_type", std::move(vocabulary.types));
  if (!vocabulary.merges.empty()) out.add("tokenizer.ggml.merges", std::move(vocabulary.merges));
  add_switch("add_bos_token", vocabulary.add_bos);
  add_switch("add_eos_token", vocabulary.add_eos);
  add_switch("add_sep_token", vocabulary.add_sep);
  add_switch("add_space_prefix", vocabulary.add_space_prefix);
  add_switch("remove_extra_whitespaces", vocabulary.remove_extra_whitespaces);
  add_switch("normalizer.lowercase", vocabulary.lowercase);
  add_switch("normalizer.strip_accents", vocabulary.strip_accents);
  if (!vocabulary.charsmap.empty()) {
    out.add("tokenizer.ggml.precompiled_charsmap",
            std::vector<std::uint8_t>(vocabulary.charsmap.begin(), vocabulary.charsmap.end()));
  }
  if (!vocabulary.rules.empty()) out.add(std::string(kAddedRules), std::move(vocabulary.rules));
  if (vocabulary.json.empty()) return;
  out.add(std::string(kHuggingFaceJson), std::move(vocabulary.json));
  out.add(std::string(kFollowJson), vocabulary.follow_json);
}

}  // namespace

Status add_hf_vocabulary(const formats::HfDirectory& directory, formats::MetadataBuilder& metadata) {
  Texts texts;
  texts.config = directory.config();
  const std::pair<HfText, Json*> files[] = {{HfText::tokenizer_config, &texts.tokenizer_config},
                                            {HfText::special_tokens_map, &texts.special},
                                            {HfText::generation_config, &texts.generation}};
  for (const auto& [which, json] : files) {
    LITHE_ASSIGN_OR_RETURN(auto read, directory.json(which));
    if (read) *json = std::move(*read);
  }
  LITHE_ASSIGN_OR_RETURN(auto json, directory.text(HfText::tokenizer_json));
  LITHE_ASSIGN_OR_RETURN(const auto protobuf, directory.text(HfText::tokenizer_model));
  std::optional<SentencePieceModel> sentencepiece;
  if (protobuf) {
    auto parsed = tokenizer::parse_sentencepiece_model(*protobuf);
    if (!parsed.ok() && !json) return std::move(parsed).status().with_context("tokenizer.model");
    if (parsed.ok()) sentencepiece = std::move(parsed).value();
  }
  Vocabulary vocabulary;
  if (json) {
    LITHE_ASSIGN_OR_RETURN(vocabulary,
                           of_tokenizer_json(std::move(*json), sentencepiece ? &*sentencepiece : nullptr));
  } else if (sentencepiece) {
    vocabulary = of_sentencepiece(*sentencepiece);
    LITHE_RETURN_IF_ERROR(add_decoder_tokens(texts.tokenizer_config, vocabulary));
    const auto switch_of = [&](const char* key) -> std::optional<bool> {
      const Json* member = find_member(texts.tokenizer_config, key);
      return member != nullptr && member->is_boolean() ? std::optional(member->get<bool>()) : std::nullopt;
    };
    vocabulary.add_bos = switch_of("add_bos_token").value_or(vocabulary.model == "llama" && vocabulary.bos);
    vocabulary.add_eos = switch_of("add_eos_token").value_or(vocabulary.model == "t5" && vocabulary.eos);
  } else {
    return not_found("{}: neither tokenizer.json nor tokenizer.model", printable(directory.path().string()));
  }
  const Json* rows = find_member(texts.config, "vocab_size");
  if (rows != nullptr && rows->is_number_unsigned() && rows->get<std::uint64_t>() < (std::uint64_t{1} << 20))
    fill_up(rows->get<std::size_t>(), vocabulary);
  add_special_ids(texts, vocabulary, metadata);
  add_end_ids(texts, vocabulary, metadata);
  add_keys(std::move(vocabulary), metadata);
  return add_chat_templates(directory, texts.tokenizer_config, metadata);
}

}  // namespace lithe::models
