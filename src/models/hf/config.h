// Between a Hugging Face config.json and GGUF's parameters: a family's account of it, one table and what no table says
// (rotary scaling, windows), is read in both directions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "formats/metadata.h"
#include "formats/model_file.h"
#include "models/arch_spec.h"

namespace lithe::models {

enum class KeyKind : std::uint8_t { integer, real, boolean, text };

/// One parameter under both its names.
struct KeyRow {
  /// Below the architecture: "block_count". Empty: a fact of the family, which GGUF does not state.
  std::string_view gguf;
  /// "num_hidden_layers|n_layer": the first that config.json has; '.' leads into an object.
  std::string_view hf;
  KeyKind kind = KeyKind::integer;
  /// What config.json means by leaving it out (a null means none), as JSON; empty: nothing is written. Of a fact: what
  /// the family runs, as JSON values between '|', the first standing for absence.
  std::string_view value{};
};
using KeyTable = std::vector<KeyRow>;

/// A tensor that a config.json states as numbers (rotary divisors).
struct StatedTensor {
  std::string name;
  std::vector<float> values;
};

/// Importing, json() is what a directory says and `metadata` grows. Exporting, the parameters are there and json() grows;
/// what a family reads of it has been written by then.
class HfConfig {
 public:
  HfConfig(const Json& config, std::string_view architecture)
      : config_(&config), architecture_(architecture) {}
  /// Exporting: `spec` is what describe() made of the file's parameters.
  HfConfig(const formats::ModelFile& file, const ArchSpec& spec)
      : architecture_(spec.family), file_(&file), spec_(&spec) {}
  HfConfig(const HfConfig&) = delete;
  HfConfig& operator=(const HfConfig&) = delete;

  const Json& json() const { return *config_; }
  /// The value under one of the names, or nullptr: absent or null.
  const Json* find(std::string_view names) const;
  bool is_null(std::string_view names) const;
  /// Errors name the key. corrupt: of another kind.
  Result<std::int64_t> integer(std::string_view names, std::optional<std::int64_t> fallback = {}) const;
  Result<double> real(std::string_view names, std::optional<double> fallback = {}) const;
  Result<bool> boolean(std::string_view names, bool fallback) const;
  Result<std::string> text(std::string_view names, std::string_view fallback) const;

  /// "ARCH.key". Exporting: nothing, it is there.
  void add(std::string_view key, formats::MetadataBuilder::Value value);
  bool has(std::string_view key) const;

  /// Every row of the table. unsupported: a fact that is not so; exporting, a value that config.json has no form for.
  Status translate(const KeyTable& table);
  /// rope_theta, rope_scaling or rope_parameters (given, or where it usually is), partial_rotary_factor. theta and share of
  /// the channels: what their absence means; no share: the family rotates all of them.
  Status translate_rope(double theta, std::optional<double> share = {});
  Status translate_rope_in(const Json& parameters, double theta, std::optional<double> share = {});
  /// The same for layers with a window, which have parameters of their own under rope_parameters.sliding_attention; they
  /// rotate unscaled.
  Status check_local_rope() const;
  /// layer_types, where it is not "a window in all but every `period`-th layer".
  Status translate_windows(std::int64_t period);

  // Exporting only.
  bool exporting() const { return spec_ != nullptr; }
  const ArchSpec& spec() const { return *spec_; }
  bool has_tensor(std::string_view name) const { return file_->find_tensor(name) != nullptr; }
  /// The texts that the file lists under "ARCH.key", or nullptr.
  const std::vector<std::string_view>* texts(std::string_view key) const;
  /// '.' in the name leads into an object.
  void set(std::string_view name, Json value);
  /// The Transformers class, and model_type.
  void name(std::string_view architecture, std::string_view model_type);
  std::size_t alternative =
      0;  // which of a weight table's names "a|b" the checkpoint gets, if there is a choice

  formats::MetadataBuilder metadata;
  std::vector<StatedTensor> tensors;

 private:
  Status import_row(const KeyRow& row);
  Status import_scaling(const Json& scaling, double theta, std::int64_t dim);
  Status import_yarn(const HfConfig& stated, double factor, std::int64_t original);
  Status export_row(const KeyRow& row);
  Status export_rope(std::optional<double> share);
  Result<Json> exported_scaling(const RopeSpec& rope) const;
  Result<std::vector<float>> divisors(std::string_view tensor) const;

  Json written_ = Json::object();
  const Json* config_ = &written_;
  std::string architecture_;
  const formats::ModelFile* file_ = nullptr;
  const ArchSpec* spec_ = nullptr;
};

}  // namespace lithe::models
