// Byte-pair encoding of one pre-token ("word"), from bytes up: GPT-2's kind.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/char_table.h"
#include "tokenizer/encoder.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/token_table.h"

namespace lithe::tokenizer {

/// Immutable (but for notes that are the same whoever writes them): shared by all threads.
class Bpe final : public Model {
 public:
  /// `tokens` must outlive the result. `ignore_merges`: a word that is a token is that token, whatever the
  /// merges say.
  static Result<std::unique_ptr<Bpe>> create(const TokenTable& tokens,
                                             std::span<const std::string_view> merges, bool ignore_merges);
  std::unique_ptr<Encoder> encoder(std::size_t text_size) const override;

  const MergeTable& merges() const { return merges_; }
  TokenId byte_id(std::uint8_t byte) const { return byte_ids_[byte]; }  // kNoToken if the vocabulary lacks it

 private:
  friend class WordEncoder;
  explicit Bpe(const TokenTable& tokens) : tokens_(&tokens) {}

  /// Made when the first text beyond ASCII asks for it, by whichever thread that is: a third of the start-up.
  struct Chars {
    std::once_flag once;
    CharTable table;
  };
  const CharTable& chars() const;

  const TokenTable* tokens_;
  MergeTable merges_;
  mutable Chars chars_;
  bool ignore_merges_ = false;
  std::array<TokenId, 256> byte_ids_{};
  std::vector<Rank> byte_pairs_;  // [256 * 256]: the rank of two bytes; the first lookups of every word
  /// By id: does the encoding of the token's own bytes give the token? 0: not known yet. Found out when first
  /// asked, since asking for all takes longer than loading the rest.
  std::unique_ptr<std::atomic<std::uint8_t>[]> reachable_;
};

class WordEncoder final : public Encoder {
 public:
  WordEncoder(const Bpe& bpe, std::size_t text_size) : bpe_(&bpe), cache_(text_size) {}

  void encode(std::string_view word, const char* readable_end, std::vector<TokenId>& out) override;

  /// The same without the cache and without shortcuts: plain byte-pair encoding. The reference for tests.
  void encode_plainly(std::string_view word, std::vector<TokenId>& out);

 private:
  static constexpr std::size_t kShort = 40;  // symbols: up to here scanning arrays beats a heap
  struct Symbol {
    TokenId id;
    std::int32_t previous, next;  // -1: none
    Rank rank;                    // of the pair with the next one
  };

  void encode_word(std::string_view word, std::uint64_t hash, std::vector<TokenId>& out);
  void merge(std::string_view word, bool whole_characters, std::vector<TokenId>& out);
  std::size_t split_symbols(std::string_view word, bool whole_characters);
  void merge_short(std::size_t count, std::vector<TokenId>& out);
  void merge_long(std::size_t count, std::vector<TokenId>& out);

  const Bpe* bpe_;
  const CharTable* chars_ = nullptr;  // once there was a character beyond ASCII
  WordCache cache_;
  std::vector<TokenId> ids_;
  std::vector<Rank> ranks_;
  std::vector<Symbol> symbols_;
  std::vector<std::uint64_t> heap_;
};

}  // namespace lithe::tokenizer
