// The tokenizer of a Hugging Face directory as the keys that a GGUF has for it, and back.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "formats/hf_directory.h"
#include "formats/metadata.h"

namespace lithe::models {

/// A GGUF that no name of tokenizer.ggml.pre describes carries the whole tokenizer.json under this key.
inline constexpr std::string_view kHuggingFaceJson = "tokenizer.huggingface.json";
/// Ours, true: that file is to be followed although there is a known name, which other programs read.
inline constexpr std::string_view kFollowJson = "tokenizer.lithe.follow_json";
/// Ours: rules of added tokens, in pairs of an id and 1 lstrip | 2 rstrip | 4 single_word.
inline constexpr std::string_view kAddedRules = "tokenizer.lithe.added_token_rules";
/// Ours: every id that ends an answer.
inline constexpr std::string_view kEndIds = "tokenizer.lithe.eos_token_ids";

/// Adds the keys tokenizer.ggml.* as llama.cpp's converter writes them, the chat templates, and ours above where those do
/// not say all. Reads tokenizer.json or else tokenizer.model, tokenizer_config.json, special_tokens_map.json,
/// generation_config.json, the files of chat templates and of config.json vocab_size (a vocabulary with fewer tokens
/// is filled up) and the special ids. not_found: no tokenizer; others: name the file.
Status add_hf_vocabulary(const formats::HfDirectory& directory, formats::MetadataBuilder& metadata);

struct HfFile {
  std::string name, text;  // the name below the directory
};
/// tokenizer.json, tokenizer_config.json, special_tokens_map.json and generation_config.json with equal ids.
/// unsupported: a kind of vocabulary that cannot be written.
Result<std::vector<HfFile>> hf_vocabulary_files(const formats::Metadata& metadata);

}  // namespace lithe::models
