// A model's hyper-parameters as its file states them, each held to a range: a file is untrusted, and a number
// out of range must end in a message, never in an allocation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/metadata.h"
#include "formats/model_file.h"

namespace lithe::models {

/// Reads "ARCH.key" values. Errors name the key, its value and the range.
class Parameters {
 public:
  Parameters(const formats::Metadata& metadata, std::string_view architecture)
      : metadata_(&metadata), architecture_(architecture) {}
  Parameters(const formats::ModelFile& file, std::string_view architecture)
      : metadata_(&file.metadata()), architecture_(architecture), file_(&file) {}

  const std::string& architecture() const { return architecture_; }
  const formats::Metadata& metadata() const { return *metadata_; }

  bool has(std::string_view key) const { return metadata_->contains(full_name(key)); }
  /// Whether the file holds a tensor: only for what other programs' files state in no other way. false where there are
  /// parameters alone (a config.json, which states everything).
  bool holds(std::string_view tensor) const { return find(tensor) != nullptr; }
  const formats::GgufTensor* find(std::string_view tensor) const {
    return file_ == nullptr ? nullptr : file_->find_tensor(tensor);
  }
  Result<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most) const;
  Result<std::int64_t> integer_or(std::string_view key, std::int64_t least, std::int64_t most,
                                  std::int64_t fallback) const;
  /// One number a layer: a list of so many, or one number for all.
  Result<std::vector<std::int64_t>> integers(std::string_view key, std::int64_t least, std::int64_t most,
                                             std::size_t count) const;
  Result<double> real_or(std::string_view key, double least, double most, double fallback) const;
  Result<bool> flag_or(std::string_view key, bool fallback) const;
  /// One flag a layer; empty if the key is absent or a single number.
  Result<std::vector<bool>> flags_or(std::string_view key, std::size_t count) const;
  Result<std::string> text_or(std::string_view key, std::string_view fallback) const;

 private:
  std::string full_name(std::string_view key) const;
  const formats::Metadata* metadata_;
  std::string architecture_;
  const formats::ModelFile* file_ = nullptr;
};

/// What is believed of any model. Wide enough for every published one, narrow enough that products of two
/// fit.
struct Limits {
  static constexpr std::int64_t layers = 1024, hidden = 1 << 17, heads = 4096, head_dim = 4096, ffn = 1 << 20,
                                vocab = 1 << 24, labels = 1 << 16, context = std::int64_t{1} << 30;
  static constexpr double theta = 1e12, eps = 0.1, scaling = 1e6;
};

}  // namespace lithe::models
