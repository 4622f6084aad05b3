// Chat templates: a Jinja subset, interpreted with budgets. The template comes from a model file and is
// untrusted: no host objects, an allow-list of filters and tests, limits on steps, depth and output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace lithe::chat {

using Json = nlohmann::ordered_json;  // key order matters: `tojson` keeps it

struct TemplateLimits {
  std::size_t source_bytes = 1 << 20;
  std::size_t output_bytes = 64 << 20;
  std::uint64_t steps = 20'000'000;  // evaluated nodes; 16 bytes copied or 64 bytes scanned count as one.
                                     // A conversation adds four for each of its bytes.
  int depth = 200;                   // nesting of expressions, blocks and values; five evaluator levels each
};

/// Rendered text, and which bytes of it came from the conversation (messages, tools, documents) rather than
/// from the template's own text: the tokenizer reads control tokens only in the template's own text.
/// Ascending, disjoint.
struct Rendered {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> untrusted;  // [begin, end)
};

/// Immutable after parse(): safe from several threads.
class ChatTemplate {
 public:
  /// corrupt: with line and column. unsupported: names the construct.
  static Result<ChatTemplate> parse(std::string_view source, const TemplateLimits& limits = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// Renders with Hugging Face's settings (trim_blocks, lstrip_blocks, loop controls, its tojson,
  /// raise_exception, strftime_now). `context` is an object: messages, tools, bos_token, add_generation_prompt, ...
  /// invalid_argument: raise_exception's own message, or "chat template, line L: ..." where the template and the
  /// conversation do not fit. unsupported: a filter or test that Lithe lacks was reached. resource_exhausted: a
  /// budget ran out. Values of top-level names ending in "_token" are trusted, all others are not.
  /// `now`: seconds since the epoch, for strftime_now in local time; the clock's if not given.
  Result<Rendered> render(const Json& context, std::optional<std::int64_t> now = std::nullopt) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lithe::chat
