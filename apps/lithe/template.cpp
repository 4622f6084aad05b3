// lithe template: a conversation as the model reads it, byte for byte.
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "command.h"
#include "console.h"
#include "formats/hf_directory.h"
#include "input.h"
#include "models/gguf_vocab.h"
#include "template/chat_template.h"
#include "values.h"
#include "vocabulary.h"

namespace lithe::app {
namespace {

using chat::ChatTemplate;
using chat::Json;

struct TemplateFlags {
  std::string model, name, messages, tools, variables;
  std::optional<std::string> bos_token, eos_token;
  std::optional<std::int64_t> now;
  bool no_generation_prompt = false, json = false;
};

/// What a model file or a template file says.
struct Source {
  std::string text;
  std::optional<std::string> bos_token, eos_token;
};

Result<std::optional<std::string>> special_token(const formats::Metadata& metadata, const char* key) {
  LITHE_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> id, metadata.optional_uint(key));
  const auto* tokens = metadata.string_array("tokenizer.ggml.tokens");
  if (!id || tokens == nullptr) return std::optional<std::string>();
  if (*id >= tokens->size()) return corrupt("{} is {}, but there are {} tokens", key, *id, tokens->size());
  return std::optional(std::string((*tokens)[*id]));
}

/// A file or a directory with a vocabulary, or a template alone.
struct Opened {
  std::optional<VocabularySource> vocabulary;
  std::string text;
};

Result<Opened> open_source(const std::string& path) {
  constexpr std::string_view kGgufMagic = "GGUF";
  Opened opened;
  if (!formats::is_hf_directory(path)) {
    LITHE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
    const auto bytes = file.bytes();
    const bool is_gguf = bytes.size() >= kGgufMagic.size() &&
                         std::memcmp(bytes.data(), kGgufMagic.data(), kGgufMagic.size()) == 0;
    if (!is_gguf) {
      LITHE_ASSIGN_OR_RETURN(opened.text, read_file(path));
      return opened;
    }
  }
  LITHE_ASSIGN_OR_RETURN(VocabularySource vocabulary, VocabularySource::open(path));
  opened.vocabulary = std::move(vocabulary);
  return opened;
}

/// `tools`: the conversation has some.
Result<Source> read_source(const Opened& opened, const std::string& path, const std::string& name,
                           bool tools) {
  if (!opened.vocabulary) return Source{opened.text, {}, {}};
  const formats::Metadata& metadata = opened.vocabulary->metadata();
  auto found = models::chat_template(metadata, name, tools);
  if (!found.ok()) return std::move(found).status().with_context(path);
  if (!*found) {
    const std::string others = models::named_templates(metadata);
    return not_found("{} has no chat template{}{}", path, others.empty() ? "" : " without a name; it has ",
                     others);
  }
  Source source{std::string(**found), {}, {}};
  LITHE_ASSIGN_OR_RETURN(source.bos_token, special_token(metadata, "tokenizer.ggml.bos_token_id"));
  LITHE_ASSIGN_OR_RETURN(source.eos_token, special_token(metadata, "tokenizer.ggml.eos_token_id"));
  return source;
}

/// Copies and conversions of a value recurse: a hostile nesting would exhaust the stack.
constexpr int kMostJsonDepth = 256;

Result<Json> parse_json(const std::string& text, const char* flag, const std::string& name) {
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMostJsonDepth;
    return !too_deep;
  };
  Json json = Json::parse(text, watch, false);
  if (too_deep) return invalid("{}: {} nests deeper than {} levels", flag, name, kMostJsonDepth);
  if (json.is_discarded()) return invalid("{}: {} is not valid JSON", flag, name);
  return json;
}

Result<Json> read_json(const std::string& path, const char* flag) {
  auto read = read_input(path);
  if (!read.ok()) return std::move(read).status().with_context(flag);
  const std::string text = std::move(read).value();
  return parse_json(text, flag, path);
}

/// What the user gave of the template's variables. A file of messages may also be a whole request: an object with
/// `messages`, `tools` and whatever else the template reads.
Result<Json> read_request(const TemplateFlags& flags) {
  Json context = Json::object();
  LITHE_ASSIGN_OR_RETURN(Json messages, read_json(flags.messages, "--messages"));
  if (messages.is_object() && messages.contains("messages")) {
    context = std::move(messages);
  } else {
    context["messages"] = std::move(messages);
  }
  if (!context["messages"].is_array()) return invalid("--messages: expected a list of messages");
  if (!flags.tools.empty()) {
    LITHE_ASSIGN_OR_RETURN(context["tools"], read_json(flags.tools, "--tools"));
  }
  if (!flags.variables.empty()) {
    LITHE_ASSIGN_OR_RETURN(const Json variables,
                           parse_json(flags.variables, "--chat-template-kwargs", "the value"));
    if (!variables.is_object()) return invalid("--chat-template-kwargs: expected a JSON object");
    context.update(variables);
  }
  if (flags.no_generation_prompt || !context.contains("add_generation_prompt")) {
    context["add_generation_prompt"] = !flags.no_generation_prompt;
  }
  return context;
}

Status run_template(const TemplateFlags& flags) {
  LITHE_ASSIGN_OR_RETURN(const Opened opened, open_source(flags.model));
  LITHE_ASSIGN_OR_RETURN(Json context, read_request(flags));
  const bool tools = context.contains("tools") && !context["tools"].is_null();
  LITHE_ASSIGN_OR_RETURN(const Source source, read_source(opened, flags.model, flags.name, tools));
  LITHE_ASSIGN_OR_RETURN(const ChatTemplate chat_template, ChatTemplate::parse(source.text));
  const auto set_token = [&](const char* name, const std::optional<std::string>& flag,
                             const std::optional<std::string>& file) {
    if (flag || file) context[name] = flag ? *flag : *file;
  };
  set_token("bos_token", flags.bos_token, source.bos_token);
  set_token("eos_token", flags.eos_token, source.eos_token);
  LITHE_ASSIGN_OR_RETURN(const chat::Rendered rendered, chat_template.render(context, flags.now));
  if (!flags.json) return print(rendered.text);
  const Json out = {{"text", rendered.text}, {"untrusted", rendered.untrusted}};
  return print(out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

Run add_template(CLI::App& app) {
  auto flags = std::make_shared<TemplateFlags>();
  app.add_option("-m,--model,model", flags->model,
                 "Model file (GGUF) or Hugging Face folder whose template is used, or a template file")
      ->required()
      ->type_name("MODEL|TEMPLATE.jinja");
  app.add_option("--template-name", flags->name,
                 "One of several templates of a model, such as rag; default: tool_use where there are tools, "
                 "else the plain one")
      ->type_name("NAME");
  app.add_option("--messages", flags->messages,
                 "The conversation: a JSON list of messages, or an object that holds it; - is stdin")
      ->required()
      ->type_name("FILE");
  app.add_option("--tools", flags->tools, "Tools as a JSON list")->type_name("FILE");
  app.add_option("--chat-template-kwargs", flags->variables, "More variables of the template")
      ->type_name("JSON");
  app.add_option("--bos-token", flags->bos_token, "Instead of the model's own")->type_name("TEXT");
  app.add_option("--eos-token", flags->eos_token, "Instead of the model's own")->type_name("TEXT");
  app.add_flag("--no-generation-prompt", flags->no_generation_prompt,
               "Ends after the last message, without the start of an answer");
  app.add_option("--now", flags->now, "The time that strftime_now sees; default: the clock")
      ->transform(whole_number())
      ->type_name("SECONDS");
  app.add_flag("--json", flags->json, "The text, and the byte ranges of it that the conversation wrote");
  app.footer(
      "Example: lithe template -m model.gguf --messages conversation.json\n"
      "Prints the exact bytes, with no line end of its own.");
  return [flags] { return run_template(*flags); };
}

}  // namespace lithe::app
