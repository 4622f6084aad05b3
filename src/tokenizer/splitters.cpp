#include "tokenizer/splitters.h"

#include <cstdint>

#include "tokenizer/unicode.h"

namespace lithe::tokenizer {
namespace {

struct Char {
  std::uint8_t kind;
  std::uint8_t size;  // bytes
};

/// Walks over valid UTF-8. All positions lie on character boundaries.
class Walker {
 public:
  explicit Walker(const char* end) : end_(end) {}

  const char* end() const { return end_; }
  Char at(const char* p) const {
    const auto lead = static_cast<std::uint8_t>(*p);
    if (lead < 0x80) return {table_.ascii_kind(lead), 1};
    const std::uint32_t size = utf8_length(lead);
    return {table_.kind(utf8_decode(p, size)), static_cast<std::uint8_t>(size)};
  }
  bool is(const char* p, std::uint8_t kinds) const { return p < end_ && (at(p).kind & kinds) != 0; }
  /// Not white space, letter or number: [^\s\p{L}\p{N}].
  bool is_other(const char* p) const { return p < end_ && (at(p).kind & (kSpace | kLetter | kNumber)) == 0; }

  const char* skip(const char* p, std::uint8_t kinds) const {
    while (p < end_) {
      const Char c = at(p);
      if ((c.kind & kinds) == 0) break;
      p += c.size;
    }
    return p;
  }
  const char* skip_others(const char* p) const {
    while (p < end_) {
      const Char c = at(p);
      if ((c.kind & (kSpace | kLetter | kNumber)) != 0) break;
      p += c.size;
    }
    return p;
  }

 private:
  const UnicodeTable& table_ = UnicodeTable::get();
  const char* end_;
};

/// 's|'t|'re|'ve|'m|'ll|'d at an apostrophe: how many bytes, or 0. Ignoring case, U+017F (long s) is an s as
/// well.
template <bool IgnoreCase>
std::size_t contraction(const char* p, const char* end) {
  const auto letter = [&](std::ptrdiff_t i) -> char {
    if (end - p <= i) return '\0';
    return IgnoreCase && p[i] >= 'A' && p[i] <= 'Z' ? static_cast<char>(p[i] + ('a' - 'A')) : p[i];
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    case '\xC5':
      return IgnoreCase && letter(2) == '\xBF' ? 3 : 0;
    default:
      return 0;
  }
}

/// \s+(?!\S)|\s+ for the white space [p, stop): all of it before the end of the piece, otherwise all but the
/// last character, which goes with what follows; one alone stays one.
const char* blanks(const char* p, const char* stop, bool piece_ends) {
  if (piece_ends) return stop;
  const char* last = stop - 1;
  while ((*last & 0xC0) == 0x80) --last;
  return last > p ? last : stop;
}

/// GPT-2's pattern. SmolLM first makes every number character a piece of its own, so that what comes before
/// one ends there.
template <bool NumbersAlone>
const char* gpt2_word(const Walker& text, const char* p) {
  const Char first = text.at(p);
  if constexpr (NumbersAlone) {
    if (first.kind & kNumber) return p + first.size;
  }
  if (*p == '\'') {
    if (const std::size_t size = contraction<false>(p, text.end()); size > 0) return p + size;
  }
  const char* body = *p == ' ' ? p + 1 : p;
  const std::uint8_t kind = body == p || body == text.end() ? first.kind : text.at(body).kind;
  if (kind & kLetter) return text.skip(body, kLetter);
  if (kind & kNumber) {
    if constexpr (NumbersAlone) return body;
    return text.skip(body, kNumber);
  }
  if ((kind & kSpace) == 0) return text.skip_others(body);
  const char* stop = text.skip(p, kSpace);
  return blanks(p, stop, stop == text.end() || (NumbersAlone && text.is(stop, kNumber)));
}

/// The pattern of Llama 3 and Qwen 2, which differ in how many digits stay together.
template <int Digits>
const char* llama3_word(const Walker& text, const char* p) {
  if (*p == '\'') {
    if (const std::size_t size = contraction<true>(p, text.end()); size > 0) return p + size;
  }
  const Char first = text.at(p);
  if (first.kind & kLetter) return text.skip(p, kLetter);
  if (first.kind & kNumber) {
    const char* q = p + first.size;
    for (int i = 1; i < Digits && text.is(q, kNumber); ++i) q += text.at(q).size;
    return q;
  }
  // Any one character but a newline goes with the letters after it.
  const char* second = p + first.size;
  if ((first.kind & kNewline) == 0 && text.is(second, kLetter)) return text.skip(second, kLetter);
  const char* body = *p == ' ' ? second : p;
  if (text.is_other(body)) return text.skip(text.skip_others(body), kNewline);
  const char* stop = text.skip(p, kSpace);
  for (const char* q = stop; q > p; --q) {  // \s*[\r\n]+ ends with the last newline of the white space
    if (q[-1] == '\n' || q[-1] == '\r') return q;
  }
  return blanks(p, stop, stop == text.end());
}

template <const char* (*Word)(const Walker&, const char*)>
std::size_t split(const char* begin, const char* end, std::span<const char*> ends) {
  const Walker text(end);
  std::size_t count = 0;
  for (const char* p = begin; p < end && count < ends.size();) ends[count++] = p = Word(text, p);
  return count;
}

}  // namespace

std::size_t split_gpt2(const char* begin, const char* end, std::span<const char*> ends) {
  return split<gpt2_word<false>>(begin, end, ends);
}
std::size_t split_smollm(const char* begin, const char* end, std::span<const char*> ends) {
  return split<gpt2_word<true>>(begin, end, ends);
}
std::size_t split_llama3(const char* begin, const char* end, std::span<const char*> ends) {
  return split<llama3_word<3>>(begin, end, ends);
}
std::size_t split_qwen2(const char* begin, const char* end, std::span<const char*> ends) {
  return split<llama3_word<1>>(begin, end, ends);
}

}  // namespace lithe::tokenizer
