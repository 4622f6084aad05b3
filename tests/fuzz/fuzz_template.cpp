// Any bytes as a chat template, with any conversation: source, a NUL byte, JSON. Nothing may crash, hang or read past
// its end; the marks of what rendered are in order; rendering again gives the same bytes.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "template/chat_template.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_marks(const lithe::chat::Rendered& rendered) {
  std::size_t at = 0;
  for (const auto& [begin, end] : rendered.untrusted) {
    require(begin >= at && begin < end && end <= rendered.text.size());
    at = end;
  }
}

const lithe::chat::Json& default_context() {
  static const auto context = lithe::chat::Json::parse(R"({
    "messages": [{"role": "system", "content": "é"}, {"role": "user", "content": [{"type": "text", "text": "a"}]},
                 {"role": "assistant", "content": null, "tool_calls": [{"id": "abcdefghi", "type": "function",
                  "function": {"name": "f", "arguments": {"b": 1.5, "a": [true, "> & '"]}}}]}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object",
               "properties": {"x": {"type": "string"}}}}}],
    "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true, "n": 7, "s": "ab c", "z": null})");
  return context;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lithe::chat;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t border = bytes.find('\0');
  TemplateLimits limits;
  limits.steps = 100'000;
  limits.output_bytes = 1 << 20;
  const auto parsed = ChatTemplate::parse(bytes.substr(0, border), limits);
  if (!parsed.ok()) return 0;
  Json context;
  if (border != std::string_view::npos && bytes.size() < (1 << 16)) {
    context = Json::parse(bytes.substr(border + 1), nullptr, false);
  }
  if (!context.is_object()) context = default_context();
  const auto rendered = parsed->render(context, 1783242487);
  if (!rendered.ok()) {
    require(!rendered.status().message().empty() ||
            rendered.status().code() == lithe::Code::invalid_argument);
    return 0;
  }
  check_marks(*rendered);
  const auto again = parsed->render(context, 1783242487);
  require(again.ok() && again->text == rendered->text && again->untrusted == rendered->untrusted);
  return 0;
}
