// A model as the directory that Hugging Face Transformers loads: config.json, safetensors, the tokenizer's files. The
// inverse of HfModel, by the same tables: what is written and read again describes the same model, or nothing is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "formats/model_file.h"
#include "models/hf/vocab.h"
#include "models/loader.h"

namespace lithe::models {

class HfExport {
 public:
  /// type: of all weights: f32, f16 or bf16; none given: that of most of them, f16 where they are quantised.
  /// unsupported: parameters that config.json cannot say, by name; a vocabulary that cannot be written. Borrows the file.
  static Result<HfExport> plan(const formats::ModelFile& file, std::optional<DType> type);

  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::uint64_t bytes = 0;
  };
  DType type() const { return type_; }
  std::uint64_t bytes() const;  // of all tensors
  std::vector<Tensor> tensors() const;
  const std::string& config() const { return config_; }  // config.json

  /// After each tensor with its bytes. Returning false cancels.
  using Progress = FunctionRef<bool(std::uint64_t bytes, std::string_view tensor)>;
  /// `folder` must not exist, or be empty; it appears whole or not at all. A new file at every `shard_bytes`.
  /// corrupt: a value beyond the type's range, with its tensor.
  Status write(const std::filesystem::path& folder, std::uint64_t shard_bytes, ThreadPool& pool,
               Progress progress) const;

 private:
  /// Where a piece goes: from matrix `slice` of its GGUF tensor to rows of a checkpoint's tensor, `offset` on.
  struct Part {
    BoundWeight weight;
    const LayerSpec* layer = nullptr;
    std::int64_t slice = 0, offset = 0;
  };
  struct Target {
    std::string name;
    std::int64_t rows = 0, cols = 0, stack = 0;  // stack 0: none; cols 0: a vector
    std::vector<Part> parts;

    std::vector<std::uint64_t> shape() const;
    bool transposed() const { return is_turned(parts.front().weight.entry->transform); }
  };

  explicit HfExport(const formats::ModelFile& file) : file_(&file) {}
  void list_targets();
  void list_target(std::size_t entry, std::size_t layer);
  Status write_config();
  Status check_config(const Json& config) const;
  Status write_texts();
  Status make(const Target& target, ThreadPool& pool, std::vector<std::byte>& out) const;
  Status make_part(const Target& target, const Part& part, ThreadPool& pool,
                   std::vector<std::byte>& out) const;

  const formats::ModelFile* file_;
  DType type_ = DType::f16;
  std::size_t alternative_ = 0;  // which of the names "a|b"
  DescribedModel model_;
  std::vector<Target> targets_;
  std::string config_;
  std::vector<HfFile> texts_;
};

}  // namespace lithe::models
