// Characters that byte-pair encoding may start from whole, instead of byte by byte, with the same result.
//
// Chinese comes as long words (no blanks), three bytes a character; most merges only rebuild characters.
// Starting from whole characters leaves a third of the symbols. It is exact for a character C if
//   1. nothing takes a part of C away before C is complete: every merge that joins a neighbour to a part of
//      C which arises while C is built has a higher rank (is worse) than those C still needs then; and
//   2. nothing built from a complete C would have been done before C is complete: every merge with a part
//      that holds a complete C has a higher rank than all merges that build C.
// Then byte-pair encoding, which takes the lowest rank first, completes C undisturbed before any merge that
// touches it, and the order of the remaining merges is the same. Both are read off the list of merges once,
// when it is loaded; what a neighbour may do depends on whether it is ASCII, so each character has four
// flags. Characters that fail start as bytes. Tests compare with plain merging on random vocabularies whose
// merges obey no order at all.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/merge_table.h"
#include "tokenizer/token_table.h"

namespace lithe::tokenizer {

class CharTable {
 public:
  CharTable() = default;
  CharTable(const TokenTable& tokens, const MergeTable& merges, std::span<const TokenId, 256> byte_ids);

  /// The token to start from for the character of `length` (2 or more) bytes at word[at], or kNoToken: use
  /// its bytes.
  TokenId find(std::string_view word, std::size_t at, std::uint32_t length) const {
    if (length > 3) return kNoToken;
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(word[i]); };
    const std::uint32_t point =
        length == 2 ? (byte(at) & 31u) << 6 | (byte(at + 1) & 63u)
                    : (byte(at) & 15u) << 12 | (byte(at + 1) & 63u) << 6 | (byte(at + 2) & 63u);
    const std::uint32_t entry = entries_[point];
    const std::uint32_t before = at == 0 ? 0u : before_[byte(at - 1)];
    const std::uint32_t after = at + length == word.size() ? 0u : after_[byte(at + length)];
    return (entry & (before | after | kNever)) != 0 ? kNoToken : static_cast<TokenId>(entry & kIdMask);
  }

  std::size_t size() const { return count_; }  // characters that can start whole somewhere

 private:
  // An entry: the id in 20 bits, then where the character may not start whole.
  static constexpr std::uint32_t kIdMask = (1u << 20) - 1, kNotAfterAscii = 1u << 20,
                                 kNotAfterOther = 1u << 21, kNotBeforeAscii = 1u << 22,
                                 kNotBeforeOther = 1u << 23, kNever = 1u << 24, kAlways = 1u << 25;
  class Builder;
  std::vector<std::uint32_t> entries_;  // [0x10000] by code point
  /// By the neighbouring byte: the flag that forbids. A neighbour without a token vanishes, and even a byte of
  /// the middle of a character may stand next to this one then: the flag that every entry has.
  std::array<std::uint32_t, 256> before_{}, after_{};
  std::size_t count_ = 0;
};

}  // namespace lithe::tokenizer
