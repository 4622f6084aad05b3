// SentencePiece's precompiled map of characters: a double array over byte sequences, then replacements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lithe::tokenizer {

class CharsMap {
 public:
  CharsMap() = default;
  /// Copies. corrupt: sizes that do not fit, or replacements without an end.
  static Result<CharsMap> parse(std::string_view blob);

  /// As SentencePiece: at each place the longest sequence that the map knows is replaced.
  std::string apply(std::string_view text) const;
  /// As Hugging Face: grapheme clusters of at most 5 bytes are looked up whole, then their characters; the
  /// shortest known beginning decides, and stands for all.
  std::string apply_to_graphemes(std::string_view text) const;

 private:
  struct Found {
    std::size_t length = 0;  // of what is replaced; 0: nothing
    std::string_view text;
  };
  Found find(std::string_view text, bool longest) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;  // each ends with NUL
};

}  // namespace lithe::tokenizer
