// Models whose symbols are characters: SentencePiece's byte-pair encoding by scores, and Hugging Face's by
// merges when it has no byte-level alphabet. Both take a text as a whole; it is cut where no token reaches
// across (JoinTable), and parts seen before come from a cache.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/encoder.h"
#include "tokenizer/join_table.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/token_table.h"

namespace lithe::tokenizer {

/// What becomes of characters that are no token.
struct Fallback {
  std::array<TokenId, 256> bytes;  // <0xHH>; kNoToken where there is none
  bool use_bytes = false;
  TokenId unknown = kNoToken;  // kNoToken: they vanish
  bool fuse = true;            // a run of them is one unknown token

  static Fallback create(const TokenTable& tokens, bool use_bytes, std::optional<TokenId> unknown, bool fuse);
  /// The byte tokens of a character, or nothing unless all are there.
  bool append_bytes(std::string_view character, std::vector<TokenId>& out) const;
};

/// Merges the pair whose joined text is the token with the best score; of equal scores the leftmost.
class ScoredBpe final : public Model {
 public:
  /// `tokens` must outlive the result. corrupt: as many scores as not tokens, or one that is no number.
  static Result<std::unique_ptr<ScoredBpe>> create(const TokenTable& tokens, std::span<const double> scores,
                                                   const Fallback& fallback);
  std::unique_ptr<Encoder> encoder(std::size_t text_size) const override;

 private:
  friend class ScoredEncoder;
  ScoredBpe(const TokenTable& tokens, const Fallback& fallback)
      : tokens_(&tokens), joins_(tokens), fallback_(fallback) {}
  const TokenTable* tokens_;
  JoinTable joins_;
  Fallback fallback_;
  std::vector<Rank> order_;  // by id: the place of its score
};

/// Merges listed pairs of tokens, the first of the list first.
class CharBpe final : public Model {
 public:
  static Result<std::unique_ptr<CharBpe>> create(const TokenTable& tokens,
                                                 std::span<const std::string_view> merges, bool ignore_merges,
                                                 const Fallback& fallback);
  std::unique_ptr<Encoder> encoder(std::size_t text_size) const override;

 private:
  friend class ListedEncoder;
  CharBpe(const TokenTable& tokens, const Fallback& fallback)
      : tokens_(&tokens), joins_(tokens), fallback_(fallback) {}
  const TokenTable* tokens_;
  JoinTable joins_;
  Fallback fallback_;
  MergeTable merges_;
  bool ignore_merges_ = false;
};

}  // namespace lithe::tokenizer
