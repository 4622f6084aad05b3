#include "tokenizer/join_table.h"

#include <algorithm>
#include <bit>

namespace lithe::tokenizer {

JoinTable::JoinTable(const TokenTable& tokens) {
  const std::size_t hashed = std::clamp<std::size_t>(std::bit_ceil(tokens.size() * 8), 1 << 12, 1 << 21);
  shift_ = 64 - std::countr_zero(hashed);
  bits_.assign(((1 << 14) + hashed) / 64, 0);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    // Merges may pass through tokens that are looked for before.
    if (tokens.type(id) != TokenType::normal && tokens.type(id) != TokenType::user_defined) continue;
    const std::string_view bytes = tokens.bytes(id);
    if (valid_utf8_prefix(bytes) != bytes.size()) continue;  // never found in a text, which is valid
    std::uint32_t previous = 0;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::uint32_t length = utf8_length(static_cast<std::uint8_t>(bytes[at]));
      const std::uint32_t point = utf8_decode(bytes.data() + at, length);
      if (at > 0) {
        const std::uint64_t bit = bit_of(previous, point);
        bits_[bit >> 6] |= std::uint64_t{1} << (bit & 63);
      }
      previous = point;
      at += length;
    }
  }
}

}  // namespace lithe::tokenizer
