// Which neighbouring characters some token holds side by side.
//
// Models that merge over a whole text (SentencePiece's, and Hugging Face's without a pre-tokenizer) can be
// run on parts of it with the same result wherever no token holds the two characters at a cut: nothing ever
// spans it. Such parts are short, and most have been seen before. A hash may say "joined" wrongly, which only
// leaves a part longer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/hash.h"
#include "tokenizer/token_table.h"
#include "tokenizer/unicode.h"

namespace lithe::tokenizer {

class JoinTable {
 public:
  JoinTable() = default;
  explicit JoinTable(const TokenTable& tokens);

  /// The end of the part that begins at `p`, before `end`.
  const char* part_end(const char* p, const char* end) const {
    std::uint32_t length = utf8_length(static_cast<std::uint8_t>(*p)), point = utf8_decode(p, length);
    for (p += length; p < end; p += length) {
      length = utf8_length(static_cast<std::uint8_t>(*p));
      const std::uint32_t next = utf8_decode(p, length);
      if (!joined(point, next)) break;
      point = next;
    }
    return p;
  }

 private:
  bool joined(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t bit = bit_of(left, right);
    return (bits_[bit >> 6] >> (bit & 63) & 1) != 0;
  }
  std::uint64_t bit_of(std::uint32_t left, std::uint32_t right) const {
    if ((left | right) < 128) return left << 7 | right;
    return (1 << 14) + ((std::uint64_t{left} << 21 | right) * kMix0 >> shift_);
  }
  std::vector<std::uint64_t> bits_;  // [2^14 for pairs of ASCII, then 2^(64 - shift)]
  int shift_ = 0;
};

}  // namespace lithe::tokenizer
