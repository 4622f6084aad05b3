// Added tokens (control and user_defined): found in text before it is cut into words.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/token_table.h"

namespace lithe::tokenizer {

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Those that are looked for in the text as it came.
  AddedTokens(const TokenTable& tokens, const std::map<TokenId, AddedTokenRule>& rules);
  /// Another one, written `text`.
  void add(std::string_view text, TokenId id, bool control, const AddedTokenRule& rule);
  bool empty() const { return nodes_.empty(); }

  struct Match {
    std::size_t begin, end;  // with the white space that lstrip and rstrip take
    std::size_t resume;      // where the next search starts: the end without that white space
    TokenId id;              // kNoToken: none up to the end of the text
  };
  /// Where to look, beside the text: control tokens at all, and what a user wrote (ascending, disjoint).
  struct Scope {
    bool control;
    std::span<const ByteRange> untrusted;
  };

  /// The first match at or after `from`; of those at one place the longest. lstrip reaches back to `plain`,
  /// where the text before begins. As Hugging Face does it, to the letter: an added token of white space is
  /// found in what rstrip took as well. `scope.untrusted` shrinks to what lies ahead. Valid UTF-8 only.
  Match find(std::string_view text, std::size_t from, std::size_t plain, Scope& scope) const;

 private:
  static constexpr std::size_t kLongest = 1024;  // bounds the work per byte of text
  static constexpr std::int32_t kNone = -1;
  struct Node {  // a trie, children as a list of siblings
    char byte;
    std::int32_t child = kNone, sibling = kNone;
    TokenId id = kNoToken;
  };
  struct Rule {
    bool control;
    AddedTokenRule strip;
  };
  void insert(std::string_view text, TokenId id);
  bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) const;

  std::array<std::int32_t, 256> roots_ = [] {  // by first byte
    std::array<std::int32_t, 256> none;
    none.fill(kNone);
    return none;
  }();
  std::vector<Node> nodes_;
  std::map<TokenId, Rule> rules_;
};

}  // namespace lithe::tokenizer
