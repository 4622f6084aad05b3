// Any vocabulary and any text: one byte of options, then tokens, merges and a text, with a NUL byte between; tokens and
// merges are lines. A token that begins with ! is a control token, + an added one, # a byte token. Nothing may crash or
// hang; ids are in range and the same twice; what a user wrote gives no control token; streams are valid UTF-8.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "tokenizer/token_table.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace {

using namespace lithe::tokenizer;

void require(bool condition) {
  if (!condition) std::abort();
}

std::string_view take_until(std::string_view& bytes, char end) {
  const std::size_t at = bytes.find(end);
  const std::string_view part = bytes.substr(0, at);
  bytes.remove_prefix(at == std::string_view::npos ? bytes.size() : at + 1);
  return part;
}

TokenType type_of(std::string_view& token) {
  const char mark = token.empty() ? '\0' : token[0];
  const TokenType type = mark == '!'   ? TokenType::control
                         : mark == '+' ? TokenType::user_defined
                         : mark == '#' ? TokenType::byte
                                       : TokenType::normal;
  if (type != TokenType::normal) token.remove_prefix(1);
  return type;
}

void check_stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  StreamDecoder stream(tokenizer, true);
  std::string text;
  for (const TokenId id : ids) {
    const std::string chunk = stream.push(id);
    require(valid_utf8_prefix(chunk) == chunk.size());
    text += chunk;
  }
  text += stream.flush();
  const auto whole = tokenizer.decode(ids);
  require(whole.ok());
  if (valid_utf8_prefix(*whole) == whole->size()) require(text == *whole);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static constexpr std::array<const char*, 4> kFamilies = {"gpt-2", "smollm", "llama-bpe", "qwen2"};
  const std::uint8_t options = data[0];
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string_view tokens = take_until(bytes, '\0'), merges = take_until(bytes, '\0');
  const std::string_view text = bytes;

  VocabSpec spec;
  spec.model = "gpt2";
  spec.pre = kFamilies[options & 3];
  std::array<std::string, 256> alphabet;
  if ((options & 4) == 0) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      alphabet[byte] = alphabet_character(static_cast<std::uint8_t>(byte));
      spec.tokens.push_back(alphabet[byte]);
      spec.types.push_back(TokenType::normal);
    }
  }
  while (!tokens.empty()) {
    std::string_view token = take_until(tokens, '\n');
    spec.types.push_back(type_of(token));
    spec.tokens.push_back(token);
  }
  while (!merges.empty()) spec.merges.push_back(take_until(merges, '\n'));
  if (options & 8) spec.bos = spec.eos = static_cast<TokenId>(spec.tokens.size()) - 1;
  if (options & 16) spec.add_bos = spec.add_eos = true;
  if ((options & 32) && !spec.tokens.empty()) {
    spec.rules[static_cast<TokenId>(spec.tokens.size()) - 1] = {.lstrip = true,
                                                                .rstrip = (options & 64) != 0};
  }

  const auto tokenizer = Tokenizer::create(spec);
  if (!tokenizer.ok()) {
    require(valid_utf8_prefix(tokenizer.status().message()) == tokenizer.status().message().size());
    return 0;
  }
  const auto ids = tokenizer->encode(text);
  require(ids.ok());
  for (const TokenId id : *ids) require(id >= 0 && id < tokenizer->size());
  require(tokenizer->encode(text).value() == *ids);
  check_stream(*tokenizer, *ids);

  const ByteRange all{0, text.size()};
  const auto plain = tokenizer->encode(text, {.add_special = false, .untrusted = {&all, 1}});
  require(plain.ok());
  for (const TokenId id : *plain) require(tokenizer->type(id) != TokenType::control || !spec.merges.empty());
  return 0;
}
