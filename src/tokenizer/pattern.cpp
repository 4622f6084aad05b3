// Both engines behind one door; PCRE2 with limits.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "base/text.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

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
// Of our own engine, for the same purpose: a step is a character or a decision.
constexpr std::uint64_t kSteps = 1'000'000, kStepsPerByte = 2000;
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

struct Pattern::Pcre2 {
  Code code;
};

Pattern::Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Result<Pattern> Pattern::compile(std::string_view pattern, Engine engine) {
  Pattern out;
  if (engine == Engine::best) {
    auto regex = Regex::compile(pattern);
    if (regex.ok()) {
      out.regex_.push_back(std::move(regex).value());
      return out;
    }
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR8>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                          nullptr));
  if (!code) return unsupported("pattern {}: at {}: {}", in_quotes(pattern), offset, message_of(error));
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without it the interpreter runs
  out.pcre2_ = std::make_unique<Pcre2>(Pcre2{std::move(code)});
  return out;
}

Status Pattern::pcre2_matches(std::string_view text,
                              FunctionRef<void(std::size_t, std::size_t)> visit) const {
  Matcher matcher;
  if (!matcher.ok()) return exhausted("no memory to split a text");
  for (std::size_t at = 0; at < text.size();) {
    const int found = matcher.match(pcre2_->code.get(), text, at);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) return exhausted("splitting a text into words: {}", message_of(found));
    const PCRE2_SIZE* match = matcher.bounds();
    visit(match[0], match[1]);
    at = match[1];
  }
  return {};
}

Status Pattern::matches(std::string_view text, FunctionRef<void(std::size_t, std::size_t)> visit) const {
  if (pcre2_) return pcre2_matches(text, visit);
  RegexScratch scratch;
  scratch.steps_left = kSteps + kStepsPerByte * text.size();
  const char *const begin = text.data(), *const end = begin + text.size();
  for (const char* at = begin; at <= end;) {
    Regex::Match match;
    const Regex::Found found = regex_[0].search(begin, at, end, scratch, match);
    if (found == Regex::Found::no) break;
    if (found == Regex::Found::exhausted) return exhausted("splitting a text into words: too many steps");
    visit(static_cast<std::size_t>(match.begin - begin), static_cast<std::size_t>(match.end - begin));
    at = match.end;
    if (match.end > match.begin) continue;
    at += at < end ? utf8_length(static_cast<std::uint8_t>(*at)) : 1;
  }
  return {};
}

Result<PatternSplitter> PatternSplitter::create(std::span<const char* const> patterns,
                                                Pattern::Engine engine) {
  PatternSplitter splitter;
  for (const char* pattern : patterns) {
    if (pattern == nullptr) break;
    LITHE_ASSIGN_OR_RETURN(Pattern compiled, Pattern::compile(pattern, engine));
    splitter.patterns_.push_back(std::move(compiled));
  }
  return splitter;
}

Result<std::vector<std::size_t>> PatternSplitter::split(std::string_view text) const {
  std::vector<std::size_t> ends, pieces;
  if (text.empty()) return ends;
  ends.push_back(text.size());
  for (const Pattern& pattern : patterns_) {
    std::swap(pieces, ends);
    ends.clear();
    std::size_t begin = 0;
    for (const std::size_t end : pieces) {
      const auto cut = [&](std::size_t at) {  // words are not empty
        if (at > begin && (ends.empty() || at > ends.back())) ends.push_back(at);
      };
      LITHE_RETURN_IF_ERROR(
          pattern.matches(text.substr(begin, end - begin), [&](std::size_t from, std::size_t to) {
            cut(begin + from);
            cut(begin + to);
          }));
      cut(end);
      begin = end;
    }
  }
  return ends;
}

}  // namespace lithe::tokenizer
