// A pattern that finds words in a text: our own engine (regex.h), or PCRE2 for what that does not know.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "tokenizer/regex.h"

namespace lithe::tokenizer {

/// Immutable, for all threads.
class Pattern {
 public:
  enum class Engine { best, pcre2 };
  /// unsupported: neither engine takes it; names why and where.
  static Result<Pattern> compile(std::string_view pattern, Engine engine = Engine::best);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  /// visit(begin, end) for the matches in `text` (valid UTF-8) from left to right, as offsets; our engine's
  /// may be empty. resource_exhausted when matching takes far longer than the text's length explains.
  Status matches(std::string_view text, FunctionRef<void(std::size_t, std::size_t)> visit) const;

  bool is_pcre2() const { return pcre2_ != nullptr; }

 private:
  struct Pcre2;
  Pattern();
  Status pcre2_matches(std::string_view text, FunctionRef<void(std::size_t, std::size_t)> visit) const;
  std::vector<Regex> regex_;  // one or none
  std::unique_ptr<Pcre2> pcre2_;
};

/// Patterns applied in turn, each to the pieces the one before left: what matches becomes a piece, and so
/// does what lies between. Look-around sees the piece only.
class PatternSplitter {
 public:
  static Result<PatternSplitter> create(std::span<const char* const> patterns,
                                        Pattern::Engine engine = Pattern::Engine::best);
  /// The ends of the words of `text`, valid UTF-8, as offsets.
  Result<std::vector<std::size_t>> split(std::string_view text) const;

  const std::vector<Pattern>& patterns() const { return patterns_; }

 private:
  std::vector<Pattern> patterns_;
};

}  // namespace lithe::tokenizer
