// From a pattern to the machine's code: parse into a tree, then write it out.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <string>

#include "base/text.h"
#include "tokenizer/code_set.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

namespace lithe::tokenizer {
namespace {

constexpr std::size_t kMaxPattern = 1 << 14, kMaxSets = 32, kMaxCode = 1 << 13;
constexpr int kMaxDepth = 40;
constexpr std::uint32_t kMany = 0xFFFFFFFF, kMaxRepeat = 1 << 16;

struct Node {
  enum class Kind : std::uint8_t { set, sequence, either, repeat, look, word_edge, line_begin, line_end };
  Kind kind = Kind::sequence;
  std::uint8_t set = 0;
  bool possessive = false, negative = false;
  std::uint32_t least = 0, most = 0;
  std::vector<Node> parts = {};
};

/// What a tree can begin with.
struct First {
  std::uint32_t sets = 0;
  bool maybe_empty = true;
};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  Result<Node> parse() {
    LITHE_ASSIGN_OR_RETURN(Node node, alternatives(false, 0));
    if (at_ != pattern_.size()) return unknown("an unmatched )");
    return node;
  }
  const std::vector<CodeSet>& sets() const { return sets_; }
  /// The number of a set, new or known; nothing when there are too many.
  std::optional<std::uint8_t> number_of(const CodeSet& set) {
    const auto found = std::ranges::find(sets_, set);
    if (found == sets_.end() && sets_.size() == kMaxSets) return std::nullopt;
    const auto number = static_cast<std::uint8_t>(found - sets_.begin());
    if (found == sets_.end()) sets_.push_back(set);
    return number;
  }
  Status unknown(std::string_view what) const {
    return unsupported("pattern {}: {} at {}", in_quotes(pattern_), what, at_);
  }

 private:
  bool ends() const { return at_ >= pattern_.size(); }
  bool take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  std::uint32_t take_point() {
    const auto length = utf8_length(static_cast<std::uint8_t>(pattern_[at_]));
    const std::uint32_t point = utf8_decode(pattern_.data() + at_, length);
    at_ += length;
    return point;
  }

  Result<Node> alternatives(bool any_case, int depth);
  Result<Node> sequence(bool any_case, int depth);
  Result<Node> atom(bool any_case, int depth);
  Result<Node> group(bool any_case, int depth);
  Status quantify(Node& node);
  Result<Node> set_node(CodeSet set, bool any_case);
  Result<CodeSet> char_class(bool any_case, int depth);
  Result<std::optional<std::uint32_t>> class_item(CodeSet& set, int depth, bool any_case);
  Result<std::optional<std::uint32_t>> escape(CodeSet& set);
  Result<std::uint32_t> hex(std::size_t least, std::size_t most);

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::vector<CodeSet> sets_;
};

Result<Node> Parser::alternatives(bool any_case, int depth) {
  if (depth > kMaxDepth) return unknown("groups nested too deep");
  Node node{.kind = Node::Kind::either};
  do {
    LITHE_ASSIGN_OR_RETURN(Node part, sequence(any_case, depth));
    node.parts.push_back(std::move(part));
  } while (take("|"));
  return node;
}

Result<Node> Parser::sequence(bool any_case, int depth) {
  Node node{.kind = Node::Kind::sequence};
  while (!ends() && pattern_[at_] != '|' && pattern_[at_] != ')') {
    LITHE_ASSIGN_OR_RETURN(Node part, atom(any_case, depth));
    LITHE_RETURN_IF_ERROR(quantify(part));
    node.parts.push_back(std::move(part));
  }
  return node;
}

Result<Node> Parser::set_node(CodeSet set, bool any_case) {
  if (any_case && !set.add_other_case()) return unknown("a letter beyond ASCII in any case");
  const auto number = number_of(set);
  if (!number) return unknown("too many different classes");
  return Node{.kind = Node::Kind::set, .set = *number};
}

Result<Node> Parser::atom(bool any_case, int depth) {
  if (take("(")) return group(any_case, depth);
  if (take("[")) {
    LITHE_ASSIGN_OR_RETURN(CodeSet set, char_class(any_case, depth));
    return set_node(std::move(set), false);
  }
  if (take("^")) return Node{.kind = Node::Kind::line_begin};
  if (take("$")) return Node{.kind = Node::Kind::line_end};
  if (take("\\b")) return Node{.kind = Node::Kind::word_edge};
  if (take(".")) return set_node(CodeSet({{'\n', '\n'}}).complement(), false);
  if (pattern_[at_] == '\\') {
    ++at_;
    CodeSet set;
    LITHE_ASSIGN_OR_RETURN(const auto point, escape(set));
    if (point) set.add(*point, *point);
    return set_node(std::move(set), any_case && point.has_value());
  }
  constexpr std::string_view kReserved = "?*+";
  if (kReserved.find(pattern_[at_]) != std::string_view::npos) return unknown("a quantifier of nothing");
  const std::uint32_t point = take_point();
  return set_node({{point, point}}, any_case);
}

Result<Node> Parser::group(bool any_case, int depth) {
  bool look = false, negative = false;
  if (take("?=")) {
    look = true;
  } else if (take("?!")) {
    look = negative = true;
  } else if (take("?i:")) {
    any_case = true;
  } else if (!take("?:") && !ends() && pattern_[at_] == '?') {
    return unknown("a kind of group");
  }
  LITHE_ASSIGN_OR_RETURN(Node node, alternatives(any_case, depth + 1));
  if (!take(")")) return unknown("a group without end");
  if (!look) return node;
  Node out{.kind = Node::Kind::look, .negative = negative};
  out.parts.push_back(std::move(node));
  return out;
}

Status Parser::quantify(Node& node) {
  std::uint32_t least = 1, most = 1;
  bool range = false;
  if (take("?")) {
    least = 0;
  } else if (take("*")) {
    least = 0, most = kMany;
  } else if (take("+")) {
    most = kMany;
  } else if (!ends() && pattern_[at_] == '{') {
    const std::size_t end = pattern_.find('}', at_);
    const std::string_view inner = pattern_.substr(at_ + 1, std::max(end, at_ + 1) - at_ - 1);
    const auto number = [](std::string_view text, std::uint32_t& out) {
      out = 0;
      for (const char c : text) {
        if (c < '0' || c > '9' || out > kMaxRepeat) return false;
        out = out * 10 + static_cast<std::uint32_t>(c - '0');
      }
      return !text.empty() && out <= kMaxRepeat;
    };
    const std::size_t comma = inner.find(',');
    bool ok = end != std::string_view::npos && number(inner.substr(0, comma), least);
    most = least;
    if (ok && comma != std::string_view::npos) {
      most = kMany;
      if (comma + 1 < inner.size()) ok = number(inner.substr(comma + 1), most);
    }
    if (!ok || most < least) return unknown("a brace that is no count");
    at_ = end + 1;
    range = true;
  } else {
    return {};
  }
  if (!ends() && (pattern_[at_] == '?' || (range && pattern_[at_] == '+')))
    return unknown("a lazy quantifier");
  const bool possessive = take("+");
  if (!ends() && (pattern_[at_] == '*' || pattern_[at_] == '+'))
    return unknown("a quantifier of a quantifier");
  using enum Node::Kind;
  if (node.kind == look || node.kind == word_edge || node.kind == line_begin || node.kind == line_end)
    return unknown("a quantifier of a place");
  if (possessive && node.kind != set) return unknown("a possessive group");
  Node out{.kind = repeat, .possessive = possessive, .least = least, .most = most};
  out.parts.push_back(std::move(node));
  node = std::move(out);
  return {};
}

Result<CodeSet> Parser::char_class(bool any_case, int depth) {
  if (depth > kMaxDepth) return unknown("classes nested too deep");
  const bool negative = take("^");
  CodeSet set;
  std::optional<CodeSet> so_far;  // of the parts before &&
  for (bool first = true;; first = false) {
    if (ends()) return unknown("a class without end");
    if (!first && take("]")) break;
    if (take("&&")) {
      so_far = so_far ? so_far->intersection(set) : set;
      set = {};
      continue;
    }
    LITHE_ASSIGN_OR_RETURN(const auto low, class_item(set, depth, any_case));
    if (!low) continue;
    std::uint32_t high = *low;
    if (pattern_.substr(at_).starts_with("-") && !pattern_.substr(at_).starts_with("-]")) {
      ++at_;
      CodeSet none;
      LITHE_ASSIGN_OR_RETURN(const auto end, class_item(none, depth, any_case));
      if (!end || *end < *low) return unknown("a range that is none");
      high = *end;
    }
    set.add(*low, high);
  }
  if (so_far) set = so_far->intersection(set);
  if (any_case && !set.add_other_case()) return unknown("a letter beyond ASCII in any case");
  return negative ? set.complement() : set;
}

/// One character, or nothing and a whole set added to `set`.
Result<std::optional<std::uint32_t>> Parser::class_item(CodeSet& set, int depth, bool any_case) {
  if (ends()) return unknown("a class without end");
  if (pattern_.substr(at_).starts_with("[:")) return unknown("a POSIX class");
  if (take("[")) {
    LITHE_ASSIGN_OR_RETURN(const CodeSet inner, char_class(any_case, depth + 1));
    set.add(inner);
    return std::optional<std::uint32_t>();
  }
  if (take("\\")) return escape(set);
  return std::optional(take_point());
}

Result<std::uint32_t> Parser::hex(std::size_t least, std::size_t most) {
  std::uint32_t value = 0;
  std::size_t digits = 0;
  for (; digits < most && !ends(); ++digits, ++at_) {
    const char c = pattern_[at_];
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<std::uint32_t>(c - '0');
    } else if ((c | 32) >= 'a' && (c | 32) <= 'f') {
      value = value * 16 + static_cast<std::uint32_t>((c | 32) - 'a' + 10);
    } else {
      break;
    }
  }
  if (digits < least || value > 0x10FFFF) return unknown("a number that is no character");
  return value;
}

Result<std::optional<std::uint32_t>> Parser::escape(CodeSet& set) {
  using Point = std::optional<std::uint32_t>;
  if (ends()) return unknown("a backslash at the end");
  const std::uint32_t c = take_point();
  switch (c) {
    case 'r':
      return Point('\r');
    case 'n':
      return Point('\n');
    case 't':
      return Point('\t');
    case 'f':
      return Point('\f');
    case 'v':
      return Point('\v');
    case 's':
      set.add(CodeSet::white_space());
      return Point();
    case 'S':
      set.add(CodeSet::white_space().complement());
      return Point();
    case 'd':
      set.add(*CodeSet::property("Nd"));
      return Point();
    case 'D':
      set.add(CodeSet::property("Nd")->complement());
      return Point();
    case 'w':
      set.add(CodeSet::word());
      return Point();
    case 'W':
      set.add(CodeSet::word().complement());
      return Point();
    case 'x': {
      const bool braces = take("{");
      LITHE_ASSIGN_OR_RETURN(const std::uint32_t value, braces ? hex(1, 6) : hex(2, 2));
      if (braces && !take("}")) return unknown("a brace without end");
      if (!braces && value > 0x7F) return unknown("a single byte");
      return Point(value);
    }
    case 'u': {
      LITHE_ASSIGN_OR_RETURN(const std::uint32_t value, hex(4, 4));
      return Point(value);
    }
    case 'p':
    case 'P': {
      if (!take("{")) return unknown("a property without a name");
      const bool negative = take("^") != (c == 'P');
      const std::size_t end = pattern_.find('}', at_);
      if (end == std::string_view::npos) return unknown("a property without end");
      const auto property = CodeSet::property(pattern_.substr(at_, end - at_));
      if (!property) return unknown("a property");
      at_ = end + 1;
      set.add(negative ? property->complement() : *property);
      return Point();
    }
    default:
      if (c < 0x80 && ((c | 32) < 'a' || (c | 32) > 'z') && (c < '0' || c > '9')) return Point(c);
      at_ -= 1;
      return unknown("an escape");
  }
}

}  // namespace

class RegexCompiler {
 public:
  static Result<Regex> compile(std::string_view pattern);

 private:
  using Op = Regex::Op;
  Status write(const Node& node);
  Status write_repeat(const Node& node);
  Status emit(Regex::Instruction instruction) {
    if (regex_.code_.size() >= kMaxCode)
      return unsupported("a pattern that unrolls to more than {} steps", kMaxCode);
    regex_.code_.push_back(instruction);
    return {};
  }
  std::uint32_t here() const { return static_cast<std::uint32_t>(regex_.code_.size()); }
  First first_of(const Node& node) const;
  void spare_choices();
  void fill_table(const std::vector<CodeSet>& sets);

  Regex regex_;
  std::vector<std::uint32_t> overlaps_;  // by set: the sets it shares a character with
};

First RegexCompiler::first_of(const Node& node) const {
  First out;
  switch (node.kind) {
    case Node::Kind::set:
      return {1u << node.set, false};
    case Node::Kind::sequence:
      for (const Node& part : node.parts) {
        const First first = first_of(part);
        out.sets |= first.sets;
        if (!first.maybe_empty) return {out.sets, false};
      }
      return out;
    case Node::Kind::either:
      out.maybe_empty = false;
      for (const Node& part : node.parts) {
        const First first = first_of(part);
        out.sets |= first.sets;
        out.maybe_empty |= first.maybe_empty;
      }
      return out;
    case Node::Kind::repeat:
      out = first_of(node.parts[0]);
      out.maybe_empty |= node.least == 0;
      return out;
    default:
      return out;  // a place takes no character
  }
}

Status RegexCompiler::write(const Node& node) {
  switch (node.kind) {
    case Node::Kind::set:
      return emit({.op = Op::set, .set = node.set});
    case Node::Kind::sequence:
      for (const Node& part : node.parts) LITHE_RETURN_IF_ERROR(write(part));
      return {};
    case Node::Kind::either: {
      std::vector<std::uint32_t> jumps;
      for (std::size_t i = 0; i < node.parts.size(); ++i) {
        const bool last = i + 1 == node.parts.size();
        const std::uint32_t choice = here();
        if (!last) LITHE_RETURN_IF_ERROR(emit({.op = Op::either}));
        LITHE_RETURN_IF_ERROR(write(node.parts[i]));
        if (last) break;
        jumps.push_back(here());
        LITHE_RETURN_IF_ERROR(emit({.op = Op::jump}));
        regex_.code_[choice].a = here();
      }
      for (const std::uint32_t jump : jumps) regex_.code_[jump].a = here();
      return {};
    }
    case Node::Kind::repeat:
      return write_repeat(node);
    case Node::Kind::look: {
      const std::uint32_t look = here();
      LITHE_RETURN_IF_ERROR(emit({.op = node.negative ? Op::look_not : Op::look}));
      LITHE_RETURN_IF_ERROR(write(node.parts[0]));
      LITHE_RETURN_IF_ERROR(emit({.op = Op::accept}));
      regex_.code_[look].a = here();
      return {};
    }
    case Node::Kind::word_edge:
      return emit({.op = Op::word_edge});
    case Node::Kind::line_begin:
      return emit({.op = Op::line_begin});
    case Node::Kind::line_end:
      return emit({.op = Op::line_end});
  }
  return {};
}

Status RegexCompiler::write_repeat(const Node& node) {
  const Node& part = node.parts[0];
  if (part.kind == Node::Kind::set) {
    return emit(
        {.op = Op::span, .possessive = node.possessive, .set = part.set, .a = node.least, .b = node.most});
  }
  if (first_of(part).maybe_empty) return unsupported("a pattern that repeats what may be empty");
  for (std::uint32_t i = 0; i < node.least; ++i) LITHE_RETURN_IF_ERROR(write(part));
  if (node.most == kMany) {
    const std::uint32_t loop = here();
    LITHE_RETURN_IF_ERROR(emit({.op = Op::either}));
    LITHE_RETURN_IF_ERROR(write(part));
    LITHE_RETURN_IF_ERROR(emit({.op = Op::jump, .a = loop}));
    regex_.code_[loop].a = here();
    return {};
  }
  std::vector<std::uint32_t> choices;
  for (std::uint32_t i = node.least; i < node.most; ++i) {
    choices.push_back(here());
    LITHE_RETURN_IF_ERROR(emit({.op = Op::either}));
    LITHE_RETURN_IF_ERROR(write(part));
  }
  for (const std::uint32_t choice : choices) regex_.code_[choice].a = here();
  return {};
}

/// A span need not remember where it could stop earlier when what follows cannot take its characters.
void RegexCompiler::spare_choices() {
  auto& code = regex_.code_;
  for (std::size_t i = 0; i + 1 < code.size(); ++i) {
    if (code[i].op != Op::span) continue;
    const Regex::Instruction& next = code[i + 1];
    const bool takes = next.op == Op::set || (next.op == Op::span && next.a > 0);
    if (next.op == Op::accept || (takes && (overlaps_[code[i].set] >> next.set & 1) == 0))
      code[i].possessive = true;
  }
}

/// Blocks of 128 code points; equal ones are shared.
void RegexCompiler::fill_table(const std::vector<CodeSet>& sets) {
  regex_.blocks_.resize(0x110000 >> 7);
  std::map<std::vector<std::uint32_t>, std::uint16_t> known;
  std::vector<std::size_t> next(sets.size(), 0);
  std::vector<std::uint32_t> block(128);
  std::uint32_t last_uniform = 0;
  bool was_uniform = false;
  for (std::uint32_t first = 0; first < 0x110000; first += 128) {
    std::uint32_t uniform = 0;
    bool is_uniform = true;
    for (std::size_t s = 0; s < sets.size(); ++s) {
      const auto& ranges = sets[s].ranges();
      while (next[s] < ranges.size() && ranges[next[s]].last < first) ++next[s];
      if (next[s] == ranges.size() || ranges[next[s]].first > first + 127) continue;
      if (ranges[next[s]].first <= first && ranges[next[s]].last >= first + 127) {
        uniform |= 1u << s;
      } else {
        is_uniform = false;
      }
    }
    if (is_uniform && was_uniform && uniform == last_uniform) {
      regex_.blocks_[first >> 7] = regex_.blocks_[(first >> 7) - 1];
      continue;
    }
    was_uniform = is_uniform;
    last_uniform = uniform;
    std::fill(block.begin(), block.end(), is_uniform ? uniform : 0);
    for (std::size_t s = 0; !is_uniform && s < sets.size(); ++s) {
      const auto& ranges = sets[s].ranges();
      for (std::size_t r = next[s]; r < ranges.size() && ranges[r].first <= first + 127; ++r) {
        const std::uint32_t end = std::min(ranges[r].last, first + 127);
        for (std::uint32_t point = std::max(ranges[r].first, first); point <= end; ++point)
          block[point - first] |= 1u << s;
      }
    }
    const auto [found, is_new] = known.emplace(block, static_cast<std::uint16_t>(known.size()));
    if (is_new) regex_.masks_.insert(regex_.masks_.end(), block.begin(), block.end());
    regex_.blocks_[first >> 7] = found->second;
  }
}

Result<Regex> RegexCompiler::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) return unsupported("a pattern of {} bytes", pattern.size());
  if (valid_utf8_prefix(pattern) != pattern.size()) return invalid("a pattern that is not UTF-8");
  Parser parser(pattern);
  LITHE_ASSIGN_OR_RETURN(const Node tree, parser.parse());
  RegexCompiler compiler;
  Regex& regex = compiler.regex_;
  for (const Node& part : tree.parts) {  // the tree is alternatives
    const First first = compiler.first_of(part);
    regex.entries_.push_back({compiler.here(), first.sets, first.maybe_empty});
    regex.any_first_ |= first.sets;
    regex.any_empty_ |= first.maybe_empty;
    LITHE_RETURN_IF_ERROR(compiler.write(part));
    LITHE_RETURN_IF_ERROR(compiler.emit({.op = Op::accept}));
  }
  const auto word = parser.number_of(CodeSet::word());
  const bool needs_word =
      std::ranges::any_of(regex.code_, [](const auto& i) { return i.op == Op::word_edge; });
  if (!word && needs_word) return parser.unknown("too many different classes");
  regex.word_set_ = word.value_or(0);
  const std::vector<CodeSet>& sets = parser.sets();
  for (const CodeSet& set : sets) {
    std::uint32_t overlaps = 0;
    for (std::size_t other = 0; other < sets.size(); ++other) {
      if (!set.intersection(sets[other]).ranges().empty()) overlaps |= 1u << other;
    }
    compiler.overlaps_.push_back(overlaps);
  }
  compiler.spare_choices();
  compiler.fill_table(sets);
  return std::move(compiler.regex_);
}

Result<Regex> Regex::compile(std::string_view pattern) {
  return RegexCompiler::compile(pattern);
}

}  // namespace lithe::tokenizer
