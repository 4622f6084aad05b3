// The steps of a Pipeline that cut a normalised text into words, ready for use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/pattern.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/pre_tokenizer.h"

namespace lithe::tokenizer {

/// Immutable, for all threads.
class Splitter {
 public:
  static Result<Splitter> create(const Pipeline& pipeline);

  /// visit(word, readable_end) for all words in order (see Encoder::encode()). `first`: the text begins the input.
  template <typename Visit>
  Status split(std::string_view text, bool first, Visit visit) const {
    const char* const end = text.data() + text.size();
    if (steps_.empty() && !pre_.empty())
      return pre_[0].split(text, [&](std::string_view word) { visit(word, end); });
    if (steps_.empty()) {
      visit(text, end);
      return {};
    }
    Pieces pieces;
    LITHE_RETURN_IF_ERROR(run(text, first, pieces));
    const char* const stop = pieces.text.data() + pieces.text.size();
    for (const Piece& piece : pieces.list)
      visit(pieces.text.substr(piece.begin, piece.end - piece.begin), stop);
    return {};
  }

 private:
  struct Piece {
    std::size_t begin, end;
  };
  struct Pieces {
    std::string_view text;
    std::string owned;  // `text`, once a prefix has been put in
    std::vector<Piece> list;
  };
  struct Step {
    SplitStep what;
    std::vector<Pattern> pattern;
  };
  Status run(std::string_view text, bool first, Pieces& pieces) const;
  static Status cut(const Step& step, Pieces& pieces);
  void respace(const SplitStep& step, Pieces& pieces) const;
  static void put_prefix(const SplitStep& step, bool first, Pieces& pieces);

  std::vector<PreTokenizer> pre_;  // one or none
  std::vector<Step> steps_;
  bool spaced_ = false;
};

}  // namespace lithe::tokenizer
