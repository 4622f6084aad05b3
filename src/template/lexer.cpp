#include "template/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "template/unicode.h"

namespace lithe::chat {

Position position_of(std::string_view source, std::size_t at) {
  at = std::min(at, source.size());
  const std::string_view before = source.substr(0, at);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(at - line_start) + 1};
}

void syntax_error(std::string_view source, std::size_t at, std::string_view message) {
  const Position position = position_of(source, at);
  fail(Code::corrupt, "line {}, column {}: {}", position.line, position.column, message);
}

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

namespace {

bool is_digit_char(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80) != 0;
}
bool is_name_char(char c) {
  return is_name_start(c) || is_digit_char(c);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_data();
    add(TokenKind::end, source_.size(), 0);
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool starts_with(std::string_view what, std::size_t at) const {
    return source_.substr(at).starts_with(what);
  }
  void add(TokenKind kind, std::size_t at, std::size_t size) {
    for (; counted_ < at; ++counted_) line_ += source_[counted_] == '\n' ? 1 : 0;
    tokens_.push_back({kind, source_.substr(at, size), at, line_});
  }
  void skip_space() { at_ += leading_space(source_.substr(at_)); }

  std::size_t find_tag(std::size_t from) const {
    for (std::size_t i = source_.find('{', from); i != std::string_view::npos; i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#'))
        return i;
    }
    return std::string_view::npos;
  }

  /// Text up to a tag at `tag`, less what the tag's sign or lstrip_blocks takes from its end.
  void add_data(std::size_t begin, std::size_t tag, char sign, bool variable) {
    std::string_view text = source_.substr(begin, tag - begin);
    if (sign == '-') {
      text.remove_suffix(trailing_space(text));
    } else if (sign != '+' && !variable) {
      const std::size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
      const bool starts_line = line > 0 || begin == 0 || source_[begin - 1] == '\n';
      if (starts_line && line < text.size() && leading_space(text.substr(line)) == text.size() - line) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) add(TokenKind::data, begin, text.size());
  }

  static char sign_of(char c) { return c == '-' || c == '+' ? c : '\0'; }

  /// After the end marker of a block or comment: `-` takes all white space, nothing takes one line end.
  void after_block_end(char sign) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && peek() == '\n') {
      ++at_;
    }
  }

  void lex_data() {
    const std::size_t tag = find_tag(at_);
    if (tag == std::string_view::npos) {
      add(TokenKind::data, at_, source_.size() - at_);
      at_ = source_.size();
      return;
    }
    const char type = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? sign_of(source_[tag + 2]) : '\0';
    add_data(at_, tag, sign, type == '{');
    at_ = tag;
    if (type == '#') {
      lex_comment(tag);
    } else if (type == '{') {
      lex_tag(tag, sign, TokenKind::variable_begin);
    } else if (!lex_raw(tag, sign)) {
      lex_tag(tag, sign, TokenKind::block_begin);
    }
  }

  void lex_comment(std::size_t tag) {
    // A sign right after the opening belongs to it, so `{#-#}` is closed by the plain marker.
    const std::size_t body =
        tag + 2 + (tag + 2 < source_.size() && sign_of(source_[tag + 2]) != '\0' ? 1 : 0);
    const std::size_t close = source_.find("#}", body);
    if (close == std::string_view::npos) syntax_error(source_, tag, "Missing end of comment tag");
    const char sign = close > body ? sign_of(source_[close - 1]) : '\0';
    at_ = close + 2;
    after_block_end(sign);
  }

  /// `{% raw %}` ... `{% endraw %}`: true if there is one here.
  bool lex_raw(std::size_t tag, char sign) {
    std::size_t i = tag + 2 + (sign != '\0' ? 1 : 0);
    i += leading_space(source_.substr(i));
    if (!starts_with("raw", i)) return false;
    i += 3;
    i += leading_space(source_.substr(i));
    const bool strip = starts_with("-%}", i);
    if (!strip && !starts_with("%}", i)) return false;
    at_ = i + (strip ? 3 : 2);
    if (strip) skip_space();
    const std::size_t begin = at_;
    for (std::size_t open = source_.find("{%", begin); open != std::string_view::npos;
         open = source_.find("{%", open + 1)) {
      std::size_t end = open + 2;
      const char open_sign = end < source_.size() ? sign_of(source_[end]) : '\0';
      if (open_sign != '\0') ++end;
      end += leading_space(source_.substr(end));
      if (!starts_with("endraw", end)) continue;
      end += 6;
      end += leading_space(source_.substr(end));
      const char close_sign = end < source_.size() ? sign_of(source_[end]) : '\0';
      if (close_sign != '\0') ++end;
      if (!starts_with("%}", end)) continue;
      add_data(begin, open, open_sign, false);
      at_ = end + 2;
      after_block_end(close_sign);
      return true;
    }
    syntax_error(source_, tag, "Missing end of raw directive");
  }

  void lex_tag(std::size_t tag, char sign, TokenKind kind) {
    const bool variable = kind == TokenKind::variable_begin;
    add(kind, tag, 2);
    at_ = tag + 2 + (sign != '\0' ? 1 : 0);
    brackets_.clear();
    while (true) {
      if (brackets_.empty() && lex_tag_end(variable)) return;
      skip_space();
      if (at_ >= source_.size()) return;  // the parser reports the unexpected end
      if (brackets_.empty() && lex_tag_end(variable)) return;
      lex_token();
    }
  }

  bool lex_tag_end(bool variable) {
    const std::string_view marker = variable ? "}}" : "%}";
    const char sign = sign_of(peek());
    if (variable && sign == '+') return false;
    const std::size_t skip = sign != '\0' ? 1 : 0;
    if (!starts_with(marker, at_ + skip)) return false;
    add(variable ? TokenKind::variable_end : TokenKind::block_end, at_, skip + 2);
    at_ += skip + 2;
    if (!variable) {
      after_block_end(sign);
    } else if (sign == '-') {
      skip_space();
    }
    return true;
  }

  void lex_token() {
    const char c = peek();
    if (is_digit_char(c)) {
      lex_number();
    } else if (is_name_start(c)) {
      lex_name();
    } else if (c == '"' || c == '\'') {
      lex_string();
    } else {
      lex_operator();
    }
  }

  /// Digits with single underscores between them, from `i`.
  template <typename IsDigit>
  std::size_t digits(std::size_t i, IsDigit&& is_digit_of_base) const {
    while (i < source_.size()) {
      if (is_digit_of_base(source_[i])) {
        ++i;
      } else if (source_[i] == '_' && i + 1 < source_.size() && is_digit_of_base(source_[i + 1])) {
        i += 2;
      } else {
        break;
      }
    }
    return i;
  }

  void lex_number() {
    const std::size_t begin = at_;
    const bool after_dot = begin > 0 && source_[begin - 1] == '.';
    const std::size_t whole = digits(begin, is_digit_char);
    std::size_t end = whole;
    if (!after_dot) {  // x.0.1 is two subscripts
      if (end + 1 < source_.size() && source_[end] == '.' && is_digit_char(source_[end + 1])) {
        end = digits(end + 1, is_digit_char);
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        std::size_t exponent = end + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
        if (exponent < source_.size() && is_digit_char(source_[exponent]))
          end = digits(exponent, is_digit_char);
      }
    }
    if (end > whole) {
      add(TokenKind::real, begin, end - begin);
    } else {
      end = lex_integer(begin, whole);
      add(TokenKind::integer, begin, end - begin);
    }
    at_ = end;
  }

  std::size_t lex_integer(std::size_t begin, std::size_t whole) const {
    if (source_[begin] != '0') return whole;
    const char base = begin + 1 < source_.size() ? static_cast<char>(source_[begin + 1] | 0x20) : '\0';
    const auto prefixed = [&](auto&& is_digit_of_base) {
      const std::size_t end = digits(begin + 2, is_digit_of_base);
      return end > begin + 2 ? end : begin + 1;
    };
    if (base == 'x')
      return prefixed([](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
    if (base == 'o') return prefixed([](char c) { return c >= '0' && c <= '7'; });
    if (base == 'b') return prefixed([](char c) { return c == '0' || c == '1'; });
    return digits(begin, [](char c) { return c == '0'; });  // 007 is 00 and 7
  }

  void lex_name() {
    const std::size_t begin = at_;
    while (at_ < source_.size() && is_name_char(source_[at_])) {
      const Decoded next = decode(source_, at_);
      if (next.code >= 0x80 && !is_word(next.code)) break;
      at_ += next.size;
    }
    if (at_ == begin) unexpected_char();
    add(TokenKind::name, begin, at_ - begin);
  }

  void lex_string() {
    const std::size_t begin = at_;
    const char quote = source_[at_++];
    while (at_ < source_.size() && source_[at_] != quote) at_ += source_[at_] == '\\' ? 2 : 1;
    if (at_ >= source_.size()) {
      at_ = begin;
      unexpected_char();
    }
    ++at_;
    add(TokenKind::string, begin, at_ - begin);
  }

  void lex_operator() {
    static constexpr std::array<std::string_view, 6> kPairs = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kSingles = "+-/*%~[](){}><=.:|,;";
    std::size_t size = 0;
    for (const std::string_view pair : kPairs) {
      if (starts_with(pair, at_)) size = 2;
    }
    if (size == 0 && kSingles.find(peek()) != std::string_view::npos) size = 1;
    if (size == 0) unexpected_char();
    if (size == 1) balance(peek());
    add(TokenKind::op, at_, size);
    at_ += size;
  }

  void balance(char c) {
    if (c == '{' || c == '(' || c == '[') {
      brackets_ += c == '{' ? '}' : c == '(' ? ')' : ']';
    } else if (c == '}' || c == ')' || c == ']') {
      if (brackets_.empty()) syntax_error(source_, at_, fmt::format("unexpected '{}'", c));
      if (brackets_.back() != c) {
        syntax_error(source_, at_, fmt::format("unexpected '{}', expected '{}'", c, brackets_.back()));
      }
      brackets_.pop_back();
    }
  }

  [[noreturn]] void unexpected_char() const {
    const std::size_t size = decode(source_, at_).size;
    syntax_error(source_, at_, fmt::format("unexpected char '{}'", source_.substr(at_, size)));
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::size_t counted_ = 0;  // line_ is the line of this offset
  std::string brackets_;     // the closing ones that are expected
  std::vector<Token> tokens_;
};

/// Reads `count` hex digits, or fails.
char32_t hex_escape(std::string_view source, const Token& token, std::string_view body, std::size_t at,
                    std::size_t count) {
  char32_t code = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const char c = at + i < body.size() ? body[at + i] : '\0';
    if (!std::isxdigit(static_cast<unsigned char>(c)))
      syntax_error(source, token.at, "truncated escape in a string");
    code = code * 16 + static_cast<char32_t>(is_digit_char(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  if (code > 0x10FFFF) syntax_error(source, token.at, "illegal Unicode character");
  if (code >= 0xD800 && code <= 0xDFFF) syntax_error(source, token.at, "a lone surrogate in a string");
  return code;
}

char simple_escape(char c) {
  switch (c) {
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      return '\0';
  }
}

/// Python decodes the escapes after it has written what is not ASCII as escapes: so \é is a backslash and
/// "xe9".
std::string backslashed(char32_t code) {
  if (code < 0x100) return fmt::format("\\x{:02x}", static_cast<unsigned>(code));
  return code < 0x10000 ? fmt::format("\\u{:04x}", static_cast<unsigned>(code))
                        : fmt::format("\\U{:08x}", static_cast<unsigned>(code));
}

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

std::string unescape(std::string_view source, const Token& token) {
  const std::string_view body = token.text.substr(1, token.text.size() - 2);
  std::string out;
  out.reserve(body.size());
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      out += body[i];
      continue;
    }
    const char c = body[++i];
    if (const char simple = simple_escape(c); simple != '\0') {
      out += simple;
    } else if (c >= '0' && c <= '7') {
      char32_t code = 0;
      std::size_t n = 0;
      for (; n < 3 && i + n < body.size() && body[i + n] >= '0' && body[i + n] <= '7'; ++n) {
        code = code * 8 + static_cast<char32_t>(body[i + n] - '0');
      }
      encode(code, out);
      i += n - 1;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      encode(hex_escape(source, token, body, i + 1, count), out);
      i += count;
    } else if (c == 'N') {
      syntax_error(source, token.at, "\\N{...} in a string is not supported");
    } else if ((c & 0x80) != 0) {
      const Decoded next = decode(body, i);
      out += backslashed(next.code);
      i += next.size - 1;
    } else if (c != '\n') {  // an escaped line end vanishes
      out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace lithe::chat
