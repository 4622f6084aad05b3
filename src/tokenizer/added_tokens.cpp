#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "tokenizer/unicode.h"

namespace lithe::tokenizer {
namespace {

std::size_t previous_char(std::string_view text, std::size_t at) {
  do --at;
  while ((text[at] & 0xC0) == 0x80);
  return at;
}

std::uint32_t point_at(std::string_view text, std::size_t at) {
  return utf8_decode(text.data() + at, utf8_length(static_cast<std::uint8_t>(text[at])));
}

/// \w of a Unicode regular expression: what is alphabetic (letters, letter numbers, enclosed letters), marks,
/// decimal digits, connectors, joiners.
bool is_word(std::uint32_t point) {
  const UnicodeTable& table = UnicodeTable::get();
  if (table.kind(point) & (kLetter | kMark)) return true;
  const auto between = [point](std::uint32_t first, std::uint32_t last) {
    return first <= point && point <= last;
  };
  if (between(0x24B6, 0x24E9) || between(0x1F130, 0x1F149) || between(0x1F150, 0x1F169) ||
      between(0x1F170, 0x1F189) || between(0x200C, 0x200D)) {
    return true;
  }
  const Category category = table.category(point);
  return category == Category::Nd || category == Category::Nl || category == Category::Pc;
}

}  // namespace

AddedTokens::AddedTokens(const TokenTable& tokens, const std::map<TokenId, AddedTokenRule>& rules) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const TokenType type = tokens.type(id);
    if (type != TokenType::control && type != TokenType::unknown && type != TokenType::user_defined) continue;
    const auto found = rules.find(id);
    const AddedTokenRule rule = found == rules.end() ? AddedTokenRule{} : found->second;
    if (rule.normalized && type == TokenType::user_defined) continue;
    add(tokens.written(id), id, type != TokenType::user_defined, rule);
  }
}

void AddedTokens::add(std::string_view text, TokenId id, bool control, const AddedTokenRule& rule) {
  if (text.empty() || text.size() > kLongest || valid_utf8_prefix(text) != text.size()) return;
  rules_[id] = {control, rule};
  insert(text, id);
}

void AddedTokens::insert(std::string_view text, TokenId id) {
  std::int32_t* link = &roots_[static_cast<std::uint8_t>(text[0])];
  std::int32_t node = kNone;
  for (const char byte : text) {
    while (*link != kNone && nodes_[static_cast<std::size_t>(*link)].byte != byte) {
      link = &nodes_[static_cast<std::size_t>(*link)].sibling;
    }
    if (*link == kNone) {
      *link = static_cast<std::int32_t>(nodes_.size());
      node = *link;
      nodes_.push_back({byte});  // invalidates link
    } else {
      node = *link;
    }
    link = &nodes_[static_cast<std::size_t>(node)].child;
  }
  nodes_[static_cast<std::size_t>(node)].id = id;
}

bool AddedTokens::stands_alone(std::string_view text, std::size_t begin, std::size_t end) const {
  const bool word_before = begin > 0 && is_word(point_at(text, previous_char(text, begin)));
  const bool word_after = end < text.size() && is_word(point_at(text, end));
  return !word_before && !word_after;
}

AddedTokens::Match AddedTokens::find(std::string_view text, std::size_t from, std::size_t plain,
                                     Scope& scope) const {
  const Match none{text.size(), text.size(), text.size(), kNoToken};
  if (nodes_.empty()) return none;
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    std::int32_t node = roots_[static_cast<std::uint8_t>(text[begin])];
    if (node == kNone) continue;
    while (!scope.untrusted.empty() && scope.untrusted.front().end <= begin) {
      scope.untrusted = scope.untrusted.subspan(1);
    }
    // Control tokens must end before what a user wrote next; inside it there are none.
    std::size_t trusted_end = scope.control ? text.size() : 0;
    for (const ByteRange& range : scope.untrusted) {
      if (range.begin >= range.end) continue;  // empty: nothing to touch
      trusted_end = std::min(trusted_end, range.begin);
      break;
    }
    Match best = none;
    std::size_t end = begin;
    while (true) {
      while (node != kNone && nodes_[static_cast<std::size_t>(node)].byte != text[end]) {
        node = nodes_[static_cast<std::size_t>(node)].sibling;
      }
      if (node == kNone) break;
      ++end;
      const Node& here = nodes_[static_cast<std::size_t>(node)];
      if (here.id != kNoToken && (end <= trusted_end || !rules_.at(here.id).control))
        best = {begin, end, end, here.id};
      node = here.child;
      if (end == text.size()) break;
    }
    if (best.id == kNoToken) continue;
    const AddedTokenRule& rule = rules_.at(best.id).strip;
    if (rule.single_word && !stands_alone(text, best.begin, best.end)) {
      begin = best.end - 1;  // as Hugging Face: what lies inside is not looked at again
      continue;
    }
    const UnicodeTable& table = UnicodeTable::get();
    if (rule.lstrip) {
      while (best.begin > plain) {
        const std::size_t before = previous_char(text, best.begin);
        if (before < plain || (table.kind(point_at(text, before)) & kSpace) == 0) break;
        best.begin = before;
      }
    }
    if (rule.rstrip) {
      while (best.end < text.size() && (table.kind(point_at(text, best.end)) & kSpace) != 0) {
        best.end += utf8_length(static_cast<std::uint8_t>(text[best.end]));
      }
    }
    return best;
  }
  return none;
}

}  // namespace lithe::tokenizer
