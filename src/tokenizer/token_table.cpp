#include "tokenizer/token_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/text.h"
#include "tokenizer/unicode.h"

namespace lithe::tokenizer {
namespace {

constexpr std::size_t kAlphabetEnd = 0x144;  // the first code point after the alphabet
// Of a decoder's replacements: the bytes that one puts in, and what a token may grow to.
constexpr std::size_t kLongestText = 256, kLeastRoom = 1 << 10, kMostGrowth = 64;

/// The alphabet of GPT-2: printable Latin-1 stands for itself, the 68 other bytes for U+0100 and on, in
/// order.
struct ByteAlphabet {
  std::array<std::int16_t, kAlphabetEnd> byte_of{};
  std::array<std::uint16_t, 256> point_of{};

  constexpr ByteAlphabet() {
    for (auto& byte : byte_of) byte = -1;
    std::uint16_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      const std::uint16_t point = itself ? static_cast<std::uint16_t>(byte) : next++;
      point_of[static_cast<std::size_t>(byte)] = point;
      byte_of[point] = static_cast<std::int16_t>(byte);
    }
  }
};
constexpr ByteAlphabet kAlphabet;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::size_t next = text.find(from), at = 0;
  if (from.empty() || next == std::string::npos) return;
  std::string out;
  for (; next != std::string::npos; next = text.find(from, at)) {
    out.append(text, at, next - at).append(to);
    at = next + from.size();
  }
  text = out.append(text, at);
}

/// The byte of "<0x0A>", or -1.
int byte_of_token(std::string_view written) {
  if (written.size() != 6 || !written.starts_with("<0x") || written[5] != '>') return -1;
  const int high = hex_digit(written[3]), low = hex_digit(written[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/// With blanks for U+2581.
void append_with_spaces(std::string_view written, std::string& out) {
  constexpr std::string_view kBlank = "\xE2\x96\x81";
  for (std::size_t at = 0; at < written.size();) {
    const std::size_t next = std::min(written.find(kBlank, at), written.size());
    out.append(written.substr(at, next - at));
    at = next;
    if (at == written.size()) break;
    out += ' ';
    at += kBlank.size();
  }
}

/// What BERT's decoder does to each token.
void tidy(std::string& piece) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(piece, from, to);
}

}  // namespace

bool decode_alphabet(std::string_view written, std::string& out) {
  const std::size_t before = out.size();
  out.resize(before + written.size());
  char* to = out.data() + before;
  const char* p = written.data();
  const char* const end = p + written.size();
  while (p < end) {
    std::uint32_t point = static_cast<std::uint8_t>(*p++);
    if (point >= 0x80) {
      if (point < 0xC2 || point > 0xC5 || p == end || (*p & 0xC0) != 0x80) break;
      point = (point & 31) << 6 | (static_cast<std::uint8_t>(*p++) & 63);
    }
    if (point >= kAlphabetEnd || kAlphabet.byte_of[point] < 0) {
      p = nullptr;
      break;
    }
    *to++ = static_cast<char>(kAlphabet.byte_of[point]);
  }
  out.resize(p == end ? static_cast<std::size_t>(to - out.data()) : before);
  return p == end;
}

std::string alphabet_character(std::uint8_t byte) {
  std::string out;
  utf8_append(kAlphabet.point_of[byte], out);
  return out;
}

bool TokenTable::append_bytes(std::string_view written, std::string& out) const {
  if (alphabet_ == Alphabet::byte_level) return decode_alphabet(written, out);
  if (alphabet_ == Alphabet::plain) {
    out.append(written);
    return true;
  }
  if (alphabet_ == Alphabet::word_piece) {
    const bool continues = written.starts_with("##");
    if (!continues) out += ' ';
    out.append(written.substr(continues ? 2 : 0));
    return true;
  }
  if (written.find(' ') != std::string_view::npos) return false;  // could never be told from a written blank
  append_with_spaces(written, out);
  return true;
}

TokenId TokenTable::byte_token(std::uint8_t byte) const {
  constexpr char kDigits[] = "0123456789ABCDEF";
  const TokenId id = find_other("<0x" + std::string{kDigits[byte >> 4], kDigits[byte & 15]} + ">");
  return id != kNoToken && type(id) == TokenType::byte ? id : kNoToken;
}

Result<TokenTable> TokenTable::create(const VocabSpec& spec, Alphabet alphabet) {
  const std::size_t count = spec.tokens.size();
  if (count == 0) return corrupt("the vocabulary has no tokens");
  if (count > kMaxTokens)
    return unsupported("a vocabulary of {} tokens: at most {} are supported", count, kMaxTokens);
  if (!spec.types.empty() && spec.types.size() != count) {
    return corrupt("{} tokens but {} token types", count, spec.types.size());
  }
  std::size_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (spec.tokens[i].size() > kMaxTokenBytes) {
      return corrupt("token {} has {} bytes, more than {}", i, spec.tokens[i].size(), kMaxTokenBytes);
    }
    total += spec.tokens[i].size();  // below 2^36: cannot overflow
  }
  if (total > std::numeric_limits<std::uint32_t>::max())
    return unsupported("a vocabulary of {} bytes", total);

  TokenTable table;
  table.alphabet_ = alphabet;
  table.types_ = spec.types;
  if (table.types_.empty()) table.types_.assign(count, TokenType::normal);
  table.written_.reserve(total);
  table.written_end_.reserve(count);
  for (const std::string_view token : spec.tokens) {
    table.written_.append(token);
    table.written_end_.push_back(static_cast<std::uint32_t>(table.written_.size()));
  }
  std::vector<std::uint64_t> hashes;
  LITHE_RETURN_IF_ERROR(table.add_bytes(hashes));
  LITHE_RETURN_IF_ERROR(table.index(hashes));
  return table;
}

/// Fills bytes_ and others_, and a hash for each token that find_bytes() shall know.
Status TokenTable::add_bytes(std::vector<std::uint64_t>& hashes) {
  bytes_.reserve(written_.size());
  bytes_end_.reserve(size());
  hashes.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view token = written(id);
    const std::size_t begin = bytes_.size();
    std::uint64_t hash = kNoHash;
    if (types_[i] == TokenType::byte) {
      const int byte = byte_of_token(token);
      if (byte < 0) return corrupt("token {} ({}) is a byte token but not <0xHH>", i, in_quotes(token));
      bytes_.push_back(static_cast<char>(byte));
    } else if (types_[i] == TokenType::normal && append_bytes(token, bytes_)) {
      const std::string_view bytes = std::string_view(bytes_).substr(begin);
      longest_ = std::max(longest_, bytes.size());
      if (!bytes.empty()) hash = hash_bytes(bytes);
    } else if (alphabet_ == Alphabet::spaced && types_[i] == TokenType::user_defined) {
      append_with_spaces(token, bytes_);
    } else {
      bytes_.append(token);
    }
    if (hash == kNoHash && !token.empty()) others_[std::string(token)] = id;
    bytes_end_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    hashes.push_back(hash);
  }
  return {};
}

Status TokenTable::index(const std::vector<std::uint64_t>& hashes) {
  slots_.assign(std::bit_ceil(2 * size() + 1), Slot{0, kNoToken});
  mask_ = slots_.size() - 1;
  constexpr std::size_t kAhead = 16;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (i + kAhead < hashes.size()) prefetch(hashes[i + kAhead]);
    const std::uint64_t hash = hashes[i];
    if (hash == kNoHash) continue;
    const auto id = static_cast<TokenId>(i);
    std::size_t at = hash & mask_, probes = 0;
    while (slots_[at].id != kNoToken &&
           !(slots_[at].tag == tag_of(hash) && bytes(slots_[at].id) == bytes(id))) {
      if (++probes > kMaxProbes)
        return corrupt("token {} ({}) collides with too many others", i, in_quotes(written(id)));
      at = (at + 1) & mask_;
    }
    slots_[at] = {tag_of(hash), id};
  }
  return {};
}

Status TokenTable::set_decoding(const Decoding& decoding) {
  const bool changes =
      decoding.tidy || decoding.spaces_between || decoding.added_apart || !decoding.replace.empty();
  if (!changes) return {};
  for (const auto& [from, to] : decoding.replace) {
    if (to.size() > kLongestText)
      return unsupported("a decoder that puts in {} bytes: at most {} are supported", to.size(),
                         kLongestText);
  }
  std::string piece;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::string_view own = bytes(static_cast<TokenId>(i));
    piece.assign(own);
    const bool added = types_[i] != TokenType::normal && types_[i] != TokenType::byte;
    if (decoding.spaces_between || (added && decoding.added_apart)) piece.insert(0, 1, ' ');
    for (const auto& [from, to] : decoding.replace) {
      replace_all(piece, from, to);
      if (piece.size() > kLeastRoom + kMostGrowth * own.size())
        return unsupported("token {} of {} bytes grows to {} when it is decoded", i, own.size(),
                           piece.size());
    }
    if (decoding.tidy) tidy(piece);
    pieces_ += piece;
    if (pieces_.size() > std::numeric_limits<std::uint32_t>::max())
      return unsupported("a vocabulary of {} bytes as it is decoded", pieces_.size());
    pieces_end_.push_back(static_cast<std::uint32_t>(pieces_.size()));
  }
  return {};
}

TokenId TokenTable::find_written(std::string_view written) const {
  if (written.empty()) return kNoToken;
  if (const TokenId id = find_other(written); id != kNoToken) return id;
  std::string bytes;
  if (!append_bytes(written, bytes)) return kNoToken;
  return find_bytes(bytes, hash_bytes(bytes));
}

}  // namespace lithe::tokenizer
