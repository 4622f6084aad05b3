#include "template/chat_template.h"

#include <ctime>
#include <new>
#include <utility>

#include "template/interpreter.h"
#include "template/lexer.h"
#include "template/parser.h"
#include "template/unicode.h"

namespace lithe::chat {

struct ChatTemplate::Impl {
  TemplateLimits limits;
  Program program;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const TemplateLimits& limits) {
  if (source.size() > limits.source_bytes) {
    return exhausted("the chat template has {} bytes; at most {} are allowed", source.size(),
                     limits.source_bytes);
  }
  if (!is_utf8(source)) return corrupt("the chat template is not valid UTF-8");
  try {
    auto impl = std::make_unique<Impl>();
    impl->limits = limits;
    const std::string normal = normalize_newlines(source);
    impl->program = parse_template(normal, limits.depth);
    return ChatTemplate(std::move(impl));
  } catch (const Fault& fault) {
    return Status(fault.code, "chat template, " + fault.message);
  } catch (const std::bad_alloc&) {
    return exhausted("no memory for parsing the chat template");
  }
}

Result<Rendered> ChatTemplate::render(const Json& context, std::optional<std::int64_t> now) const {
  if (!context.is_object()) return invalid("the context of a chat template must be a JSON object");
  Interpreter interpreter(impl_->program, impl_->limits,
                          now ? static_cast<std::time_t>(*now) : std::time(nullptr));
  try {
    return interpreter.run(context);
  } catch (const Fault& fault) {
    if (fault.raised) return Status(fault.code, fault.message);
    return Status(fault.code, fmt::format("chat template, line {}: {}", interpreter.line(), fault.message));
  } catch (const std::bad_alloc&) {
    return exhausted("no memory for rendering the chat template");
  }
}

}  // namespace lithe::chat
