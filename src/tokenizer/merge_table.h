// The merges of a byte-pair encoding: (left id, right id) -> rank, and rank -> the joined id.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/hash.h"
#include "tokenizer/token_table.h"

namespace lithe::tokenizer {

using Rank = std::uint32_t;
inline constexpr Rank kNoRank = 0xFFFFFFFF;

class MergeTable {
 public:
  /// merges: "left right", best first. Corrupt, with the merge's number: not two parts, or a part or the
  /// whole that is not in the vocabulary. Of equal merges the first counts.
  static Result<MergeTable> create(std::span<const std::string_view> merges, const TokenTable& tokens);

  std::size_t size() const { return joined_.size(); }
  /// kNoRank if the two do not merge. Both must be ids of the vocabulary.
  Rank find(TokenId left, TokenId right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t i = slot_of(key);; i = (i + 1) & mask_) {
      const std::uint64_t slot = slots_[i];
      if (slot >> kRankBits == key) return static_cast<Rank>(slot & kRankMask);
      if (slot == kEmpty) return kNoRank;
    }
  }
  TokenId joined(Rank rank) const { return joined_[rank]; }
  TokenId left(Rank rank) const { return pairs_[rank].left; }
  TokenId right(Rank rank) const { return pairs_[rank].right; }

 private:
  // A slot: 20 bits left id, 20 bits right id, 24 bits rank. The id 2^20 - 1 does not exist, so all ones is
  // free.
  static constexpr int kRankBits = 24, kIdBits = 20;
  static constexpr std::uint64_t kRankMask = (std::uint64_t{1} << kRankBits) - 1, kEmpty = ~std::uint64_t{0};
  struct Pair {
    TokenId left, right;
  };
  static std::uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(left) << kIdBits | static_cast<std::uint64_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const { return (key * kMix0) >> shift_; }
  Status resolve(std::span<const std::string_view> merges, const TokenTable& tokens);
  Status index(const TokenTable& tokens);

  std::vector<std::uint64_t> slots_;
  std::vector<TokenId> joined_;
  std::vector<Pair> pairs_;
  std::size_t mask_ = 0;
  int shift_ = 63;
};

}  // namespace lithe::tokenizer
