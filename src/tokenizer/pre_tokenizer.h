// Cutting text into pre-tokens ("words"), within which byte-pair encoding merges.
//
// One row per pre-tokenizer: its patterns, as Hugging Face writes them; and for the most common ones a
// hand-written splitter, which tests hold equal to the patterns. A new pre-tokenizer is one row.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "tokenizer/pattern.h"

namespace lithe::tokenizer {

/// Writes the ends of the words of [begin, end), valid UTF-8, one after the other, until `ends` is full or
/// the last one is `end`; returns how many. Progresses by at least one word.
using SplitFunction = std::size_t (*)(const char* begin, const char* end, std::span<const char*> ends);

struct PreTokenizerRow {
  std::array<std::string_view, 10> names;  // values of tokenizer.ggml.pre
  /// As PatternSplitter applies them.
  std::array<const char*, 6> patterns;
  SplitFunction split = nullptr;  // nullptr: the patterns are run
  bool ignore_merges = false;     // a word that is a token is that token
  bool add_bos = false;           // when the file does not say
  bool nfc = false;               // text is normalised first
};

std::span<const PreTokenizerRow> pre_tokenizer_rows();
const char* gpt2_pattern();
/// nullptr if no row has this name.
const PreTokenizerRow* find_pre_tokenizer(std::string_view name);
/// The row with exactly these patterns: the first with these flags, too, else the first; or nullptr.
const PreTokenizerRow* find_pre_tokenizer(std::span<const std::string> patterns, bool nfc,
                                          bool ignore_merges);
/// The known name that is most like it: for a message.
std::string_view nearest_pre_tokenizer(std::string_view name);

/// A row ready for use: its hand-written splitter or its patterns.
class PreTokenizer {
 public:
  static Result<PreTokenizer> create(const PreTokenizerRow& row);

  /// visit(word) for all words of `text` in order.
  template <typename Visit>
  Status split(std::string_view text, Visit visit) const {
    const char* p = text.data();
    if (row_->split == nullptr) {
      LITHE_ASSIGN_OR_RETURN(const std::vector<std::size_t> ends, patterns_[0].split(text));
      for (const std::size_t end : ends) visit(word_between(p, text.data() + end));
      return {};
    }
    const char* const end = p + text.size();
    std::array<const char*, 128> ends;
    while (p < end) {
      const std::size_t count = row_->split(p, end, ends);
      for (std::size_t i = 0; i < count; ++i) visit(word_between(p, ends[i]));
    }
    return {};
  }

 private:
  static std::string_view word_between(const char*& begin, const char* end) {
    const std::string_view word(begin, static_cast<std::size_t>(end - begin));
    begin = end;
    return word;
  }
  const PreTokenizerRow* row_ = nullptr;
  std::vector<PatternSplitter> patterns_;  // one or none
};

}  // namespace lithe::tokenizer
