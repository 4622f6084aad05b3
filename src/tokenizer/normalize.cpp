#include "tokenizer/normalize.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/check.h"
#include "tokenizer/code_set.h"
#include "tokenizer/unicode.h"

namespace lithe::tokenizer {
namespace {

/// The first character that NFC may touch, or `end`.
const char* find_unsafe(const char* p, const char* end) {
  const UnicodeTable& table = UnicodeTable::get();
  while (p < end) {
    const auto lead = static_cast<std::uint8_t>(*p);
    if (lead < 0xCC) {  // below U+0300
      p += lead < 0x80 ? 1 : 2;
      continue;
    }
    const std::uint32_t length = utf8_length(lead);
    if (table.kind(utf8_decode(p, length)) & kNfcUnsafe) return p;
    p += length;
  }
  return end;
}

/// Characters that decompose or move in newer versions of Unicode than the reference's normaliser follows, which
/// leaves them alone. Of NFC the unicode table knows.
constexpr CodeRange kInert[] = {
    {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},
    {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F1, 0xA7F4},   {0xA82C, 0xA82C},   {0xAB69, 0xAB69},
    {0x105C9, 0x105C9}, {0x105E4, 0x105E4}, {0x10781, 0x107BA}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D},
    {0x10EAB, 0x10EAC}, {0x10EFC, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070},
    {0x1133B, 0x1133B}, {0x11383, 0x11391}, {0x113C5, 0x113D0}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11938, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16121, 0x1612F}, {0x16D68, 0x16D6A},
    {0x16FF0, 0x16FF1}, {0x1CCD6, 0x1CCF9}, {0x1E030, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

bool is_inert(std::uint32_t point) {
  const auto* const after = std::partition_point(
      std::begin(kInert), std::end(kInert), [point](const CodeRange& range) { return range.last < point; });
  return after != std::end(kInert) && after->first <= point;
}

/// A form of [begin, end): decompose, sort runs of marks, compose. utf8proc's own driver sorts by swapping
/// neighbours, quadratic in a run of marks; here the runs are sorted properly.
Status append_form(const char* begin, const char* end, NormalForm form, std::vector<utf8proc_int32_t>& points,
                   std::string& out) {
  const auto options = static_cast<utf8proc_option_t>(form.compatible ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT
                                                                      : UTF8PROC_DECOMPOSE);
  points.clear();
  for (const char* p = begin; p < end;) {
    const std::uint32_t length = utf8_length(static_cast<std::uint8_t>(*p));
    const std::uint32_t point = utf8_decode(p, length);
    if (is_inert(point)) {
      points.push_back(static_cast<utf8proc_int32_t>(point));
      p += length;
      continue;
    }
    utf8proc_int32_t parts[32];  // the longest decomposition has 4 (18 for compatibility)
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(point), parts,
                                                           std::size(parts), options, &boundary);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(std::size(parts))) {
      return internal("normalising text: {}", utf8proc_errmsg(count));
    }
    points.insert(points.end(), parts, parts + count);
    p += length;
  }
  const auto mark_class = [](utf8proc_int32_t point) -> utf8proc_propval_t {
    return is_inert(static_cast<std::uint32_t>(point)) ? utf8proc_propval_t{0}
                                                       : utf8proc_get_property(point)->combining_class;
  };
  for (auto first = points.begin(); first != points.end();) {
    if (mark_class(*first) == 0) {
      ++first;
      continue;
    }
    const auto last =
        std::find_if(first, points.end(), [&](utf8proc_int32_t point) { return mark_class(point) == 0; });
    std::stable_sort(first, last,
                     [&](utf8proc_int32_t a, utf8proc_int32_t b) { return mark_class(a) < mark_class(b); });
    first = last;
  }
  auto count = static_cast<utf8proc_ssize_t>(points.size());
  if (form.compose) {
    count = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                     static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  }
  if (count < 0) return internal("normalising text: {}", utf8proc_errmsg(count));
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    utf8_append(static_cast<std::uint32_t>(points[static_cast<std::size_t>(i)]), out);
  }
  return {};
}

}  // namespace

std::optional<std::string> replace_invalid_utf8(std::string_view text, std::vector<ByteRange>& ranges) {
  std::size_t at = valid_utf8_prefix(text);
  if (at == text.size()) return std::nullopt;
  std::string out;
  out.reserve(text.size() + 64);
  std::size_t copied = 0;
  // Borders of the ranges, in order, each moved once the text before it has been copied.
  std::size_t border = 0;
  const auto border_at = [&](std::size_t i) -> std::size_t& {
    return i % 2 == 0 ? ranges[i / 2].begin : ranges[i / 2].end;
  };
  const auto move_borders = [&](std::size_t up_to) {  // text[copied, up_to) is about to be appended as it is
    for (; border < 2 * ranges.size() && border_at(border) <= up_to; ++border) {
      border_at(border) = out.size() + (std::max(border_at(border), copied) - copied);
    }
  };
  while (at < text.size()) {
    move_borders(at);
    out.append(text, copied, at - copied);
    const Utf8Step step = utf8_step(text.data() + at, text.data() + text.size());
    LITHE_CHECK(!step.valid);
    const std::size_t replaced = out.size();
    out.append(kReplacement);
    at += step.length;
    copied = at;
    // A border inside the bytes replaced: a range that begins or ends there takes the mark in, the first such
    // range.
    for (; border < 2 * ranges.size() && border_at(border) < at; ++border) {
      const bool taken = border > 0 && border_at(border - 1) == out.size();
      border_at(border) = border % 2 == 0 && !taken ? replaced : out.size();
    }
    at += valid_utf8_prefix(text.substr(at));
  }
  move_borders(text.size());
  out.append(text, copied);
  return out;
}

Result<std::string> normalize_form(std::string_view text, NormalForm form) {
  std::string out;
  out.reserve(text.size() + 16);
  std::vector<utf8proc_int32_t> points;
  for (const char *p = text.data(), *const end = p + text.size(); p < end;) {
    const char* ascii = p;  // which no form changes; the last one may take a mark
    while (ascii < end && static_cast<std::uint8_t>(*ascii) < 0x80) ++ascii;
    if (ascii - p > 1) {
      if (ascii < end) --ascii;
      out.append(p, ascii);
      p = ascii;
      continue;
    }
    const char* stop = ascii;
    while (stop < end && static_cast<std::uint8_t>(*stop) >= 0x80) ++stop;
    LITHE_RETURN_IF_ERROR(append_form(p, stop, form, points, out));
    p = stop;
  }
  return out;
}

Result<std::optional<std::string>> normalize_nfc(std::string_view text) {
  const char* p = text.data();
  const char* const end = p + text.size();
  const char* unsafe = find_unsafe(p, end);
  if (unsafe == end) return std::optional<std::string>();
  const UnicodeTable& table = UnicodeTable::get();
  std::string out;
  out.reserve(text.size() + 16);
  std::vector<utf8proc_int32_t> points;
  while (unsafe < end) {
    // Only a character before the first unsafe one and those up to the next safe one take part.
    const char* first = unsafe;
    if (first > p) {
      do --first;
      while ((*first & 0xC0) == 0x80);
    }
    const char* last = unsafe;
    while (last < end) {
      const std::uint32_t length = utf8_length(static_cast<std::uint8_t>(*last));
      if ((table.kind(utf8_decode(last, length)) & kNfcUnsafe) == 0) break;
      last += length;
    }
    out.append(p, first);
    LITHE_RETURN_IF_ERROR(append_form(first, last, {.compose = true, .compatible = false}, points, out));
    p = last;
    unsafe = find_unsafe(p, end);
  }
  out.append(p, end);
  return std::optional<std::string>(std::move(out));
}

}  // namespace lithe::tokenizer
