#include "tokenizer/code_set.h"

#include <algorithm>
#include <array>

#include "tokenizer/unicode.h"

namespace lithe::tokenizer {
namespace {

constexpr std::array<std::string_view, 30> kCategories = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

/// Unicode's Script=Han (Scripts.txt, 16.0).
constexpr CodeRange kHan[] = {{0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
                              {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
                              {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
                              {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
                              {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
                              {0x30000, 0x3134A}, {0x31350, 0x323AF}};

constexpr CodeRange kYoungToBert[] = {
#include "tokenizer/bert_data.inc"
};

/// Each category's ranges, found in one walk over Unicode: a pattern asks for a dozen of them.
const std::array<CodeSet, kCategories.size()>& category_sets() {
  static const auto sets = [] {
    std::array<CodeSet, kCategories.size()> out;
    const UnicodeTable& table = UnicodeTable::get();
    std::uint32_t first = 0;
    for (std::uint32_t point = 1; point <= 0x110000; ++point) {
      if (point < 0x110000 && table.category(point) == table.category(first)) continue;
      out[static_cast<std::size_t>(table.category(first))].add(first, point - 1);
      first = point;
    }
    return out;
  }();
  return sets;
}

}  // namespace

CodeSet CodeSet::white_space() {
  return {{0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
          {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
}

CodeSet CodeSet::word() {
  CodeSet set;
  for (const std::string_view name : {"L", "M", "Nd", "Pc"}) set.add(*property(name));
  return set;
}

std::optional<CodeSet> CodeSet::property(std::string_view name) {
  CodeSet set;
  if (name == "Han") {
    for (const CodeRange& range : kHan) set.add(range.first, range.last);
    return set;
  }
  if (name == "BertPunctuation") {
    for (const char c : std::string_view("$+<=>^`|~"))
      set.add(static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(c));
    for (const std::uint32_t was : {0x166Du, 0x111C9u}) set.add(was, was);  // no longer is
    set.add(property("P")->intersection(young_to_bert().complement()));
    return set;
  }
  if (name.empty() || name.size() > 2) return std::nullopt;
  bool known = false;
  for (std::size_t i = 0; i < kCategories.size(); ++i) {
    if (!kCategories[i].starts_with(name)) continue;
    set.add(category_sets()[i]);
    known = true;
  }
  return known ? std::optional(set) : std::nullopt;
}

const CodeSet& CodeSet::young_to_bert() {
  static const CodeSet set = [] {
    CodeSet out;
    for (const CodeRange& range : kYoungToBert) out.add(range.first, range.last);
    return out;
  }();
  return set;
}

bool CodeSet::contains(std::uint32_t point) const {
  const auto after = std::partition_point(ranges_.begin(), ranges_.end(),
                                          [&](const CodeRange& range) { return range.last < point; });
  return after != ranges_.end() && after->first <= point;
}

void CodeSet::add(std::uint32_t first, std::uint32_t last) {
  // The ranges that overlap or touch [first, last] become one with it.
  const auto begin = std::partition_point(ranges_.begin(), ranges_.end(), [&](const CodeRange& range) {
    return range.last + 1 < first;  // last is at most 0x10FFFF
  });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= last + 1; ++end) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
  }
  ranges_.insert(ranges_.erase(begin, end), CodeRange{first, last});
}

void CodeSet::add(const CodeSet& other) {
  if (ranges_.empty()) {
    ranges_ = other.ranges_;
    return;
  }
  std::vector<CodeRange> all;
  all.reserve(ranges_.size() + other.ranges_.size());
  std::merge(ranges_.begin(), ranges_.end(), other.ranges_.begin(), other.ranges_.end(),
             std::back_inserter(all),
             [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  ranges_.clear();
  for (const CodeRange& range : all) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

CodeSet CodeSet::complement() const {
  CodeSet out;
  std::uint32_t next = 0;
  for (const CodeRange& range : ranges_) {
    if (range.first > next) out.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= 0x10FFFF) out.ranges_.push_back({next, 0x10FFFF});
  return out;
}

CodeSet CodeSet::intersection(const CodeSet& other) const {
  CodeSet both = complement();
  both.add(other.complement());
  return both.complement();
}

bool CodeSet::add_other_case() {
  CodeSet more;
  for (const CodeRange& range : ranges_) {
    for (std::uint32_t point = range.first; point <= std::min<std::uint32_t>(range.last, 0x7F); ++point) {
      if (point >= 'a' && point <= 'z') more.add(point - 32, point - 32);
      if (point >= 'A' && point <= 'Z') more.add(point + 32, point + 32);
      if ((point | 32) == 's') more.add(0x17F, 0x17F);
      if ((point | 32) == 'k') more.add(0x212A, 0x212A);
    }
    if (range.last > 0x7F && range.last - range.first < 16) return false;
  }
  add(more);
  return true;
}

}  // namespace lithe::tokenizer
