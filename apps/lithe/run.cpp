// lithe run: one prompt, one answer.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "command.h"
#include "console.h"
#include "input.h"
#include "model_flags.h"

namespace lithe::app {
namespace {

struct RunFlags {
  ModelFlags model;
  EngineFlags engine;
  SamplingFlags sampling;
  std::string file;
  std::optional<std::string> prompt, system;
  bool raw = false, json = false, verbose = false;
};

Result<std::string> read_prompt(const RunFlags& flags) {
  if (flags.prompt && !flags.file.empty()) return invalid("--prompt and --file exclude each other");
  if (!flags.file.empty()) return read_input(flags.file);
  if (flags.prompt && !flags.prompt->empty()) return *flags.prompt;
  if (!flags.prompt && ::isatty(STDIN_FILENO) == 0) {
    LITHE_ASSIGN_OR_RETURN(std::string text, read_input("-"));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (!text.empty()) return text;
  }
  return invalid(
      "no prompt: give one with -p PROMPT, --file FILE or on stdin (`lithe chat` is the conversation)");
}

Result<Request> make_request(const RunFlags& flags, const Model& model) {
  LITHE_ASSIGN_OR_RETURN(Request request, flags.sampling.request());
  LITHE_ASSIGN_OR_RETURN(std::string prompt, read_prompt(flags));
  if (flags.raw) {
    if (flags.system) return invalid("--system needs the chat template, which --raw leaves out");
    request.prompt = std::move(prompt);
  } else if (!model.info().has_chat_template && !flags.system) {
    std::fprintf(stderr, "lithe: the model has no chat template: the prompt is continued as it is (--raw)\n");
    request.prompt = std::move(prompt);
  } else {
    if (flags.system) request.messages.push_back({"system", *flags.system});
    request.messages.push_back({"user", std::move(prompt)});
  }
  return request;
}

void report(const Completion& done) {
  const Usage& usage = done.usage;
  std::fprintf(stderr,
               "prompt %lld tokens in %.3f s (%.0f tok/s) | answer %lld tokens in %.3f s (%.1f tok/s) | KV "
               "%s | seed %llu "
               "| %s\n",
               static_cast<long long>(usage.prompt_tokens), usage.prefill_seconds, usage.prefill_rate(),
               static_cast<long long>(usage.completion_tokens), usage.decode_seconds, usage.decode_rate(),
               human_bytes(static_cast<double>(usage.kv_bytes)).c_str(),
               static_cast<unsigned long long>(done.seed), finish_reason_name(done.reason));
}

std::string as_json(const Completion& done, const ModelInfo& info) {
  const Usage& usage = done.usage;
  const nlohmann::ordered_json json = {
      {"model", info.path},
      {"text", done.text},
      {"tokens", done.tokens},
      {"finish_reason", finish_reason_name(done.reason)},
      {"seed", done.seed},
      {"usage",
       {{"prompt_tokens", usage.prompt_tokens},
        {"completion_tokens", usage.completion_tokens},
        {"prefill_seconds", usage.prefill_seconds},
        {"decode_seconds", usage.decode_seconds},
        {"prefill_tokens_per_second", usage.prefill_rate()},
        {"decode_tokens_per_second", usage.decode_rate()},
        {"kv_bytes", usage.kv_bytes}}},
  };
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Status run(const RunFlags& flags) {
  LITHE_ASSIGN_OR_RETURN(const EngineOptions engine_options, flags.engine.options());
  LITHE_ASSIGN_OR_RETURN(const auto model, flags.model.load(flags.engine.max_model_len));
  LITHE_ASSIGN_OR_RETURN(Engine engine, Engine::create(model, engine_options));
  LITHE_ASSIGN_OR_RETURN(const Request request, make_request(flags, *model));

  watch_interrupts();
  Status written;
  std::optional<Completion> done;
  const auto on_text = [&](std::string_view text) {
    if (!flags.json) written = print(text);
    return written.ok();
  };
  LITHE_ASSIGN_OR_RETURN(const RequestId id, engine.submit(request, on_text, [&](Completion completion) {
    done = std::move(completion);
  }));
  while (!done) {
    if (interrupted()) engine.cancel(id);
    engine.step();
  }
  LITHE_RETURN_IF_ERROR(written);
  if (done->reason == FinishReason::failed) return done->status;
  if (flags.json) {
    LITHE_RETURN_IF_ERROR(print(as_json(*done, model->info())));
  } else if (!done->text.ends_with('\n')) {
    LITHE_RETURN_IF_ERROR(print("\n"));
  }
  if (flags.verbose || stderr_is_terminal()) report(*done);
  return {};
}

}  // namespace

Run add_run(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  flags->model.add(app, ModelFlags::Text::yes);
  app.add_option("-p,--prompt,prompt", flags->prompt, "The question; without it stdin is read, up to 64 MiB")
      ->type_name("TEXT");
  app.add_option("-f,--file", flags->file, "The question from a file (- for stdin), to the last byte")
      ->type_name("FILE");
  app.add_option("--system,--sys", flags->system, "System message")->type_name("TEXT");
  app.add_flag("--raw", flags->raw, "No chat template: the prompt is continued as it is");
  flags->sampling.add(app);
  flags->engine.add(app);
  app.add_flag("--json", flags->json, "The answer as JSON, with tokens and times");
  app.add_flag("-v,--verbose", flags->verbose, "Show tokens, speeds and KV bytes on stderr at the end");
  app.footer("Example:\n  lithe run -m model.gguf -p \"Write a haiku about rivers\" -n 64 --temperature 0");
  return [flags] { return run(*flags); };
}

}  // namespace lithe::app
