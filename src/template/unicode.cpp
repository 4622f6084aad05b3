#include "template/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "template/special_casing.h"

namespace lithe::chat {
namespace {

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

const SpecialCasing* special_casing(char32_t code) {
  const auto* row = std::lower_bound(std::begin(kSpecialCasing), std::end(kSpecialCasing), code,
                                     [](const SpecialCasing& a, char32_t b) { return a.code < b; });
  return row != std::end(kSpecialCasing) && row->code == code ? row : nullptr;
}

/// Length and code point of one well-formed sequence, or size 0.
Decoded decode_strict(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const std::size_t left = text.size() - at;
  const auto trail = [&](std::size_t count) {
    if (left <= count) return false;
    for (std::size_t i = 1; i <= count; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return false;
    }
    return true;
  };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead >= 0xC2 && lead < 0xE0 && trail(1)) return {char32_t((lead & 0x1Fu) << 6 | (byte(1) & 0x3Fu)), 2};
  if (lead >= 0xE0 && lead < 0xF0 && trail(2)) {
    const char32_t code = char32_t((lead & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu));
    if (code >= 0x800 && (code < 0xD800 || code > 0xDFFF)) return {code, 3};
  }
  if (lead >= 0xF0 && lead < 0xF5 && trail(3)) {
    const char32_t code =
        char32_t((lead & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu));
    if (code >= 0x10000 && code <= 0x10FFFF) return {code, 4};
  }
  return {0xFFFD, 0};
}

}  // namespace

Decoded decode(std::string_view text, std::size_t at) {
  const Decoded strict = decode_strict(text, at);
  return strict.size > 0 ? strict : Decoded{0xFFFD, 1};
}

std::size_t previous(std::string_view text, std::size_t end) {
  for (std::size_t size = 1; size <= 4 && size <= end; ++size) {
    if (decode(text, end - size).size == size && decode_strict(text, end - size).size == size)
      return end - size;
  }
  return end - 1;
}

void encode(char32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = decode_strict(text, at).size;
    if (size == 0) return false;
    at += size;
  }
  return true;
}

std::size_t code_points(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) at += decode(text, at).size;
  return count;
}

std::size_t offset_of(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += decode(text, at).size;
  return at;
}

bool is_space(char32_t code) {
  if (code <= 0x20) return code == 0x20 || (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x1F);
  if (code < 0x1680) return code == 0x85 || code == 0xA0;
  return code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_alpha(char32_t code) {
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_ND;
}
bool is_digit(char32_t code) {
  return is_decimal(code) || code == 0xB2 || code == 0xB3 || code == 0xB9 || code == 0x2070 ||
         (code >= 0x2074 && code <= 0x2079) || (code >= 0x2080 && code <= 0x2089) ||
         (code >= 0x2460 && code <= 0x2468);
}
bool is_word(char32_t code) {
  if (code == '_') return true;
  const auto c = category(code);
  return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) ||
         (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}
bool is_upper(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LU || (code >= 0x2160 && code <= 0x216F);
}
bool is_lower(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LL || code == 0xAA || code == 0xBA ||
         (code >= 0x2170 && code <= 0x217F);
}
bool is_title(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LT;
}
bool is_cased(char32_t code) {
  return is_upper(code) || is_lower(code) || is_title(code);
}
bool is_case_ignorable(char32_t code) {
  const auto c = category(code);
  return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF ||
         c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK || code == '\'' || code == '.' ||
         code == ':' || code == 0xB7 || code == 0x2019;
}
bool is_printable(char32_t code) {
  if (code < 0x7F) return code >= 0x20;
  switch (category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}
bool is_line_break(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

void append_upper(char32_t code, std::string& out) {
  if (const auto* row = special_casing(code)) {
    out += row->upper;
  } else {
    encode(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code))), out);
  }
}
void append_lower(char32_t code, std::string& out) {
  if (code == 0x130) {  // the one letter whose lower case is two code points
    out += "i\xcc\x87";
  } else {
    encode(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), out);
  }
}
void append_title(char32_t code, std::string& out) {
  if (const auto* row = special_casing(code)) {
    out += row->title;
  } else {
    encode(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code))), out);
  }
}

void append_folded(char32_t code, std::string& out) {
  utf8proc_int32_t folded[8];
  int boundary = 0;
  const auto count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), folded, 8, UTF8PROC_CASEFOLD, &boundary);
  if (count <= 0 || count > 8) return encode(code, out);
  for (utf8proc_ssize_t i = 0; i < count; ++i) encode(static_cast<char32_t>(folded[i]), out);
}

std::size_t leading_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Decoded next = decode(text, at);
    if (!is_space(next.code)) break;
    at += next.size;
  }
  return at;
}

std::size_t trailing_space(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    const std::size_t begin = previous(text, end);
    if (!is_space(decode(text, begin).code)) break;
    end = begin;
  }
  return text.size() - end;
}

}  // namespace lithe::chat
