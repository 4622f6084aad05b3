// What happens to text before it is cut into words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace lithe::tokenizer {

/// The text with U+FFFD for what is not UTF-8, and `ranges` moved along; nothing if the text is valid.
/// Python's errors="replace" and WHATWG put the same.
std::optional<std::string> replace_invalid_utf8(std::string_view text, std::vector<ByteRange>& ranges);

struct NormalForm {
  bool compose, compatible;  // C or D, with or without K
};
/// Any normalisation form of valid UTF-8, in n log n.
Result<std::string> normalize_form(std::string_view text, NormalForm form);

/// Unicode's normalisation form C of valid UTF-8, in n log n; nothing if the text is in it already.
Result<std::optional<std::string>> normalize_nfc(std::string_view text);

}  // namespace lithe::tokenizer
