#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <utility>

#include "tokenizer/code_set.h"
#include "tokenizer/normalize.h"
#include "tokenizer/unicode.h"

namespace lithe::tokenizer {
namespace {

using StepKind = NormalizerStep::Kind;

// Steps come from files, and each may lengthen what the one before made.
constexpr std::size_t kLongestText = 256, kLeastRoom = 1 << 16, kMostGrowth = 64;

/// visit(code point, its bytes) for each character.
template <typename Visit>
void each_character(std::string_view text, Visit visit) {
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t length = utf8_length(static_cast<std::uint8_t>(text[at]));
    visit(utf8_decode(text.data() + at, length), text.substr(at, length));
    at += length;
  }
}

/// With the letters of Unicode 16, which utf8proc may not know yet.
std::uint32_t lower_case_of(std::uint32_t point) {
  if (point >= 0x10D50 && point <= 0x10D65) return point + 0x20;
  switch (point) {
    case 0x1C89:
    case 0xA7CC:
    case 0xA7DA:
      return point + 1;
    case 0xA7CB:
      return 0x264;
    case 0xA7DC:
      return 0x19B;
    default:
      return static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point)));
  }
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_character(text, [&](std::uint32_t point, std::string_view) {
    if (point < 0x80) {
      out += static_cast<char>(point >= 'A' && point <= 'Z' ? point + 32 : point);
    } else if (point == 0x130) {
      out += "i\xCC\x87";  // the one letter whose lower case is two
    } else {
      utf8_append(lower_case_of(point), out);
    }
  });
  return out;
}

bool is_space(std::uint32_t point) {
  return (UnicodeTable::get().kind(point) & kSpace) != 0;
}

std::string_view strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const std::uint32_t length = utf8_length(static_cast<std::uint8_t>(text[0]));
    if (!is_space(utf8_decode(text.data(), length))) break;
    text.remove_prefix(length);
  }
  while (right && !text.empty()) {
    std::size_t last = text.size() - 1;
    while ((text[last] & 0xC0) == 0x80) --last;
    if (!is_space(utf8_decode(text.data() + last, static_cast<std::uint32_t>(text.size() - last)))) break;
    text = text.substr(0, last);
  }
  return text;
}

/// BERT's own list, with the gap that the reference has.
bool is_chinese(std::uint32_t point) {
  const auto between = [point](std::uint32_t first, std::uint32_t last) {
    return first <= point && point <= last;
  };
  return between(0x4E00, 0x9FFF) || between(0x3400, 0x4DBF) || between(0x20000, 0x2A6DF) ||
         between(0x2A700, 0x2B73F) || between(0x2B740, 0x2B81F) || between(0x2B920, 0x2CEAF) ||
         between(0xF900, 0xFAFF) || between(0x2F800, 0x2FA1F);
}

/// By the older Unicode of the reference's steps.
Category bert_category(std::uint32_t point) {
  const Category category = UnicodeTable::get().category(point);
  const bool asked = category == Category::Mn || category == Category::Cf;
  return asked && CodeSet::young_to_bert().contains(point) ? Category::Cn : category;
}

Result<std::string> bert(const NormalizerStep& step, std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  each_character(text, [&](std::uint32_t point, std::string_view bytes) {
    if (step.clean) {
      const Category category = bert_category(point);
      const bool line = point == '\t' || point == '\n' || point == '\r';  // other control characters vanish
      const bool control = category == Category::Cc || category == Category::Cf || category == Category::Co;
      if (point == 0xFFFD || (control && !line)) return;
      if (is_space(point)) {
        out += ' ';
        return;
      }
    }
    const bool apart = step.cjk && is_chinese(point);
    if (apart) out += ' ';
    out += bytes;
    if (apart) out += ' ';
  });
  if (step.accents) {
    LITHE_ASSIGN_OR_RETURN(out, normalize_form(out, {.compose = false, .compatible = false}));
    std::string plain;
    each_character(out, [&](std::uint32_t point, std::string_view bytes) {
      if (bert_category(point) != Category::Mn) plain += bytes;
    });
    out = std::move(plain);
  }
  return step.lower ? lowercase(out) : out;
}

std::string without_extra_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == ' ' && (out.empty() || out.back() == ' ')) continue;
    out += c;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::optional<std::string> replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::size_t next = text.find(from);
  if (from.empty() || next == std::string_view::npos) return std::nullopt;
  std::string out;
  std::size_t at = 0;
  for (; next != std::string_view::npos; next = text.find(from, at)) {
    out.append(text.substr(at, next - at)).append(to);
    at = next + from.size();
  }
  out.append(text.substr(at));
  return out;
}

}  // namespace

Result<Normalizer> Normalizer::create(std::span<const NormalizerStep> steps) {
  Normalizer normalizer;
  for (const NormalizerStep& what : steps) {
    if (what.kind != StepKind::charsmap && what.text.size() > kLongestText)
      return unsupported("a normaliser that puts in {} bytes: at most {} are supported", what.text.size(),
                         kLongestText);
    Step step{what, {}, {}};
    if (what.kind == StepKind::replace && what.regex) {
      LITHE_ASSIGN_OR_RETURN(Pattern pattern, Pattern::compile(what.pattern));
      step.pattern.push_back(std::move(pattern));
    }
    if (what.kind == StepKind::charsmap) {
      LITHE_ASSIGN_OR_RETURN(step.map, CharsMap::parse(what.text));
      step.what.text.clear();
    }
    normalizer.steps_.push_back(std::move(step));
  }
  return normalizer;
}

/// Fills `out` if the step changes the text.
Status Normalizer::apply_step(const Step& step, std::string_view text, std::optional<std::string>& out) {
  const NormalizerStep& what = step.what;
  switch (what.kind) {
    case StepKind::nfc: {
      LITHE_ASSIGN_OR_RETURN(out, normalize_nfc(text));
      return {};
    }
    case StepKind::nfd:
    case StepKind::nfkc:
    case StepKind::nfkd: {
      LITHE_ASSIGN_OR_RETURN(out, normalize_form(text, {.compose = what.kind == StepKind::nfkc,
                                                        .compatible = what.kind != StepKind::nfd}));
      return {};
    }
    case StepKind::lowercase:
      out = lowercase(text);
      return {};
    case StepKind::strip:
      out = strip(text, what.left, what.right);
      return {};
    case StepKind::strip_accents:
      out.emplace();
      each_character(text, [&](std::uint32_t point, std::string_view bytes) {
        const Category category = bert_category(point);
        if (category < Category::Mn || category > Category::Me) *out += bytes;
      });
      return {};
    case StepKind::replace:
      if (step.pattern.empty()) {
        out = replaced(text, what.pattern, what.text);
        return {};
      } else {
        std::string changed;
        std::size_t at = 0;
        LITHE_RETURN_IF_ERROR(step.pattern[0].matches(text, [&](std::size_t begin, std::size_t end) {
          changed.append(text.substr(at, begin - at)).append(what.text);
          at = end;
        }));
        out = changed.append(text.substr(at));
        return {};
      }
    case StepKind::prepend:
      if (!text.empty()) out = what.text + std::string(text);
      return {};
    case StepKind::bert: {
      LITHE_ASSIGN_OR_RETURN(out, bert(what, text));
      return {};
    }
    case StepKind::charsmap:
      out = what.graphemes ? step.map.apply_to_graphemes(text) : step.map.apply(text);
      return {};
    case StepKind::extra_spaces:
      out = without_extra_spaces(text);
      return {};
  }
  return {};
}

Result<std::optional<std::string>> Normalizer::apply(std::string_view text) const {
  std::optional<std::string> now;
  for (const Step& step : steps_) {
    std::optional<std::string> next;
    LITHE_RETURN_IF_ERROR(apply_step(step, now ? std::string_view(*now) : text, next));
    if (next) now = std::move(next);
    if (now && now->size() > kLeastRoom + kMostGrowth * text.size())
      return exhausted("a text of {} bytes grew to {} when it was normalised", text.size(), now->size());
  }
  return now;
}

}  // namespace lithe::tokenizer
