// The generic engine: PCRE2, with limits.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "base/check.h"
#include "tokenizer/pre_tokenizer.h"

namespace lithe::tokenizer {
namespace {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>>;

// A pre-tokenizer's pattern runs over a text a constant number of times for each place it starts from; these
// limits stop only patterns that are not of that kind.
constexpr std::uint32_t kMatchLimit = 50'000'000, kDepthLimit = 100'000;
constexpr std::size_t kJitStackStart = 32 << 10, kJitStackMost = 8 << 20;

std::string message_of(int code) {
  PCRE2_UCHAR8 text[200];
  const int length = pcre2_get_error_message(code, text, sizeof text);
  return length < 0 ? "unknown error"
                    : std::string(reinterpret_cast<const char*>(text), static_cast<std::size_t>(length));
}

/// What matching needs besides the pattern, for one call of split().
class Matcher {
 public:
  Matcher() : context_(pcre2_match_context_create(nullptr)), data_(pcre2_match_data_create(1, nullptr)) {
    if (!context_) return;
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_set_depth_limit(context_.get(), kDepthLimit);
  }
  bool ok() const { return context_ && data_; }

  /// As pcre2_match. JIT code first runs on 32 KiB of the thread's own stack, which is enough but for odd
  /// patterns.
  int match(const pcre2_code* code, std::string_view text, std::size_t from) {
    int found = match_once(code, text, from);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && !stack_) {
      stack_.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMost, nullptr));
      if (!stack_) return PCRE2_ERROR_NOMEMORY;
      pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
      found = match_once(code, text, from);
    }
    return found;
  }
  const PCRE2_SIZE* bounds() const { return pcre2_get_ovector_pointer(data_.get()); }

 private:
  int match_once(const pcre2_code* code, std::string_view text, std::size_t from) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data_.get(), context_.get());
  }
  JitStack stack_;  // outlives the context that points to it
  MatchContext context_;
  MatchData data_;
};

}  // namespace

struct PatternSplitter::Patterns {
  std::vector<Code> codes;
};

PatternSplitter::PatternSplitter(std::unique_ptr<Patterns> patterns) : patterns_(std::move(patterns)) {}
PatternSplitter::PatternSplitter(PatternSplitter&&) noexcept = default;
PatternSplitter& PatternSplitter::operator=(PatternSplitter&&) noexcept = default;
PatternSplitter::~PatternSplitter() = default;

Result<PatternSplitter> PatternSplitter::create(const PreTokenizerRow& row) {
  auto patterns = std::make_unique<Patterns>();
  for (const char* pattern : row.patterns) {
    if (pattern == nullptr) break;
    int error = 0;
    PCRE2_SIZE offset = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR8>(pattern), PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
    if (!code) {
      return internal("pre-tokenizer {}: pattern does not compile at {}: {}", row.names[0], offset,
                      message_of(error));
    }
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without it the interpreter runs
    patterns->codes.push_back(std::move(code));
  }
  return PatternSplitter(std::move(patterns));
}

Result<std::vector<std::size_t>> PatternSplitter::split(std::string_view text) const {
  std::vector<std::size_t> ends;
  if (text.empty()) return ends;
  Matcher matcher;
  if (!matcher.ok()) return exhausted("no memory to split a text");
  ends.push_back(text.size());
  std::vector<std::size_t> pieces;
  for (const Code& code : patterns_->codes) {
    std::swap(pieces, ends);
    ends.clear();
    std::size_t begin = 0;
    for (const std::size_t end : pieces) {
      const std::string_view piece = text.substr(begin, end - begin);
      std::size_t cut = 0;  // up to where words have been made
      while (cut < piece.size()) {
        const int found = matcher.match(code.get(), piece, cut);
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0) return exhausted("splitting a text into words: {}", message_of(found));
        const PCRE2_SIZE* match = matcher.bounds();
        if (match[0] > cut) ends.push_back(begin + match[0]);
        ends.push_back(begin + match[1]);
        cut = match[1];
      }
      if (cut < piece.size()) ends.push_back(end);
      begin = end;
    }
  }
  return ends;
}

}  // namespace lithe::tokenizer
