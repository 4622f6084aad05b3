#include "models/gguf_vocab.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"
#include "models/hf/vocab.h"
#include "tokenizer/hf_json.h"

namespace lithe::models {
namespace {

using tokenizer::TokenId;
using tokenizer::TokenType;

constexpr std::array<std::string_view, 12> kTurnEnds{"<|im_end|>",         "<|eot_id|>",
                                                     "<|eom_id|>",         "<|endoftext|>",
                                                     "<|end_of_text|>",    "<|end|>",
                                                     "<end_of_turn>",      "<EOT>",
                                                     "<|end_of_turn|>",    "<|endofassistant|>",
                                                     "<|end_of_message|>", "<|return|>"};

Result<std::optional<TokenId>> token_id(const formats::Metadata& metadata, std::string_view key,
                                        std::size_t count) {
  LITHE_ASSIGN_OR_RETURN(const auto id, metadata.optional_uint(key));
  if (!id) return std::optional<TokenId>{};
  if (*id >= count) return corrupt("{} = {} lies outside the vocabulary of {} tokens", key, *id, count);
  return std::optional<TokenId>{static_cast<TokenId>(*id)};
}

Status read_types(const formats::Metadata& metadata, tokenizer::VocabSpec& spec) {
  const auto* numbers = metadata.int_array("tokenizer.ggml.token_type");
  if (numbers == nullptr) return {};
  if (numbers->size() != spec.tokens.size()) {
    return corrupt("tokenizer.ggml.token_type has {} entries for {} tokens", numbers->size(),
                   spec.tokens.size());
  }
  spec.types.reserve(numbers->size());
  for (std::size_t id = 0; id < numbers->size(); ++id) {
    const std::int64_t number = (*numbers)[id];
    if (number < 0 || number > static_cast<std::int64_t>(TokenType::byte)) {
      return corrupt("tokenizer.ggml.token_type: token {} has the unknown type {}", id, number);
    }
    spec.types.push_back(number == 0 ? TokenType::normal : static_cast<TokenType>(number));  // 0: undefined
  }
  return {};
}

/// What SentencePiece's and BERT's models need beside tokens and types.
Status read_normalization(const formats::Metadata& metadata, tokenizer::VocabSpec& spec) {
  const std::pair<const char*, std::optional<bool>*> switches[] = {
      {"tokenizer.ggml.add_space_prefix", &spec.add_space_prefix},
      {"tokenizer.ggml.remove_extra_whitespaces", &spec.remove_extra_whitespaces},
      {"tokenizer.ggml.normalizer.lowercase", &spec.lowercase},
      {"tokenizer.ggml.normalizer.strip_accents", &spec.strip_accents},
  };
  for (const auto& [key, value] : switches) {
    LITHE_ASSIGN_OR_RETURN(*value, metadata.optional_bool(key));
  }
  if (const auto* map = metadata.int_array("tokenizer.ggml.precompiled_charsmap")) {
    spec.charsmap.reserve(map->size());
    for (const std::int64_t byte : *map) spec.charsmap += static_cast<char>(byte);
  }
  if (const auto* scores = metadata.float_array("tokenizer.ggml.scores")) {
    spec.scores = *scores;
  }
  return {};
}

/// Ids that llama.cpp takes for granted where a file names none.
void set_defaults(tokenizer::VocabSpec& spec) {
  struct Default {
    std::string_view model;
    TokenId bos, eos, unk;
  };
  static constexpr Default kDefaults[] = {{"llama", 1, 2, 0}, {"t5", -1, 1, 2}, {"bert", 101, 102, 100}};
  for (const Default& known : kDefaults) {
    if (known.model != spec.model) continue;
    const auto set = [&](std::optional<TokenId>& id, TokenId value) {
      if (!id && value >= 0 && static_cast<std::size_t>(value) < spec.tokens.size()) id = value;
    };
    set(spec.bos, known.bos);
    set(spec.eos, known.eos);
    set(spec.unk, known.unk);
  }
}

/// Rules that a GGUF has no field for and that belong to a family: Phi-3's control tokens take the blanks after
/// them along, but for three.
Status add_family_rules(const formats::Metadata& metadata, tokenizer::VocabSpec& spec) {
  LITHE_ASSIGN_OR_RETURN(const auto architecture, metadata.optional_string("general.architecture"));
  if (architecture != "phi3" || spec.model != "llama") return {};
  for (std::size_t id = 0; id < spec.types.size(); ++id) {
    const std::string_view token = spec.tokens[id];
    const bool ruled = spec.types[id] == TokenType::control || spec.types[id] == TokenType::unknown ||
                       spec.types[id] == TokenType::user_defined;
    if (!ruled || token == "<unk>" || token == "<s>" || token == "<|endoftext|>") continue;
    spec.rules[static_cast<TokenId>(id)].rstrip = true;
  }
  return {};
}

/// Between two texts. Files that do not say: with RoBERTa's vocabularies a second separator. Where the first is itself the
/// separator, BERT's is one, unless the file also says that it ends each text with it.
Status read_separator(const formats::Metadata& metadata, tokenizer::VocabSpec& spec) {
  LITHE_ASSIGN_OR_RETURN(const auto architecture, metadata.optional_string("general.architecture"));
  LITHE_ASSIGN_OR_RETURN(const auto add, metadata.optional_bool("tokenizer.ggml.add_sep_token"));
  LITHE_ASSIGN_OR_RETURN(const auto kind, metadata.optional_string("tokenizer.ggml.model"));
  const bool bert = kind == "bert";
  spec.add_sep = add.value_or(spec.add_sep || (architecture == "bert" && !bert));
  if (bert && !spec.add_eos.value_or(false)) spec.add_sep = false;
  LITHE_ASSIGN_OR_RETURN(const auto sep,
                         token_id(metadata, "tokenizer.ggml.seperator_token_id", spec.tokens.size()));
  if (sep) spec.sep = sep;
  return {};
}

void collect_turn_ends(tokenizer::VocabSpec& spec) {
  for (std::size_t id = 0; id < spec.types.size(); ++id) {
    if (spec.types[id] != TokenType::control && spec.types[id] != TokenType::user_defined) continue;
    if (std::ranges::find(kTurnEnds, spec.tokens[id]) != kTurnEnds.end()) {
      spec.extra_eos.insert(static_cast<TokenId>(id));
    }
  }
}

/// Tokens, their kinds and what the model needs, from the keys of GGUF.
Result<tokenizer::VocabSpec> read_tables(const formats::Metadata& metadata) {
  tokenizer::VocabSpec spec;
  LITHE_ASSIGN_OR_RETURN(const auto model, metadata.required_string("tokenizer.ggml.model"));
  spec.model = std::string(model);
  LITHE_ASSIGN_OR_RETURN(const auto pre, metadata.optional_string("tokenizer.ggml.pre"));
  spec.pre = std::string(pre.value_or("default"));
  const auto* tokens = metadata.string_array("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->empty()) {
    return not_found("the file has no vocabulary (tokenizer.ggml.tokens)");
  }
  spec.tokens = *tokens;
  LITHE_RETURN_IF_ERROR(read_types(metadata, spec));
  if (const auto* merges = metadata.string_array("tokenizer.ggml.merges")) spec.merges = *merges;
  LITHE_RETURN_IF_ERROR(read_normalization(metadata, spec));
  return spec;
}

/// A file may carry a tokenizer.json: followed where the keys of GGUF do not say all, or name what nobody knows.
Result<bool> follows_json(const formats::Metadata& metadata, const tokenizer::VocabSpec& spec) {
  if (!metadata.contains(kHuggingFaceJson)) return false;
  LITHE_ASSIGN_OR_RETURN(const auto follow, metadata.optional_bool(kFollowJson));
  return follow.value_or(false) || !tokenizer::pipeline_of(spec).ok();
}

Status follow_json(const formats::Metadata& metadata, tokenizer::VocabSpec& spec) {
  LITHE_ASSIGN_OR_RETURN(const auto text, metadata.required_string(kHuggingFaceJson));
  LITHE_ASSIGN_OR_RETURN(std::shared_ptr<tokenizer::HfTokenizer> file, tokenizer::parse_tokenizer_json(text));
  tokenizer::VocabSpec parsed = std::move(file->spec);
  if (parsed.tokens.size() > spec.tokens.size()) {
    return corrupt("{} has {} tokens, tokenizer.ggml.tokens {}", kHuggingFaceJson, parsed.tokens.size(),
                   spec.tokens.size());
  }
  for (std::size_t id = parsed.tokens.size(); id < spec.tokens.size(); ++id) {  // rows without a token
    parsed.tokens.push_back(spec.tokens[id]);
    parsed.types.push_back(TokenType::unused);
    if (!parsed.scores.empty()) parsed.scores.push_back(0);
  }
  for (std::size_t id = 0; id < spec.types.size(); ++id) {  // also what only looks like a control token
    if (spec.types[id] == TokenType::control && parsed.types[id] == TokenType::user_defined)
      parsed.types[id] = TokenType::control;
  }
  parsed.owner = std::move(file);
  spec = std::move(parsed);
  return {};
}

/// Our own keys: rules of added tokens, and more ids that end an answer.
Status read_extras(const formats::Metadata& metadata, tokenizer::VocabSpec& spec) {
  const std::size_t count = spec.tokens.size();
  const auto in_range = [&](std::int64_t id) { return id >= 0 && static_cast<std::size_t>(id) < count; };
  if (const auto* ends = metadata.int_array(kEndIds)) {
    for (const std::int64_t id : *ends) {
      if (!in_range(id)) return corrupt("{}: {} is no token", kEndIds, id);
      spec.extra_eos.insert(static_cast<TokenId>(id));
    }
  }
  const auto* rules = metadata.int_array(kAddedRules);
  if (rules == nullptr) return {};
  for (std::size_t i = 0; i + 1 < rules->size(); i += 2) {
    if (!in_range((*rules)[i])) return corrupt("{}: {} is no token", kAddedRules, (*rules)[i]);
    tokenizer::AddedTokenRule& rule = spec.rules[static_cast<TokenId>((*rules)[i])];
    const std::int64_t flags = (*rules)[i + 1];
    rule.lstrip = (flags & 1) != 0;
    rule.rstrip = (flags & 2) != 0;
    rule.single_word = (flags & 4) != 0;
  }
  return {};
}

}  // namespace

Result<tokenizer::VocabSpec> vocab_spec(const formats::Metadata& metadata) {
  LITHE_ASSIGN_OR_RETURN(tokenizer::VocabSpec spec, read_tables(metadata));
  LITHE_ASSIGN_OR_RETURN(const bool json, follows_json(metadata, spec));
  if (json) LITHE_RETURN_IF_ERROR(follow_json(metadata, spec));

  const std::size_t count = spec.tokens.size();
  const auto take = [&](std::optional<TokenId>& id, std::string_view key) -> Status {
    LITHE_ASSIGN_OR_RETURN(const auto found, token_id(metadata, key, count));
    if (found) id = found;
    return {};
  };
  LITHE_RETURN_IF_ERROR(take(spec.bos, "tokenizer.ggml.bos_token_id"));
  LITHE_RETURN_IF_ERROR(take(spec.eos, "tokenizer.ggml.eos_token_id"));
  LITHE_RETURN_IF_ERROR(take(spec.eot, "tokenizer.ggml.eot_token_id"));
  LITHE_RETURN_IF_ERROR(take(spec.unk, "tokenizer.ggml.unknown_token_id"));
  LITHE_RETURN_IF_ERROR(take(spec.pad, "tokenizer.ggml.padding_token_id"));
  LITHE_ASSIGN_OR_RETURN(const auto eom, token_id(metadata, "tokenizer.ggml.eom_token_id", count));
  if (eom) spec.extra_eos.insert(*eom);
  LITHE_ASSIGN_OR_RETURN(const auto add_bos, metadata.optional_bool("tokenizer.ggml.add_bos_token"));
  LITHE_ASSIGN_OR_RETURN(const auto add_eos, metadata.optional_bool("tokenizer.ggml.add_eos_token"));
  if (add_bos) spec.add_bos = add_bos;
  if (add_eos) spec.add_eos = add_eos;
  LITHE_ASSIGN_OR_RETURN(const auto kind, metadata.optional_string("tokenizer.ggml.model"));
  if (kind == "bert") {  // the marks around a text have names of their own there
    LITHE_RETURN_IF_ERROR(take(spec.bos, "tokenizer.ggml.cls_token_id"));
    LITHE_RETURN_IF_ERROR(take(spec.eos, "tokenizer.ggml.seperator_token_id"));
  }
  LITHE_RETURN_IF_ERROR(read_separator(metadata, spec));
  set_defaults(spec);
  collect_turn_ends(spec);
  LITHE_RETURN_IF_ERROR(add_family_rules(metadata, spec));
  LITHE_RETURN_IF_ERROR(read_extras(metadata, spec));
  return spec;
}

std::string named_templates(const formats::Metadata& metadata) {
  std::string out;
  if (const auto* names = metadata.string_array("tokenizer.chat_templates")) {
    for (const std::string_view name : *names) out += (out.empty() ? "" : ", ") + printable(name);
  }
  return out;
}

Result<std::optional<std::string_view>> chat_template(const formats::Metadata& metadata,
                                                      std::string_view name, bool tools) {
  const std::string plain = "tokenizer.chat_template";
  if (name.empty() && tools) {
    LITHE_ASSIGN_OR_RETURN(const auto for_tools, metadata.optional_string(plain + ".tool_use"));
    if (for_tools) return for_tools;
  }
  const bool named = !name.empty() && name != "default";
  LITHE_ASSIGN_OR_RETURN(const auto found,
                         metadata.optional_string(named ? plain + "." + std::string(name) : plain));
  if (found || name.empty()) return found;
  const std::string others = named_templates(metadata);
  return not_found("no chat template is called {}{}{}", in_quotes(name), others.empty() ? "" : "; it has ",
                   others);
}

}  // namespace lithe::models
