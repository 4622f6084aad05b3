// Byte-pair encoding of one pre-token ("word").
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
#include "tokenizer/merge_table.h"
#include "tokenizer/token_table.h"

namespace lithe::tokenizer {

/// Immutable (but for notes that are the same whoever writes them): shared by all threads.
class Bpe {
 public:
  /// `tokens` must outlive the result. `ignore_merges`: a word that is a token is that token, whatever the
  /// merges say.
  static Result<Bpe> create(const TokenTable& tokens, std::span<const std::string_view> merges,
                            bool ignore_merges);

  const MergeTable& merges() const { return merges_; }
  TokenId byte_id(std::uint8_t byte) const { return byte_ids_[byte]; }  // kNoToken if the vocabulary lacks it

 private:
  friend class WordEncoder;
  explicit Bpe(const TokenTable& tokens) : tokens_(&tokens), chars_(std::make_unique<Chars>()) {}

  /// Made when the first text beyond ASCII asks for it, by whichever thread that is: a third of the start-up.
  struct Chars {
    std::once_flag once;
    CharTable table;
  };
  const CharTable& chars() const;

  const TokenTable* tokens_;
  MergeTable merges_;
  std::unique_ptr<Chars> chars_;
  bool ignore_merges_ = false;
  std::array<TokenId, 256> byte_ids_{};
  std::vector<Rank> byte_pairs_;  // [256 * 256]: the rank of two bytes; the first lookups of every word
  /// By id: does the encoding of the token's own bytes give the token? 0: not known yet. Found out when first
  /// asked, since asking for all takes longer than loading the rest.
  std::unique_ptr<std::atomic<std::uint8_t>[]> reachable_;
};

/// The working memory of one encode() call: scratch space and a cache of the words it has seen.
class WordEncoder {
 public:
  /// `text_size`: of the whole text, from which the size of the cache follows.
  WordEncoder(const Bpe& bpe, std::size_t text_size);

  /// Appends the ids of one word. `readable_end`: the bytes of [word.end(), readable_end) may be read (a word
  /// lies in a text, and two loads of 8 bytes are faster than 16 of one).
  void encode(std::string_view word, const char* readable_end, std::vector<TokenId>& out);

  /// The same without the cache and without shortcuts: plain byte-pair encoding. The reference for tests.
  void encode_plainly(std::string_view word, std::vector<TokenId>& out);

 private:
  static constexpr std::size_t kShort = 40;  // symbols: up to here scanning arrays beats a heap
  static constexpr int kCachedIds = 3;
  struct Cached {               // half a cache line
    std::uint64_t low, high;    // the word's bytes, zero-padded
    std::uint16_t size, count;  // count 0: free
    TokenId ids[kCachedIds];
  };
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
  std::vector<Cached> cache_;
  std::size_t cache_mask_ = 0;
  std::vector<TokenId> ids_;
  std::vector<Rank> ranks_;
  std::vector<Symbol> symbols_;
  std::vector<std::uint64_t> heap_;
};

}  // namespace lithe::tokenizer
