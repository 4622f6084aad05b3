// Unicode as the pre-tokenizers need it: the general category of every code point, and UTF-8.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lithe::tokenizer {

/// Unicode's general categories, two letters each as in the standard.
// clang-format off
enum class Category : std::uint8_t {
  Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe, Pi, Pf, Po,
  Sm, Sc, Sk, So, Zs, Zl, Zp, Cc, Cf, Cs, Co, Cn
};
// clang-format on

/// What a pre-tokenizer's pattern asks about a character, as bits.
enum Kind : std::uint8_t {
  kLetter = 1,        // \p{L}
  kNumber = 2,        // \p{N}
  kMark = 4,          // \p{M}
  kSpace = 8,         // \s: White_Space
  kNewline = 16,      // [\r\n], which are kSpace too
  kPunctuation = 32,  // \p{P}
  kSymbol = 64,       // \p{S}
  kNfcUnsafe = 128,   // may change under NFC: text without any is in NFC
};

/// Two-stage tables, 128 code points a block; equal blocks are shared, so that Chinese text touches one line.
/// Unicode 16, as Hugging Face tokenizers 0.23 (tools/make_unicode_data.py).
class UnicodeTable {
 public:
  /// Built once, about a millisecond; immutable from then on.
  static const UnicodeTable& get();

  Category category(std::uint32_t code_point) const {
    return static_cast<Category>(categories_[index(code_point)]);
  }
  std::uint8_t kind(std::uint32_t code_point) const { return kinds_[index(code_point)]; }
  std::uint8_t ascii_kind(std::uint8_t byte) const { return kinds_[byte]; }  // byte < 0x80: block 0

 private:
  UnicodeTable();
  std::size_t index(std::uint32_t code_point) const {
    return (std::size_t{block_[code_point >> 7]} << 7) | (code_point & 127);
  }
  std::array<std::uint16_t, (0x110000 >> 7)> block_;
  std::vector<std::uint8_t> categories_, kinds_;
};

/// The length of the UTF-8 sequence a lead byte announces (valid text only).
inline std::uint32_t utf8_length(std::uint8_t lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/// The code point at `p`, which starts a valid sequence of `length` bytes.
inline std::uint32_t utf8_decode(const char* p, std::uint32_t length) {
  const auto at = [p](int i) { return static_cast<std::uint32_t>(static_cast<std::uint8_t>(p[i])); };
  switch (length) {
    case 1:
      return at(0);
    case 2:
      return (at(0) & 31) << 6 | (at(1) & 63);
    case 3:
      return (at(0) & 15) << 12 | (at(1) & 63) << 6 | (at(2) & 63);
    default:
      return (at(0) & 7) << 18 | (at(1) & 63) << 12 | (at(2) & 63) << 6 | (at(3) & 63);
  }
}

/// Appends the UTF-8 of a code point.
void utf8_append(std::uint32_t code_point, std::string& out);

/// What begins at `p` (p < end): `length` bytes of a valid sequence; or, with `valid` false, the bytes that
/// count as one error (the longest start of a sequence, as Unicode recommends and Python and WHATWG do), and
/// `incomplete` when more bytes could still have completed it.
struct Utf8Step {
  std::uint32_t length;
  bool valid, incomplete;
};
Utf8Step utf8_step(const char* p, const char* end);

/// How many bytes from the start are valid UTF-8.
std::size_t valid_utf8_prefix(std::string_view text);

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace lithe::tokenizer
