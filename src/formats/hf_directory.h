// A Hugging Face model directory: config.json, the weights in one safetensors file or several, and the texts of the
// tokenizer. Nothing of it is ever executed or unpickled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "formats/safetensors.h"

namespace lithe::formats {

/// Files that a directory may hold beside its weights.
enum class HfText {
  tokenizer_json,    // "tokenizer.json", and so on
  tokenizer_model,   // SentencePiece: bytes, not text
  tokenizer_config,  // "tokenizer_config.json"
  special_tokens_map,
  added_tokens,
  vocab_json,
  vocab_txt,  // WordPiece
  merges_txt,
  generation_config,
  chat_template_jinja,
  chat_template_json,
};
/// The file's name.
std::string_view file_name(HfText text);

/// Where each tensor lies: of "model.safetensors.index.json". Pure.
/// corrupt: no JSON object with a "weight_map" from names to plain file names that end in ".safetensors".
Result<std::map<std::string, std::string>> parse_shard_index(std::string_view text);

/// A folder with config.json, tokenizer.json, model.safetensors or its index.
bool is_hf_directory(const std::filesystem::path& path);

/// Move-only; tensors and their data borrow from it.
class HfDirectory {
 public:
  enum class Parts { all, text_only };

  /// all: config.json and the weights must be there. The index, where there is one, is the authority:
  /// not_found names the shard that is missing; corrupt: a shard lacks a tensor that the index places there, or holds one
  /// that it places elsewhere; shards and tensors that it does not name are ignored, with a warning. unsupported: only
  /// pickles (.bin, .pt), which are never read.
  /// text_only: weights are not looked at (no tensors), a missing config.json is an empty object.
  static Result<HfDirectory> open(const std::filesystem::path& folder, Parts parts = Parts::all);
  HfDirectory(HfDirectory&&) noexcept;
  HfDirectory& operator=(HfDirectory&&) noexcept;
  ~HfDirectory();

  const std::filesystem::path& path() const;
  const Json& config() const;  // an object; the keys of its "text_config" lie beside the others
  std::span<const SafetensorsTensor> tensors() const;  // shard by shard, each in the order of its data
  const SafetensorsTensor* find_tensor(std::string_view name) const;  // nullptr if absent
  std::uint64_t file_bytes() const;                                   // of all shards
  std::vector<std::filesystem::path> shard_paths() const;
  /// What was ignored, one line each, for whoever opened it to show.
  std::span<const std::string> warnings() const;

  /// The bytes of a file, read now; nothing if it is not there. unsupported: larger than such a file can sensibly be.
  Result<std::optional<std::string>> text(HfText which) const;
  /// The same, parsed; corrupt, with the file's name: not JSON.
  Result<std::optional<Json>> json(HfText which) const;
  /// additional_chat_templates/NAME.jinja: {NAME, bytes}, sorted; unsupported: more of them, or larger, than sensible.
  Result<std::vector<std::pair<std::string, std::string>>> additional_templates() const;

  /// As GgufFile::release(): the pages may leave memory.
  void release(const SafetensorsTensor& tensor) const { release(tensor, tensor.data); }
  void release(const SafetensorsTensor& tensor, std::span<const std::byte> part) const;

 private:
  struct Contents;
  explicit HfDirectory(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

}  // namespace lithe::formats
