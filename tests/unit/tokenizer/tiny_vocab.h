// Small vocabularies made in the tests themselves.
#pragma once

#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/token_table.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace lithe::tokenizer::testing {

/// Owns what a VocabSpec borrows. Starts with the 256 bytes, id = byte.
struct TinyVocab {
  std::deque<std::string> strings;  // a deque: views stay valid
  VocabSpec spec;

  explicit TinyVocab(std::string pre = "gpt-2") {
    spec.model = "gpt2";
    spec.pre = std::move(pre);
    for (int byte = 0; byte < 256; ++byte) add(alphabet_character(static_cast<std::uint8_t>(byte)));
  }
  TokenId add(std::string_view written, TokenType type = TokenType::normal) {
    spec.tokens.push_back(strings.emplace_back(written));
    spec.types.push_back(type);
    return static_cast<TokenId>(spec.tokens.size() - 1);
  }
  static std::string write(std::string_view bytes) {
    std::string written;
    for (const char byte : bytes) written += alphabet_character(static_cast<std::uint8_t>(byte));
    return written;
  }
  /// The token for left + right (raw bytes), made if new, and the merge.
  void merge(std::string_view left, std::string_view right) {
    const std::string l = write(left), r = write(right);
    bool known = false;
    for (const std::string_view token : spec.tokens) known |= token == l + r;
    if (!known) add(l + r);
    spec.merges.push_back(strings.emplace_back(l + " " + r));
  }
  /// Merges that build `word` from the left.
  void learn(std::string_view word) {
    for (std::size_t i = 1; i < word.size(); ++i) merge(word.substr(0, i), word.substr(i, 1));
  }
  Tokenizer make() const {
    auto tokenizer = Tokenizer::create(spec);
    if (!tokenizer.ok()) std::abort();
    return std::move(tokenizer).value();
  }
};

}  // namespace lithe::tokenizer::testing
