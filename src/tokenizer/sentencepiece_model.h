// SentencePiece's tokenizer.model: a protocol buffer, read by a small bounded parser.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace lithe::tokenizer {

struct SentencePieceModel {
  struct Piece {
    std::string_view text;
    float score;
    TokenType type;
  };
  enum class Kind : std::uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };
  std::vector<Piece> pieces;
  Kind kind = Kind::unigram;
  bool byte_fallback = false;
  std::optional<TokenId> unk, bos, eos, pad;  // nothing: the model has none
  std::string_view charsmap;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true;
};

/// Pure; views point into `bytes`. corrupt: names the field at fault. unsupported: a kind other than unigram and BPE.
Result<SentencePieceModel> parse_sentencepiece_model(std::string_view bytes);

}  // namespace lithe::tokenizer
