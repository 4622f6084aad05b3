// From a Hugging Face config.json to GGUF's parameters and back: one table a family, read in both directions, and what no
// table says (rotary scaling) in code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "formats/metadata.h"

namespace lithe::models {

enum class KeyKind : std::uint8_t { integer, real, boolean, text };

/// One parameter under both its names.
struct KeyRow {
  std::string_view
      gguf;  // below the architecture: "block_count"; empty: a fact of the family, which GGUF does not state
  std::string_view
      hf;  // "num_hidden_layers|n_layer": the first that config.json has; '.' leads into an object
  KeyKind kind = KeyKind::integer;
  /// What config.json means by leaving it out, as JSON; empty: nothing is written. Of a fact: what the family runs, as
  /// JSON values between '|', the first standing for absence.
  std::string_view value{};
};
using KeyTable = std::vector<KeyRow>;

/// A tensor that a config.json states as numbers (rotary divisors).
struct StatedTensor {
  std::string name;
  std::vector<float> values;
};

/// What becomes of a config.json.
class HfConfig {
 public:
  HfConfig(const Json& config, std::string_view architecture)
      : config_(&config), architecture_(architecture) {}

  const Json& json() const { return *config_; }
  /// The value under one of the names, or nullptr: absent or null.
  const Json* find(std::string_view names) const;
  /// Errors name the key. corrupt: of another kind.
  Result<std::int64_t> integer(std::string_view names, std::optional<std::int64_t> fallback = {}) const;
  Result<double> real(std::string_view names, std::optional<double> fallback = {}) const;
  Result<bool> boolean(std::string_view names, bool fallback) const;
  Result<std::string> text(std::string_view names, std::string_view fallback) const;

  /// "ARCH.key"
  void add(std::string_view key, formats::MetadataBuilder::Value value);
  bool has(std::string_view key) const;

  /// Every row of the table; unsupported: a fact that is not so.
  Status import(const KeyTable& table);
  /// rope_theta, rope_scaling or rope_parameters (given, or where it usually is), partial_rotary_factor. theta and share of
  /// the channels: what their absence means.
  Status import_rope(double theta, double share = 1.0);
  Status import_rope(const Json& parameters, double theta, double share = 1.0);
  /// layer_types, where it is not "a window in all but every `period`-th layer".
  Status import_windows(std::int64_t period);

  formats::MetadataBuilder metadata;
  std::vector<StatedTensor> tensors;

 private:
  Status import_row(const KeyRow& row);
  Status import_scaling(const Json& scaling, double theta, std::int64_t dim);
  const Json* config_;
  std::string architecture_;
};

}  // namespace lithe::models
