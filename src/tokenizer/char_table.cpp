#include "tokenizer/char_table.h"

#include <algorithm>
#include <unordered_map>

#include "tokenizer/unicode.h"

namespace lithe::tokenizer {
namespace {

constexpr std::size_t kPoints = 0x10000;  // the basic plane: two- and three-byte characters

bool valid_ascii(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return static_cast<std::uint8_t>(c) < 0x80; });
}

bool is_continuation(char byte) {
  return (byte & 0xC0) == 0x80;
}

/// What the bytes of a token look like from its neighbours.
enum Shape : std::uint8_t {
  kBeginsAscii = 1,
  kEndsAscii = 2,
  kBeginsInside = 4,      // with a continuation byte
  kStartOfCharacter = 8,  // nothing but the first bytes of one character, which is not complete
  kEndOfCharacter = 16,   // nothing but continuation bytes
};

std::uint8_t shape_of(std::string_view bytes) {
  if (bytes.empty()) return 0;
  std::uint8_t shape = 0;
  if (static_cast<std::uint8_t>(bytes.front()) < 0x80) shape |= kBeginsAscii;
  if (static_cast<std::uint8_t>(bytes.back()) < 0x80) shape |= kEndsAscii;
  if (is_continuation(bytes.front())) shape |= kBeginsInside;
  if (bytes.size() > 3) return shape;
  const bool rest_inside = std::all_of(bytes.begin() + 1, bytes.end(), is_continuation);
  if (!rest_inside || (shape & kBeginsAscii)) return shape;
  if (shape & kBeginsInside) return shape | kEndOfCharacter;
  return bytes.size() < utf8_length(static_cast<std::uint8_t>(bytes.front())) ? shape | kStartOfCharacter
                                                                              : shape;
}

/// The worst (lowest) ranks at which a part of a character is joined to a neighbour outside it: [0] by one
/// that is not ASCII, [1] by one that is.
struct Threat {
  Rank rank[2] = {kNoRank, kNoRank};
  void add(bool ascii, Rank with) { rank[ascii] = std::min(rank[ascii], with); }
};

}  // namespace

class CharTable::Builder {
 public:
  Builder(const TokenTable& tokens, const MergeTable& merges, std::span<const TokenId, 256> byte_ids)
      : tokens_(tokens),
        merges_(merges),
        byte_ids_(byte_ids),
        needs_(kPoints, 0),
        holds_(tokens.size(), 0),
        shapes_(tokens.size(), 0) {}

  std::vector<std::uint32_t> build() {
    std::vector<std::uint32_t> entries(kPoints, kNever);
    if (!merges_are_of_bytes()) return entries;
    find_threats();
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      if (tokens_.type(id) == TokenType::normal) add_character(id, entries);
    }
    find_holders();
    forbid_early_use(entries);
    return entries;
  }

 private:
  /// Do all tokens that merge stand for the bytes they are written with? Added tokens and tokens outside the
  /// byte-level alphabet do not: no real vocabulary merges them, and the reasoning above would not hold.
  bool merges_are_of_bytes() const {
    const auto of_bytes = [this](TokenId id) {
      if (tokens_.type(id) != TokenType::normal) return false;
      const std::string_view bytes = tokens_.bytes(id);  // in the alphabet a byte beyond ASCII takes two
      return bytes.size() != tokens_.written(id).size() || valid_ascii(bytes);
    };
    for (Rank rank = 0; rank < merges_.size(); ++rank) {
      if (!of_bytes(merges_.left(rank)) || !of_bytes(merges_.right(rank)) || !of_bytes(merges_.joined(rank)))
        return false;
    }
    return true;
  }

  void find_threats() {
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      shapes_[i] = shape_of(tokens_.bytes(static_cast<TokenId>(i)));
    for (Rank rank = 0; rank < merges_.size(); ++rank) {
      const TokenId left = merges_.left(rank), right = merges_.right(rank);
      const std::uint8_t left_shape = shape(left), right_shape = shape(right);
      if (right_shape & kStartOfCharacter) starts_[right].add((left_shape & kEndsAscii) != 0, rank);
      if ((left_shape & kEndOfCharacter) && !(right_shape & kBeginsInside)) {
        ends_[left].add((right_shape & kBeginsAscii) != 0, rank);
      }
    }
  }

  /// If the token is one character of two or three bytes which its bytes alone merge to: an entry.
  void add_character(TokenId id, std::vector<std::uint32_t>& entries) {
    const std::string_view bytes = tokens_.bytes(id);
    if (bytes.size() < 2 || bytes.size() > 3) return;
    const Utf8Step step = utf8_step(bytes.data(), bytes.data() + bytes.size());
    if (!step.valid || step.length != bytes.size()) return;
    if (tokens_.find_bytes(bytes, hash_bytes(bytes)) != id) return;

    std::uint32_t entry = static_cast<std::uint32_t>(id);
    TokenId parts[3];
    std::size_t count = bytes.size();
    for (std::size_t i = 0; i < count; ++i) {
      parts[i] = byte_ids_[static_cast<std::uint8_t>(bytes[i])];
      if (parts[i] == kNoToken) return;
    }
    // Plain merging of these bytes alone. `until`: the highest rank among the merges up to the present one;
    // while a part waits for it, any threat of a lower rank strikes first.
    Rank until = 0;
    while (count > 1) {
      const Rank first = merges_.find(parts[0], parts[1]);
      const Rank second = count == 3 ? merges_.find(parts[1], parts[2]) : kNoRank;
      const Rank best = std::min(first, second);
      if (best == kNoRank) return;
      until = std::max(until, best);
      const TokenId joined = merges_.joined(best);
      const TokenId start = parts[0], end = parts[count - 1];
      const std::size_t at = second < first ? 1 : 0;
      if (at == 0 || count == 2) entry |= flags(starts_, start, until, kNotAfterOther, kNotAfterAscii);
      if (at == 1 || count == 2) entry |= flags(ends_, end, until, kNotBeforeOther, kNotBeforeAscii);
      parts[at] = joined;
      if (at == 0 && count == 3) parts[1] = parts[2];
      --count;
    }
    if (parts[0] != id) return;
    const std::uint32_t point = utf8_decode(bytes.data(), step.length);
    entries[point] = entry;
    needs_[point] = until + 1;
  }

  std::uint32_t flags(const std::unordered_map<TokenId, Threat>& threats, TokenId part, Rank until,
                      std::uint32_t other, std::uint32_t ascii) const {
    const auto found = threats.find(part);
    if (found == threats.end()) return 0;
    return (found->second.rank[0] <= until ? other : 0u) | (found->second.rank[1] <= until ? ascii : 0u);
  }

  /// For every token the highest of needs_ over the complete characters in it.
  void find_holders() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      for_each_character(static_cast<TokenId>(i),
                         [&](std::uint32_t point) { holds_[i] = std::max(holds_[i], needs_[point]); });
    }
  }

  void forbid_early_use(std::vector<std::uint32_t>& entries) {
    for (Rank rank = 0; rank < merges_.size(); ++rank) {
      for (const TokenId part : {merges_.left(rank), merges_.right(rank)}) {
        if (holds_[static_cast<std::size_t>(part)] <= rank) continue;
        for_each_character(part, [&](std::uint32_t point) {
          if (needs_[point] > rank) entries[point] = kNever;
        });
      }
    }
  }

  /// visit(code point) for the complete two- and three-byte characters in a token.
  template <typename Visit>
  void for_each_character(TokenId id, Visit visit) const {
    const std::string_view bytes = tokens_.bytes(id);
    const char* p = bytes.data();
    const char* const end = p + bytes.size();
    while (p < end) {
      if (static_cast<std::uint8_t>(*p) < 0x80) {
        ++p;
        continue;
      }
      const Utf8Step step = utf8_step(p, end);
      if (step.valid && step.length <= 3) visit(utf8_decode(p, step.length));
      p += step.length;
    }
  }

  std::uint8_t shape(TokenId id) const { return shapes_[static_cast<std::size_t>(id)]; }

  const TokenTable& tokens_;
  const MergeTable& merges_;
  std::span<const TokenId, 256> byte_ids_;
  std::unordered_map<TokenId, Threat> starts_, ends_;  // by the part of a character
  std::vector<Rank> needs_;  // by code point: 1 + the highest rank that builds it, or 0
  std::vector<Rank> holds_;  // by token
  std::vector<std::uint8_t> shapes_;
};

CharTable::CharTable(const TokenTable& tokens, const MergeTable& merges,
                     std::span<const TokenId, 256> byte_ids)
    : entries_(Builder(tokens, merges, byte_ids).build()) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool ascii = byte < 0x80, vanishes = byte_ids[byte] == kNoToken;
    before_[byte] = vanishes ? kAlways : ascii ? kNotAfterAscii : kNotAfterOther;
    after_[byte] = vanishes ? kAlways : ascii ? kNotBeforeAscii : kNotBeforeOther;
  }
  for (std::uint32_t& entry : entries_) entry |= kAlways;
  count_ = static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(),
                                                  [](std::uint32_t entry) { return (entry & kNever) == 0; }));
}

}  // namespace lithe::tokenizer
