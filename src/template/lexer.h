// Template source to tokens, with trim_blocks and lstrip_blocks on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "template/fault.h"

namespace lithe::chat {

enum class TokenKind : std::uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  op,
  end
};

struct Token {
  TokenKind kind;
  std::string_view
      text;  // of the source: strings with their quotes; data without the white space that control removes
  std::size_t at;  // offset in the source
  int line;        // from 1
};

struct Position {
  int line, column;  // from 1; the column counts bytes
};
Position position_of(std::string_view source, std::size_t at);

/// Fault (corrupt): line L, column C: message.
[[noreturn]] void syntax_error(std::string_view source, std::size_t at, std::string_view message);

/// Line ends become \n, and one at the end is dropped.
std::string normalize_newlines(std::string_view source);

/// `source` has been normalized; the tokens borrow it. The last one is `end`.
std::vector<Token> tokenize(std::string_view source);

/// The value of a string token: without quotes, escapes resolved as Python does.
std::string unescape(std::string_view source, const Token& token);

}  // namespace lithe::chat
