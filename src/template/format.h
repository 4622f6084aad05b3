// Values as text: Python's str() and repr(), and json.dumps.
#pragma once

#include <string>

#include "template/value.h"

namespace lithe::chat {

std::string format_real(double value);  // repr(float)
std::string format_integer(Integer value);
/// The digits of |value| in base 2 to 16, without sign or prefix.
std::string digits_of(Integer value, unsigned base, bool capitals = false);

void append_str(TextBuilder& out, const Value& value);
void append_repr(TextBuilder& out, const Value& value);
Text to_text(const Value& value, Budget& budget);  // str(value)
std::string repr_of(const Value& value, Budget& budget);
/// 'name', quoted as repr(str) quotes it.
std::string in_quotes(std::string_view text);

/// The arguments of Hugging Face's `tojson`, which are those of json.dumps.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool multi_line = false;  // `indent` was given
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
Text to_json(const Value& value, const JsonStyle& style, Budget& budget);

/// & < > ' " as HTML entities.
Text escape_html(const Text& text, Budget& budget);

}  // namespace lithe::chat
