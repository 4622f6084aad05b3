// The tokens of a vocabulary: their written forms, their bytes, and the way back from bytes to an id.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/hash.h"
#include "tokenizer/tokenizer.h"

namespace lithe::tokenizer {

inline constexpr TokenId kNoToken = -1;
/// Ids fit in 20 bits, so that a pair and its rank fit in one word of the merge table.
inline constexpr std::size_t kMaxTokens = (std::size_t{1} << 20) - 1;
inline constexpr std::size_t kMaxTokenBytes = 65535;
/// Longer probes than this in a table that is at most half full: the keys were made to collide.
inline constexpr std::size_t kMaxProbes = 1024;

/// GPT-2's byte-level alphabet: every byte is written as one printable character.
/// Appends the bytes that `written` stands for; false (and `out` as it was) if a character is not of the
/// alphabet.
bool decode_alphabet(std::string_view written, std::string& out);
/// The character of a byte, in UTF-8.
std::string alphabet_character(std::uint8_t byte);

class TokenTable {
 public:
  /// Copies. Tolerated as llama.cpp does: empty tokens (never produced, decode to nothing) and duplicates
  /// (the last one is found). Corrupt: huge tokens, malformed byte tokens, as many types as not tokens.
  static Result<TokenTable> create(const VocabSpec& spec, Alphabet alphabet = Alphabet::byte_level);

  std::size_t size() const { return types_.size(); }
  TokenType type(TokenId id) const { return types_[static_cast<std::size_t>(id)]; }
  bool contains(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < types_.size(); }
  std::string_view written(TokenId id) const { return view(written_, written_end_, id); }
  std::string_view bytes(TokenId id) const { return view(bytes_, bytes_end_, id); }
  /// What a token says in a text; its bytes but for decoding rules of its own.
  std::string_view piece(TokenId id) const {
    return pieces_end_.empty() ? bytes(id) : view(pieces_, pieces_end_, id);
  }
  /// unsupported: replacements that blow tokens up (a crafted file's).
  Status set_decoding(const Decoding& decoding);
  Alphabet alphabet() const { return alphabet_; }
  /// Appends the bytes that a written token stands for; false (and `out` as it was) if it is not of the alphabet.
  bool append_bytes(std::string_view written, std::string& out) const;
  /// The token <0xHH> of a byte, or kNoToken.
  TokenId byte_token(std::uint8_t byte) const;
  std::size_t longest() const { return longest_; }  // of the tokens that find_bytes() knows

  /// The normal token with these bytes; control and other added tokens are never found here, so that text
  /// cannot become one by accident.
  TokenId find_bytes(std::string_view bytes, std::uint64_t hash) const {
    for (std::size_t i = hash & mask_;; i = (i + 1) & mask_) {
      const Slot slot = slots_[i];
      if (slot.id == kNoToken) return kNoToken;
      if (slot.tag == tag_of(hash) && this->bytes(slot.id) == bytes) return slot.id;
    }
  }
  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }

  /// Any token by its written form.
  TokenId find_written(std::string_view written) const;
  TokenId find_other(std::string_view written) const {
    const auto found = others_.find(written);
    return found == others_.end() ? kNoToken : found->second;
  }

 private:
  struct Slot {
    std::uint32_t tag;
    TokenId id;
  };
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
  static std::string_view view(const std::string& arena, const std::vector<std::uint32_t>& ends, TokenId id) {
    const auto i = static_cast<std::size_t>(id);
    const std::uint32_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(arena).substr(begin, ends[i] - begin);
  }
  Status add_bytes(std::vector<std::uint64_t>& hashes);
  Status index(const std::vector<std::uint64_t>& hashes);

  Alphabet alphabet_ = Alphabet::byte_level;
  std::string written_, bytes_, pieces_;  // one after the other; no pieces: they are the bytes
  std::vector<std::uint32_t> written_end_, bytes_end_, pieces_end_;
  std::vector<TokenType> types_;
  std::vector<Slot> slots_;  // open addressing, linear probing
  std::size_t mask_ = 0, longest_ = 0;
  /// Added tokens, byte tokens and tokens outside the alphabet, by written form.
  std::map<std::string, TokenId, std::less<>> others_;
};

}  // namespace lithe::tokenizer
