// The regular expressions that pre-tokenizers are written in, on our own Unicode tables.
//
// Debian's PCRE2 follows an older Unicode than the reference, so characters assigned since would be cut
// differently; and these patterns are of one kind (alternatives of character classes with repetition), which
// a small machine runs faster. What it does not know goes to PCRE2 (pattern_splitter.cpp), and tests hold the
// two equal.
//
// Syntax: alternatives, groups, (?: ), (?i: ), (?= ), (?! ), classes with ranges, nested classes and &&,
// \s \S \d \D \w \W \p{..} \P{..}, escapes, ? * + {n,m} and their possessive forms, ^ $ \b. Semantics are
// Oniguruma's, which the reference uses: $ and ^ are a line's, \s is White_Space.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lithe::tokenizer {

/// The working memory of matching, for one thread.
struct RegexScratch {
  struct Choice {
    std::uint32_t pc;
    const char* low;  // a span may give back characters down to here; nullptr: a plain alternative
    const char* at;
  };
  std::vector<Choice> choices;
  std::uint64_t steps_left = 0;
};

/// Immutable: for all threads.
class Regex {
 public:
  /// unsupported: a construct this engine does not know, named.
  static Result<Regex> compile(std::string_view pattern);

  struct Match {
    const char *begin = nullptr, *end = nullptr;
  };
  enum class Found { yes, no, exhausted };
  /// The first match that starts at `from` or later in [begin, end), valid UTF-8. It may be empty.
  Found search(const char* begin, const char* from, const char* end, RegexScratch& scratch,
               Match& match) const;

 private:
  friend class RegexCompiler;
  enum class Op : std::uint8_t {
    set,
    span,
    either,
    jump,
    look,
    look_not,
    word_edge,
    line_begin,
    line_end,
    accept
  };
  struct Instruction {
    Op op;
    bool possessive = false;
    std::uint8_t set = 0;
    std::uint32_t a = 0, b = 0;  // span: the least and the most; either, jump, look: where to
  };
  struct Entry {              // one alternative of the whole pattern
    std::uint32_t pc, first;  // first: the sets that its first character may be in
    bool maybe_empty;
  };
  class Run;

  std::uint32_t sets_of(std::uint32_t point) const {
    return masks_[std::size_t{blocks_[point >> 7]} << 7 | (point & 127)];
  }

  std::vector<Instruction> code_;
  std::vector<Entry> entries_;
  std::uint32_t any_first_ = 0, word_set_ = 0;
  bool any_empty_ = false;
  std::vector<std::uint16_t> blocks_;  // [0x110000 / 128]
  std::vector<std::uint32_t> masks_;   // by block and code point: the sets that hold it, as bits
};

}  // namespace lithe::tokenizer
