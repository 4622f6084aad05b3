#include "tokenizer/hf_steps.h"

#include <algorithm>

#include "base/text.h"
#include "tokenizer/pre_tokenizer.h"

namespace lithe::tokenizer {
namespace {

using Behavior = SplitStep::Behavior;
using NormKind = NormalizerStep::Kind;

constexpr std::size_t kMostSteps = 256;

Status unknown(const char* part, std::string_view name) {
  return unsupported("tokenizer.json: {} {}", part, in_quotes(name));
}

/// Calls read(step) for each step of a chain, which may be one step, null, or a Sequence under `list`.
template <typename Read>
Status each_step(const Json* chain, std::string_view list, int depth, Read read) {
  if (chain == nullptr || chain->is_null()) return {};
  if (!chain->is_object() || depth > 16) return corrupt("tokenizer.json: a step that is no object");
  if (string_of(*chain, "type") != "Sequence") return read(*chain);
  const Json* steps = find_member(*chain, list);
  if (steps == nullptr || !steps->is_array()) return corrupt("tokenizer.json: a Sequence without {}", list);
  for (const Json& step : *steps) LITHE_RETURN_IF_ERROR(each_step(&step, list, depth + 1, read));
  return {};
}

struct PatternText {
  std::string text;
  bool regex = false;
};

Result<PatternText> pattern_of(const Json& step) {
  const Json* pattern = find_member(step, "pattern");
  if (pattern != nullptr && pattern->is_string()) return PatternText{pattern->get<std::string>(), false};
  if (pattern != nullptr && pattern->is_object()) {
    if (const auto text = string_of(*pattern, "Regex"); !text.empty())
      return PatternText{std::string(text), true};
    if (const Json* text = find_member(*pattern, "String"); text != nullptr && text->is_string())
      return PatternText{text->get<std::string>(), false};
  }
  return corrupt("tokenizer.json: a step without a pattern");
}

/// A literal as an expression.
std::string escaped(std::string_view literal) {
  std::string out;
  for (const char c : literal) {
    if (std::string_view("\\^$.[]|()?*+{}-&").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

/// Precompiled maps are stored as base64.
Result<std::string> base64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    int value;
    if (c >= 'A' && c <= 'Z') {
      value = c - 'A';
    } else if (c >= 'a' && c <= 'z') {
      value = c - 'a' + 26;
    } else if (c >= '0' && c <= '9') {
      value = c - '0' + 52;
    } else if (c == '+' || c == '/') {
      value = c == '+' ? 62 : 63;
    } else if (c == '=') {
      break;
    } else {
      return corrupt("tokenizer.json: a character map that is not base64");
    }
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 255);
    }
  }
  return out;
}

Status read_normalizer(const Json& step, HfSteps& out) {
  const std::string_view type = string_of(step, "type");
  const auto add = [&](NormalizerStep what) {
    out.normalizers.push_back(std::move(what));
    return Status();
  };
  if (type == "NFC") return add({.kind = NormKind::nfc});
  if (type == "NFD") return add({.kind = NormKind::nfd});
  if (type == "NFKC") return add({.kind = NormKind::nfkc});
  if (type == "NFKD") return add({.kind = NormKind::nfkd});
  if (type == "Lowercase") return add({.kind = NormKind::lowercase});
  if (type == "StripAccents") return add({.kind = NormKind::strip_accents});
  if (type == "Prepend")
    return add({.kind = NormKind::prepend, .text = std::string(string_of(step, "prepend"))});
  if (type == "ByteLevel") {
    out.byte_level = true;
    return {};
  }
  if (type == "Strip") {
    return add({.kind = NormKind::strip,
                .left = bool_of(step, "strip_left", true),
                .right = bool_of(step, "strip_right", true)});
  }
  if (type == "Replace") {
    LITHE_ASSIGN_OR_RETURN(PatternText pattern, pattern_of(step));
    NormalizerStep what{.kind = NormKind::replace,
                        .pattern = std::move(pattern.text),
                        .text = std::string(string_of(step, "content"))};
    what.regex = pattern.regex;
    out.metaspace |= !what.regex && what.pattern == " " && what.text == kBlank;
    return add(std::move(what));
  }
  if (type == "BertNormalizer") {
    NormalizerStep what{.kind = NormKind::bert};
    what.clean = bool_of(step, "clean_text", true);
    what.cjk = bool_of(step, "handle_chinese_chars", true);
    what.lower = bool_of(step, "lowercase", true);
    what.accents = bool_of(step, "strip_accents", what.lower);
    return add(std::move(what));
  }
  if (type == "Precompiled") {
    LITHE_ASSIGN_OR_RETURN(std::string map, base64(string_of(step, "precompiled_charsmap")));
    if (map.empty()) return {};
    return add({.kind = NormKind::charsmap, .text = std::move(map), .graphemes = true});
  }
  return unknown("normalizer", type);
}

Result<Behavior> behavior_of(const Json& step, Behavior otherwise) {
  const std::string_view name = string_of(step, "behavior");
  if (name.empty()) return otherwise;
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  return unknown("behavior", name);
}

void read_metaspace(const Json& step, HfSteps& out) {
  const std::string_view mark = string_of(step, "replacement", kBlank);
  const bool prefix = bool_of(step, "add_prefix_space", true);
  const std::string_view scheme = string_of(step, "prepend_scheme", prefix ? "always" : "never");
  out.splits.push_back({.kind = SplitStep::Kind::respace, .text = std::string(mark)});
  if (scheme != "never") {
    out.splits.push_back(
        {.kind = SplitStep::Kind::prefix, .text = std::string(mark), .only_first = scheme == "first"});
  }
  if (bool_of(step, "split", true))
    out.splits.push_back({.text = escaped(mark), .behavior = Behavior::merged_with_next});
  out.metaspace |= mark == kBlank;
}

Status read_split(const Json& step, HfSteps& out) {
  const std::string_view type = string_of(step, "type");
  const auto add = [&](std::string text, Behavior behavior, bool invert = false) {
    out.splits.push_back({.text = std::move(text), .behavior = behavior, .invert = invert});
    return Status();
  };
  if (type == "ByteLevel") {
    out.byte_level = true;
    if (bool_of(step, "add_prefix_space", true))
      out.splits.push_back({.kind = SplitStep::Kind::prefix, .text = " "});
    return bool_of(step, "use_regex", true) ? add(gpt2_pattern(), Behavior::isolated) : Status();
  }
  if (type == "Split") {
    LITHE_ASSIGN_OR_RETURN(const PatternText pattern, pattern_of(step));
    LITHE_ASSIGN_OR_RETURN(const Behavior behavior, behavior_of(step, Behavior::isolated));
    return add(pattern.regex ? pattern.text : escaped(pattern.text), behavior,
               bool_of(step, "invert", false));
  }
  if (type == "Digits")
    return add(bool_of(step, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)", Behavior::isolated);
  if (type == "Whitespace") {
    out.splits.push_back(whitespace_step());
    return {};
  }
  if (type == "WhitespaceSplit") return add(R"(\s)", Behavior::removed);
  if (type == "Punctuation") {
    LITHE_ASSIGN_OR_RETURN(const Behavior behavior, behavior_of(step, Behavior::isolated));
    if (behavior == Behavior::contiguous) return add(R"(\p{BertPunctuation}+)", Behavior::isolated);
    return add(R"(\p{BertPunctuation})", behavior);
  }
  if (type == "BertPreTokenizer") {
    (void)add(R"(\s)", Behavior::removed);
    return add(R"(\p{BertPunctuation})", Behavior::isolated);
  }
  if (type == "CharDelimiterSplit") return add(escaped(string_of(step, "delimiter")), Behavior::removed);
  if (type == "Metaspace") {
    read_metaspace(step, out);
    return {};
  }
  return unknown("pre_tokenizer", type);
}

Status read_decoder(const Json& step, HfSteps& out) {
  const std::string_view type = string_of(step, "type");
  using First = Decoding::First;
  out.has_decoder = true;
  if (type == "ByteLevel" || type == "ByteFallback" || type == "Fuse") return {};
  if (type == "Replace") {
    LITHE_ASSIGN_OR_RETURN(PatternText pattern, pattern_of(step));
    if (pattern.regex) return unknown("decoder", "Replace of an expression");
    out.decoding.replace.emplace_back(std::move(pattern.text), string_of(step, "content"));
    return {};
  }
  if (type == "Strip") {
    const Json* start = find_member(step, "start");
    const bool one = start != nullptr && start->is_number_integer() && start->get<std::int64_t>() > 0;
    if (one && string_of(step, "content") == " ") out.decoding.first = First::without_space;
    return {};
  }
  if (type == "Metaspace") {
    const std::string_view mark = string_of(step, "replacement", kBlank);
    const bool prefix = bool_of(step, "add_prefix_space", true);
    if (string_of(step, "prepend_scheme", prefix ? "always" : "never") != "never")
      out.decoding.first = First::without_spaces;
    out.decoding.replace.emplace_back(mark, " ");
    return {};
  }
  if (type == "WordPiece") {
    if (string_of(step, "prefix", "##") != "##")
      return unknown("decoder", "WordPiece with another prefix than ##");
    out.decoding.added_apart = true;
    out.decoding.first = First::without_space;
    out.decoding.tidy = bool_of(step, "cleanup", true);
    return {};
  }
  return unknown("decoder", type);
}

bool is_blank_replacement(const NormalizerStep& step) {
  return step.kind == NormKind::replace && !step.regex && step.pattern == " " && step.text == kBlank;
}

std::string with_plain_blanks(std::string text) {
  for (std::size_t at = 0; (at = text.find(kBlank, at)) != std::string::npos; ++at)
    text.replace(at, kBlank.size(), " ");
  return text;
}

}  // namespace

bool bool_of(const Json& object, std::string_view key, bool otherwise) {
  const Json* member = find_member(object, key);
  return member != nullptr && member->is_boolean() ? member->get<bool>() : otherwise;
}

std::string_view string_of(const Json& object, std::string_view key, std::string_view otherwise) {
  const Json* member = find_member(object, key);
  return member != nullptr && member->is_string() ? std::string_view(member->get_ref<const std::string&>())
                                                  : otherwise;
}

Result<HfSteps> read_steps(const Json& file) {
  HfSteps out;
  LITHE_RETURN_IF_ERROR(each_step(find_member(file, "normalizer"), "normalizers", 0,
                                  [&](const Json& step) { return read_normalizer(step, out); }));
  LITHE_RETURN_IF_ERROR(each_step(find_member(file, "pre_tokenizer"), "pretokenizers", 0,
                                  [&](const Json& step) { return read_split(step, out); }));
  LITHE_RETURN_IF_ERROR(each_step(find_member(file, "decoder"), "decoders", 0,
                                  [&](const Json& step) { return read_decoder(step, out); }));
  for (const std::size_t count :
       {out.normalizers.size(), out.splits.size()}) {  // each walks through every text
    if (count > kMostSteps)
      return unsupported("tokenizer.json: a chain of {} steps; the limit is {}", count, kMostSteps);
  }
  return out;
}

bool use_plain_blanks(HfSteps& steps) {
  HfSteps out = steps;
  out.normalizers.clear();
  out.splits.clear();
  out.decoding.replace.clear();
  bool replaced = false;  // from here on the text has no blanks in the file's own terms
  for (const NormalizerStep& step : steps.normalizers) {
    NormalizerStep plain = step;
    if (is_blank_replacement(step)) {
      plain.pattern = kBlank;
      plain.text = " ";
      replaced = true;
    } else if (step.kind == NormKind::prepend) {
      plain.text = with_plain_blanks(step.text);
    } else if ((step.kind == NormKind::replace && step.text.find(kBlank) != std::string::npos) ||
               (replaced && (step.kind == NormKind::strip || step.kind == NormKind::replace ||
                             step.kind == NormKind::bert || step.kind == NormKind::extra_spaces))) {
      return false;
    }
    out.normalizers.push_back(std::move(plain));
  }
  for (const SplitStep& step : steps.splits) {
    SplitStep plain = step;
    plain.text = with_plain_blanks(step.text);
    if (step.kind == SplitStep::Kind::respace) {
      if (step.text != kBlank) return false;
      plain.text = step.text;
      replaced = true;
    } else if (step.kind == SplitStep::Kind::pattern && replaced) {
      if (step.text == " ") continue;  // never matches
      const bool blanks =
          step.text.find(' ') != std::string::npos || step.text.find("\\s") != std::string::npos ||
          step.text.find("\\S") != std::string::npos || step.text.find("[^") != std::string::npos;
      if (blanks) return false;
    }
    out.splits.push_back(std::move(plain));
  }
  for (const auto& [from, to] : steps.decoding.replace) {
    if (from == kBlank && to == " ") continue;
    out.decoding.replace.emplace_back(from, to);
  }
  if (!replaced) return false;
  steps = std::move(out);
  return true;
}

}  // namespace lithe::tokenizer
