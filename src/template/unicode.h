// Code points and their properties, as Python's str sees them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lithe::chat {

struct Decoded {
  char32_t code;
  std::size_t size;  // bytes, at least 1
};

/// The code point at byte `at` (< text.size()). A malformed byte counts as one code point, U+FFFD.
Decoded decode(std::string_view text, std::size_t at);
/// The byte where the code point that ends at byte `end` (> 0) begins.
std::size_t previous(std::string_view text, std::size_t end);
void encode(char32_t code, std::string& out);
bool is_utf8(std::string_view text);

std::size_t code_points(std::string_view text);
/// The byte offset of code point `index`, at most text.size().
std::size_t offset_of(std::string_view text, std::size_t index);

bool is_space(char32_t code);  // str.isspace
bool is_alpha(char32_t code);
bool is_decimal(char32_t code);
bool is_digit(char32_t code);
bool is_word(char32_t code);   // \w
bool is_upper(char32_t code);  // uppercase letter
bool is_lower(char32_t code);
bool is_title(char32_t code);
bool is_cased(char32_t code);
bool is_case_ignorable(char32_t code);
bool is_printable(char32_t code);   // str.isprintable: what repr leaves as it is
bool is_line_break(char32_t code);  // str.splitlines

void append_upper(char32_t code, std::string& out);
void append_lower(char32_t code, std::string& out);  // without the rule for a final sigma
void append_title(char32_t code, std::string& out);
void append_folded(char32_t code, std::string& out);  // str.casefold

/// Bytes of white space at the start, and at the end.
std::size_t leading_space(std::string_view text);
std::size_t trailing_space(std::string_view text);

}  // namespace lithe::chat
