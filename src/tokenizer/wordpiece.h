// BERT's WordPiece, and whole words: what is looked up rather than merged.
#pragma once

#include <memory>

#include "tokenizer/encoder.h"
#include "tokenizer/trie.h"

namespace lithe::tokenizer {

/// From the left, each time the longest token; a word with a part that is none is the unknown token. Tokens
/// that begin a word carry a blank before it in the token table, those that continue one do not.
class WordPiece final : public Model {
 public:
  /// `tokens` must outlive the result. `longest`: characters of a word; longer ones are unknown.
  WordPiece(const TokenTable& tokens, TokenId unknown, std::size_t longest)
      : trie_(tokens), unknown_(unknown), longest_(longest) {}
  std::unique_ptr<Encoder> encoder(std::size_t text_size) const override;

 private:
  friend class WordPieceEncoder;
  Trie trie_;
  TokenId unknown_;
  std::size_t longest_;
};

/// Each word a token, or the unknown one (kNoToken: nothing).
class WordLevel final : public Model {
 public:
  WordLevel(const TokenTable& tokens, TokenId unknown) : tokens_(&tokens), unknown_(unknown) {}
  std::unique_ptr<Encoder> encoder(std::size_t text_size) const override;

 private:
  friend class WordLevelEncoder;
  const TokenTable* tokens_;
  TokenId unknown_;
};

}  // namespace lithe::tokenizer
