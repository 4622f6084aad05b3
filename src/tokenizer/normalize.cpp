#include "tokenizer/normalize.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/check.h"
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

/// A form of [begin, end): decompose, sort runs of marks, compose. utf8proc's own driver sorts by swapping
/// neighbours, quadratic in a run of marks; here the runs are sorted properly.
Status append_form(const char* begin, const char* end, NormalForm form, std::vector<utf8proc_int32_t>& points,
                   std::string& out) {
  const auto options =
      static_cast<utf8proc_option_t>(form.compatible ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE);
  points.clear();
  for (const char* p = begin; p < end;) {
    const std::uint32_t length = utf8_length(static_cast<std::uint8_t>(*p));
    utf8proc_int32_t parts[32];  // the longest decomposition has 4 (18 for compatibility)
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(utf8_decode(p, length)), parts,
                                std::size(parts), options, &boundary);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(std::size(parts))) {
      return internal("normalising text: {}", utf8proc_errmsg(count));
    }
    points.insert(points.end(), parts, parts + count);
    p += length;
  }
  const auto mark_class = [](utf8proc_int32_t point) {
    return utf8proc_get_property(point)->combining_class;
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
