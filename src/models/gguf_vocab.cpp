#include "models/gguf_vocab.h"

#include <algorithm>
#include <array>
#include <string>

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

void collect_turn_ends(tokenizer::VocabSpec& spec) {
  for (std::size_t id = 0; id < spec.types.size(); ++id) {
    if (spec.types[id] != TokenType::control && spec.types[id] != TokenType::user_defined) continue;
    if (std::ranges::find(kTurnEnds, spec.tokens[id]) != kTurnEnds.end()) {
      spec.extra_eos.insert(static_cast<TokenId>(id));
    }
  }
}

}  // namespace

Result<tokenizer::VocabSpec> vocab_spec(const formats::Metadata& metadata) {
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

  const std::size_t count = spec.tokens.size();
  LITHE_ASSIGN_OR_RETURN(spec.bos, token_id(metadata, "tokenizer.ggml.bos_token_id", count));
  LITHE_ASSIGN_OR_RETURN(spec.eos, token_id(metadata, "tokenizer.ggml.eos_token_id", count));
  LITHE_ASSIGN_OR_RETURN(spec.eot, token_id(metadata, "tokenizer.ggml.eot_token_id", count));
  LITHE_ASSIGN_OR_RETURN(spec.unk, token_id(metadata, "tokenizer.ggml.unknown_token_id", count));
  LITHE_ASSIGN_OR_RETURN(spec.pad, token_id(metadata, "tokenizer.ggml.padding_token_id", count));
  LITHE_ASSIGN_OR_RETURN(const auto eom, token_id(metadata, "tokenizer.ggml.eom_token_id", count));
  if (eom) spec.extra_eos.insert(*eom);
  LITHE_ASSIGN_OR_RETURN(spec.add_bos, metadata.optional_bool("tokenizer.ggml.add_bos_token"));
  LITHE_ASSIGN_OR_RETURN(spec.add_eos, metadata.optional_bool("tokenizer.ggml.add_eos_token"));
  collect_turn_ends(spec);
  return spec;
}

Result<std::optional<std::string_view>> chat_template(const formats::Metadata& metadata) {
  return metadata.optional_string("tokenizer.chat_template");
}

}  // namespace lithe::models
