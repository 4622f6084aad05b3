// The steps of a Pipeline that change a text before it is cut into words, ready for use.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/pattern.h"
#include "tokenizer/pipeline.h"

namespace lithe::tokenizer {

/// Immutable, for all threads.
class Normalizer {
 public:
  Normalizer() = default;
  /// unsupported / corrupt: a pattern or a map that cannot be read.
  static Result<Normalizer> create(std::span<const NormalizerStep> steps);

  /// Of valid UTF-8; nothing if it stays as it is.
  Result<std::optional<std::string>> apply(std::string_view text) const;

 private:
  struct Step {
    NormalizerStep what;
    std::vector<Pattern> pattern;  // of a replacement by an expression
    CharsMap map;
  };
  static Status apply_step(const Step& step, std::string_view text, std::optional<std::string>& out);
  std::vector<Step> steps_;
};

}  // namespace lithe::tokenizer
