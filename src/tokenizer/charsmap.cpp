#include "tokenizer/charsmap.h"

#include <utf8proc.h>

#include <cstring>

#include "tokenizer/unicode.h"

namespace lithe::tokenizer {
namespace {

constexpr std::size_t kLongest = 256;  // of a replacement; a crafted map could blow a text up

}  // namespace

Result<CharsMap> CharsMap::parse(std::string_view blob) {
  CharsMap map;
  std::uint32_t size = 0;
  if (blob.size() < sizeof size) return corrupt("a character map of {} bytes", blob.size());
  for (std::size_t i = 0; i < sizeof size; ++i)
    size |= std::uint32_t{static_cast<std::uint8_t>(blob[i])} << (8 * i);
  blob.remove_prefix(sizeof size);
  if (size == 0 || size % 4 != 0 || size > blob.size())
    return corrupt("a character map whose table of {} bytes lies in {}", size, blob.size());
  map.units_.resize(size / 4);
  for (std::size_t i = 0; i < size; ++i)
    map.units_[i / 4] |= std::uint32_t{static_cast<std::uint8_t>(blob[i])} << (8 * (i % 4));
  map.replacements_ = blob.substr(size);
  if (!map.replacements_.empty() && map.replacements_.back() != '\0')
    return corrupt("a character map whose last replacement does not end");
  return map;
}

CharsMap::Found CharsMap::find(std::string_view text, bool longest) const {
  // A unit: the byte that leads to it, whether a value hangs on it, and where its children lie (Darts-clone).
  const auto offset = [](std::uint32_t unit) -> std::uint32_t {
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
  };
  Found found;
  std::uint32_t at = offset(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    at ^= byte;
    if (byte == 0 || at >= units_.size()) break;
    const std::uint32_t unit = units_[at];
    if ((unit & (1u << 31 | 0xFF)) != byte) break;
    at ^= offset(unit);
    const bool whole = i + 1 == text.size() || (text[i + 1] & 0xC0) != 0x80;  // not within a character
    if ((unit >> 8 & 1) == 0 || !whole) continue;
    if (at >= units_.size()) break;
    const std::uint32_t begin = units_[at] & ~(1u << 31);
    if (begin >= replacements_.size()) break;
    const std::string_view replacement(replacements_.data() + begin);  // the last one ends with NUL, too
    if (replacement.size() > kLongest || valid_utf8_prefix(replacement) != replacement.size()) break;
    found = {i + 1, replacement};
    if (!longest) break;
  }
  return found;
}

std::string CharsMap::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size() + 16);
  while (!text.empty()) {
    Found found = find(text, true);
    if (found.length == 0) {
      found.length = utf8_length(static_cast<std::uint8_t>(text[0]));
      found.text = text.substr(0, found.length);
    }
    out += found.text;
    text.remove_prefix(found.length);
  }
  return out;
}

std::string CharsMap::apply_to_graphemes(std::string_view text) const {
  constexpr std::size_t kShort = 6;
  std::string out;
  out.reserve(text.size() + 16);
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    utf8proc_int32_t state = 0, previous = 0;
    while (end < text.size()) {
      const std::uint32_t length = utf8_length(static_cast<std::uint8_t>(text[end]));
      const auto point = static_cast<utf8proc_int32_t>(utf8_decode(text.data() + end, length));
      if (end > begin && utf8proc_grapheme_break_stateful(previous, point, &state)) break;
      previous = point;
      end += length;
    }
    const std::string_view cluster = text.substr(begin, end - begin);
    const Found whole = cluster.size() < kShort ? find(cluster, false) : Found();
    if (whole.length > 0) {
      out += whole.text;
    } else {
      for (std::size_t at = 0; at < cluster.size();) {
        const std::uint32_t length = utf8_length(static_cast<std::uint8_t>(cluster[at]));
        const std::string_view character = cluster.substr(at, length);
        const Found found = find(character, false);
        out += found.length > 0 ? found.text : character;
        at += length;
      }
    }
    begin = end;
  }
  return out;
}

}  // namespace lithe::tokenizer
