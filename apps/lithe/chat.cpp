// lithe chat: a conversation in the terminal. The keys and values of what was said stay in the cache, so each turn
// computes only its new tokens.
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/text.h"
#include "command.h"
#include "console.h"
#include "line_editor.h"
#include "model_flags.h"

namespace lithe::app {
namespace {

struct ChatFlags {
  ModelFlags model;
  EngineFlags engine;
  SamplingFlags sampling;
  std::optional<std::string> system;
  bool no_history = false;
};

/// What /help shows.
struct ChatCommand {
  const char* name;
  const char* arguments;
  const char* help;
};
constexpr ChatCommand kChatCommands[] = {
    {"/help", "", "this list"},
    {"/clear", "", "forget the conversation, keep the system message"},
    {"/system", "[TEXT]", "set the system message and start anew; alone: show it"},
    {"/set", "[NAME VALUE]", "change a sampling option; alone: show them"},
    {"/regen", "", "answer the last question again"},
    {"/undo", "", "take back the last question and its answer"},
    {"/history", "", "show the conversation"},
    {"/save", "FILE", "write the conversation as JSON"},
    {"/load", "FILE", "go on with a saved conversation"},
    {"/info", "", "the model, its speed and its cache"},
    {"/exit", "", "leave (so do /quit and Ctrl-D)"},
};

class Chat {
 public:
  Chat(std::shared_ptr<Model> model, Engine engine, Request base, std::optional<std::string> system,
       LineEditor& editor)
      : model_(std::move(model)), engine_(std::move(engine)), base_(std::move(base)), editor_(&editor) {
    if (system) messages_.push_back({"system", std::move(*system)});
  }

  Status loop();

 private:
  std::optional<std::string> read_message();
  Status command(const std::string& line);
  Status answer();
  Status set(const std::string& arguments);
  Status save(const std::string& path) const;
  Status load(const std::string& path);
  void clear();
  void undo();
  void show_history() const;
  void show_info() const;
  void report(const Completion& done) const;

  std::shared_ptr<Model> model_;
  Engine engine_;
  Request base_;  // everything but the messages
  std::vector<Message> messages_;
  LineEditor* editor_;
  std::optional<Completion> last_;
  Status input_fault_;  // why no more is read
  bool leave_ = false;
};

/// Notices of the program itself: on stderr, so that stdout holds answers only.
void note(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
}

bool blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

Status Chat::loop() {
  if (editor_->terminal()) {
    note(fmt::format(
        "{} {}, {} on {} threads, context {} tokens. /help lists the commands; Ctrl-C stops an answer.",
        printable(model_->info().name.empty() ? model_->info().family : model_->info().name),
        model_->info().weight_type, model_->info().isa, model_->info().threads, engine_.max_model_len()));
  }
  while (!leave_) {
    const auto message = read_message();
    if (!message) break;
    if (blank(*message)) continue;
    if (message->front() == '/') {
      Status status = command(*message);
      if (status.code() == Code::cancelled) return status;
      if (!status.ok()) note(status.message());
      continue;
    }
    messages_.push_back({"user", *message});
    Status status = answer();
    if (status.code() == Code::cancelled) return status;
    if (!status.ok()) {
      messages_.pop_back();
      note(status.message());
    }
  }
  return input_fault_;
}

/// One message: a line, or several joined by a trailing backslash or between triple quotes. Nothing: the input is over,
/// or at fault.
std::optional<std::string> Chat::read_message() {
  static constexpr const char* kQuotes = "\"\"\"";
  std::string text;
  bool quoted = false, continued = false;
  for (;;) {
    LineEditor::Line line = editor_->read(quoted || continued ? "... " : ">>> ");
    if (line.outcome == LineEditor::Outcome::interrupted) {
      if (interrupt_number() == SIGTERM || !editor_->terminal()) return std::nullopt;
      forget_interrupt();
      note("(Ctrl-D or /exit leaves)");
      text.clear();
      quoted = continued = false;
      continue;
    }
    if (line.outcome == LineEditor::Outcome::too_long || text.size() > kMostMessageBytes) {
      input_fault_ =
          invalid("a message of more than {} bytes: `lithe run --file` takes longer ones", kMostMessageBytes);
      return std::nullopt;
    }
    if (line.outcome == LineEditor::Outcome::end) return text.empty() ? std::nullopt : std::optional(text);
    if (!quoted && !continued && line.text.starts_with(kQuotes)) {
      quoted = true;
      line.text.erase(0, 3);
    }
    if (quoted) {
      const bool closes = line.text.ends_with(kQuotes);
      if (closes) line.text.resize(line.text.size() - 3);
      text += line.text;
      if (closes) return text;
      text += '\n';
      continue;
    }
    continued = line.text.ends_with('\\');
    if (continued) line.text.back() = '\n';
    text += line.text;
    if (!continued) return text;
  }
}

Status Chat::answer() {
  Request request = base_;
  request.messages = messages_;
  Status written;
  std::optional<Completion> done;
  const auto on_text = [&](std::string_view text) {
    written = print(text);
    return written.ok();
  };
  LITHE_ASSIGN_OR_RETURN(const RequestId id, engine_.submit(request, on_text, [&](Completion completion) {
    done = std::move(completion);
  }));
  while (!done) {
    if (interrupted()) engine_.cancel(id);
    engine_.step();
  }
  LITHE_RETURN_IF_ERROR(written);
  if (done->reason == FinishReason::failed) return done->status;
  if (!done->text.ends_with('\n')) LITHE_RETURN_IF_ERROR(print("\n"));
  messages_.push_back({"assistant", done->text});
  if (interrupt_number() == SIGTERM) return cancelled("stopped");
  forget_interrupt();
  if (editor_->terminal()) report(*done);
  last_ = std::move(done);
  return {};
}

void Chat::report(const Completion& done) const {
  const Usage& u = done.usage;
  std::string text =
      fmt::format("[{} tokens, {:.1f} tok/s; prompt {} new of {} tokens in {:.2f} s", u.completion_tokens,
                  u.decode_rate(), u.prompt_tokens - u.cached_tokens, u.prompt_tokens, u.prefill_seconds);
  if (done.reason == FinishReason::aborted) text += "; stopped";
  if (done.reason == FinishReason::length) text += "; cut at the length limit";
  note(text + "]");
}

Status Chat::command(const std::string& line) {
  const std::string name = line.substr(0, line.find_first_of(" \t\n"));
  std::string arguments = line.substr(std::min(line.find_first_not_of(" \t\n", name.size()), line.size()));
  while (!arguments.empty() && (arguments.back() == ' ' || arguments.back() == '\n')) arguments.pop_back();
  if (name == "/exit" || name == "/quit" || name == "/bye") {
    leave_ = true;
  } else if (name == "/help" || name == "/?") {
    for (const ChatCommand& c : kChatCommands)
      note(fmt::format("  {:8} {:13} {}", c.name, c.arguments, c.help));
    note("  A line that ends with \\ goes on; \"\"\" begins and ends a text of several lines.");
  } else if (name == "/clear" || name == "/new") {
    clear();
    note("The conversation is empty.");
  } else if (name == "/system") {
    if (arguments.empty()) {
      const bool set = !messages_.empty() && messages_.front().role == "system";
      note(set ? messages_.front().content
               : "There is no system message of yours; the model's template may add one.");
      return {};
    }
    messages_.assign(1, {"system", arguments});
    last_.reset();
    note("A new conversation with this system message.");
  } else if (name == "/set") {
    return set(arguments);
  } else if (name == "/regen") {
    if (messages_.empty() || messages_.back().role != "assistant") return invalid("there is no answer yet");
    const Message old = messages_.back();
    messages_.pop_back();
    Status status = answer();
    if (!status.ok()) messages_.push_back(old);
    return status;
  } else if (name == "/undo") {
    undo();
  } else if (name == "/history") {
    show_history();
  } else if (name == "/save") {
    return save(arguments);
  } else if (name == "/load") {
    return load(arguments);
  } else if (name == "/info") {
    show_info();
  } else {
    return invalid("there is no command {}: /help lists them", name);
  }
  return {};
}

void Chat::clear() {
  const bool system = !messages_.empty() && messages_.front().role == "system";
  messages_.resize(system ? 1 : 0);
  last_.reset();
}

void Chat::undo() {
  while (!messages_.empty() && messages_.back().role == "assistant") messages_.pop_back();
  if (!messages_.empty() && messages_.back().role == "user") messages_.pop_back();
  last_.reset();
}

void Chat::show_history() const {
  if (messages_.empty()) note("The conversation is empty.");
  for (const Message& message : messages_) note(fmt::format("{}: {}", message.role, message.content));
}

void Chat::show_info() const {
  const ModelInfo& info = model_->info();
  const EngineStats stats = engine_.stats();
  note(fmt::format("model    {} ({}, {} parameters, {})", info.path, info.family,
                   human_count(static_cast<double>(info.parameters)), info.weight_type));
  note(fmt::format("runs on  {}, {} threads", info.isa, info.threads));
  note(fmt::format("context  {} tokens, {} pages of {} in use", engine_.max_model_len(),
                   stats.pages_total - stats.pages_free, stats.pages_total));
  if (last_) report(*last_);
}

/// The options /set knows: each reads and writes one field.
struct Setting {
  const char* name;
  std::function<std::string(const Request&)> show;
  std::function<Status(Request&, const std::string&)> change;
};

template <typename T>
Status parse_number(const std::string& text, T& out) {
  T value{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return invalid("\"{}\" is no number", text);
  out = value;
  return {};
}

template <typename T>
Setting number(const char* name, T SamplingOptions::*field) {
  return {name, [field](const Request& r) { return fmt::format("{}", r.sampling.*field); },
          [field](Request& r, const std::string& text) { return parse_number(text, r.sampling.*field); }};
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> list = {
      number("temperature", &SamplingOptions::temperature),
      number("top_k", &SamplingOptions::top_k),
      number("top_p", &SamplingOptions::top_p),
      number("min_p", &SamplingOptions::min_p),
      number("typical_p", &SamplingOptions::typical_p),
      number("repetition_penalty", &SamplingOptions::repetition_penalty),
      number("presence_penalty", &SamplingOptions::presence_penalty),
      number("frequency_penalty", &SamplingOptions::frequency_penalty),
      number("repeat_last_n", &SamplingOptions::repeat_last_n),
      {"seed", [](const Request& r) { return r.sampling.seed ? std::to_string(*r.sampling.seed) : "fresh"; },
       [](Request& r, const std::string& text) -> Status {
         r.sampling.seed.reset();
         if (text == "fresh" || text == "-1") return {};
         std::uint64_t seed = 0;
         LITHE_RETURN_IF_ERROR(parse_number(text, seed));
         r.sampling.seed = seed;
         return {};
       }},
      {"max_tokens", [](const Request& r) { return std::to_string(r.max_tokens); },
       [](Request& r, const std::string& text) { return parse_number(text, r.max_tokens); }},
  };
  return list;
}

Status Chat::set(const std::string& arguments) {
  if (arguments.empty()) {
    for (const Setting& setting : settings())
      note(fmt::format("  {:20} {}", setting.name, setting.show(base_)));
    return {};
  }
  const auto space = arguments.find_first_of(" =");
  std::string name = arguments.substr(0, space);
  std::replace(name.begin(), name.end(), '-', '_');
  if (space == std::string::npos) return invalid("write /set NAME VALUE");
  const std::string value =
      arguments.substr(std::min(arguments.find_first_not_of(" =", space), arguments.size()));
  for (const Setting& setting : settings()) {
    if (name != setting.name) continue;
    Request changed = base_;
    LITHE_RETURN_IF_ERROR(setting.change(changed, value));
    changed.tokens = {0};
    LITHE_RETURN_IF_ERROR(engine_.check(changed));  // ranges, before it is kept
    changed.tokens.clear();
    base_ = std::move(changed);
    note(fmt::format("{} = {}", setting.name, setting.show(base_)));
    return {};
  }
  return invalid("there is no option {}: /set alone lists them", name);
}

Status Chat::save(const std::string& path) const {
  if (path.empty()) return invalid("write /save FILE");
  nlohmann::ordered_json json = {{"model", model_->info().path},
                                 {"messages", nlohmann::ordered_json::array()}};
  for (const Message& message : messages_) {
    json["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  LITHE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, 0600));
  LITHE_RETURN_IF_ERROR(
      file.write(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"));
  LITHE_RETURN_IF_ERROR(file.commit());
  note(fmt::format("{} messages saved to {}", messages_.size(), path));
  return {};
}

Status Chat::load(const std::string& path) {
  if (path.empty()) return invalid("write /load FILE");
  LITHE_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto& list = json.is_object() && json.contains("messages") ? json["messages"] : json;
  if (!list.is_array()) return corrupt("{} holds no list of messages", path);
  std::vector<Message> loaded;
  for (const auto& entry : list) {
    const bool good = entry.is_object() && entry.contains("role") && entry["role"].is_string() &&
                      entry.contains("content") && entry["content"].is_string();
    if (!good) return corrupt("{}: message {} has no role and content", path, loaded.size() + 1);
    loaded.push_back({entry["role"].get<std::string>(), entry["content"].get<std::string>()});
  }
  messages_ = std::move(loaded);
  last_.reset();
  note(fmt::format("{} messages loaded", messages_.size()));
  return {};
}

Status chat(const ChatFlags& flags) {
  LITHE_ASSIGN_OR_RETURN(EngineOptions engine_options, flags.engine.options());
  LITHE_ASSIGN_OR_RETURN(Request base, flags.sampling.request());
  engine_options.warm_prefixes = 1;  // the conversation so far
  LITHE_ASSIGN_OR_RETURN(const auto model, flags.model.load(flags.engine.max_model_len));
  if (!model->info().has_chat_template) {
    return invalid("{} has no chat template: give one with --chat-template-file", model->info().path);
  }
  LITHE_ASSIGN_OR_RETURN(Engine engine, Engine::create(model, engine_options));
  watch_interrupts();
  LineEditor editor(flags.no_history ? std::string() : state_folder() + "/chat_history");
  return Chat(model, std::move(engine), std::move(base), flags.system, editor).loop();
}

}  // namespace

Run add_chat(CLI::App& app) {
  auto flags = std::make_shared<ChatFlags>();
  flags->model.add(app, ModelFlags::Text::yes);
  app.add_option("--system,--sys", flags->system, "System message")->type_name("TEXT");
  flags->sampling.add(app);
  flags->engine.add(app);
  app.add_flag("--no-history", flags->no_history, "Neither read nor write the history of typed lines");
  app.footer(
      "Example:\n  lithe chat -m model.gguf --system \"You are a terse assistant.\" --temperature 0.2");
  return [flags] { return chat(*flags); };
}

}  // namespace lithe::app
