// A Hugging Face directory read as if it were GGUF: the parameters that config.json states under GGUF's keys, the
// checkpoint's tensors under GGUF's names and in GGUF's order of rows. Loading it and loading what `lithe convert` makes of
// it are therefore the same.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/fp8_matrix.h"
#include "formats/hf_directory.h"
#include "formats/model_file.h"
#include "formats/mxfp4_matrix.h"
#include "models/family.h"
#include "models/weight_table.h"

namespace lithe::models {

class HfConfig;

class HfModel final : public formats::ModelFile {
 public:
  /// unsupported: an architecture or a feature that does not run, by its name; corrupt: a tensor or a parameter that
  /// contradicts another. Errors name the folder.
  static Result<std::unique_ptr<HfModel>> open(const std::filesystem::path& folder);

  std::string format_name() const override { return "Hugging Face directory, safetensors"; }
  std::uint64_t file_bytes() const override { return directory_.file_bytes(); }
  std::vector<std::filesystem::path> shard_paths() const override { return directory_.shard_paths(); }
  Result<std::span<const std::byte>> slice(const formats::GgufTensor& tensor, std::uint64_t index,
                                           std::vector<std::byte>& scratch) const override;
  void release(const formats::GgufTensor& tensor, std::span<const std::byte> part) const override;
  using ModelFile::release;

 private:
  /// One row of the weight table in one layer, and the tensor of the checkpoint that it comes from.
  struct Piece {
    const formats::SafetensorsTensor* source = nullptr;
    const WeightEntry* entry = nullptr;
    const LayerSpec* layer = nullptr;
    std::int64_t rows = 0, cols = 0;  // of a vector: rows elements, one column
    std::int64_t offset = 0;          // in the source, in rows
    std::int64_t whole = 0;           // rows of one matrix of the source
    // The source with its scales, if it holds codes.
    const formats::Fp8Matrix* fp8 = nullptr;
    const formats::Mxfp4Matrix* mxfp4 = nullptr;

    bool coded() const { return fp8 != nullptr || mxfp4 != nullptr; }
    bool turned() const { return is_turned(entry->transform) && !coded(); }
    /// What the rows become where nothing asks for another type.
    DType dtype() const {
      return fp8 != nullptr ? DType::bf16 : mxfp4 != nullptr ? DType::mxfp4 : *source->type->dtype;
    }
  };
  /// How a tensor is made.
  struct Recipe {
    std::vector<std::vector<Piece>> slices;
    std::vector<float> stated;  // or these numbers
  };

  explicit HfModel(formats::HfDirectory directory) : directory_(std::move(directory)) {}
  Status read();
  Status read_parameters(const Family& family);
  bool ties_embedding(const HfConfig& config) const;
  Status list_tensors();
  Status list_tensor(std::size_t entry, std::size_t layer);
  Result<Piece> find_piece(std::size_t entry, std::size_t layer, std::int64_t expert);
  Result<const formats::SafetensorsTensor*> find_source(const WeightEntry& entry, std::size_t layer,
                                                        std::int64_t expert) const;
  Status leave_tied_head(const WeightEntry& head);
  Status check_source(const Piece& piece, std::int64_t whole, std::int64_t stack) const;
  void add_tensor(std::string name, DType dtype, std::vector<std::uint64_t> dims, Recipe recipe);
  std::optional<std::span<const std::byte>> as_stored(const Recipe& recipe, std::uint64_t slice,
                                                      DType dtype) const;
  void make(const Piece& piece, DType dtype, std::byte* out) const;
  void make_latent_keys(const Piece& piece, DType dtype, std::byte* out) const;
  const Recipe& recipe_of(const formats::GgufTensor& tensor) const;

  formats::HfDirectory directory_;
  ArchSpec spec_;
  WeightTable table_;
  std::deque<std::string> names_;
  std::vector<Recipe> recipes_;  // beside tensors_
  std::deque<formats::Fp8Matrix> fp8_;
  std::deque<formats::Mxfp4Matrix> mxfp4_;
  std::vector<std::string> claimed_;
};

/// The row of a checkpoint's tensor, counted within the piece, that row `row` of the piece comes from. A permutation.
std::int64_t source_row(Transform transform, Role role, const LayerSpec& layer, std::int64_t row);

}  // namespace lithe::models
