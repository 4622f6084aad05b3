// SentencePiece's unigram model: the segmentation whose scores sum highest (Viterbi).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "tokenizer/char_model.h"
#include "tokenizer/encoder.h"
#include "tokenizer/trie.h"

namespace lithe::tokenizer {

class Unigram final : public Model {
 public:
  /// `tokens` must outlive the result. corrupt: as ScoredBpe::create().
  static Result<std::unique_ptr<Unigram>> create(const TokenTable& tokens, std::span<const double> scores,
                                                 const Fallback& fallback);
  std::unique_ptr<Encoder> encoder(std::size_t text_size) const override;

 private:
  friend class UnigramEncoder;
  Unigram(const TokenTable& tokens, const Fallback& fallback)
      : trie_(tokens), joins_(tokens), fallback_(fallback) {}
  Trie trie_;
  JoinTable joins_;
  Fallback fallback_;
  std::vector<double> scores_;
  /// Sums do not depend on where they begin, so that words may be cut: scores of single precision leave a double room.
  bool cuts_ = true;
  double unknown_score_ = 0;
};

}  // namespace lithe::tokenizer
