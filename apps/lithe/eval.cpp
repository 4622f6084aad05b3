// lithe eval: perplexity, divergence from a reference, logits.
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/progress.h"
#include "command.h"
#include "console.h"
#include "engine/evaluate.h"
#include "model_flags.h"
#include "values.h"

namespace lithe::app {
namespace {

struct EvalFlags {
  ModelFlags model;
  std::string text, protocol = "half", ids, logits_out;
  engine::EvaluateOptions options;
  bool json = false;
};

Status write_logits(const EvalFlags& flags) {
  if (flags.logits_out.empty()) return invalid("--ids needs --logits-out FILE");
  if (!flags.text.empty()) return invalid("--ids and --text exclude each other");
  LITHE_ASSIGN_OR_RETURN(const auto values, parse_list("--ids", flags.ids, 0, INT32_MAX));
  LITHE_ASSIGN_OR_RETURN(const ModelOptions options, flags.model.options(std::ssize(values)));
  LITHE_ASSIGN_OR_RETURN(const std::string path, flags.model.path());
  LITHE_ASSIGN_OR_RETURN(const auto model, engine::LoadedModel::load(path, options));
  return engine::write_logits(*model, std::vector<std::int32_t>(values.begin(), values.end()),
                              flags.logits_out);
}

std::string as_json(const EvalFlags& flags, const engine::Evaluation& e, const ModelInfo& info) {
  nlohmann::ordered_json json = {
      {"model", info.path},
      {"protocol", flags.protocol},
      {"ctx", flags.options.ctx},
      {"windows", e.windows},
      {"precision", flags.model.precision},
      {"isa", info.isa},
      {"ppl", e.perplexity()},
      {"tokens", e.nll.count},
      {"nll_mean", e.nll.mean()},
      {"stderr", e.nll.standard_error()},
      {"ppl_stderr", e.perplexity() * e.nll.standard_error()},
  };
  if (!e.kl.empty()) {
    json["reference"] = flags.options.reference;
    json["kl_mean"] = e.kl_mean();
    json["kl_p99"] = e.kl_quantile(0.99);
    json["top1_agreement"] = static_cast<double>(e.agreements) / static_cast<double>(e.kl.size());
    json["delta_nll"] = e.delta.mean();
    json["delta_nll_stderr"] = e.delta.standard_error();
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string as_text(const EvalFlags& flags, const engine::Evaluation& e) {
  std::string out = fmt::format(
      "perplexity {:.4f} +- {:.4f}  ({} protocol, {} windows of {}, {} tokens scored)\n", e.perplexity(),
      e.perplexity() * e.nll.standard_error(), flags.protocol, e.windows, flags.options.ctx, e.nll.count);
  if (e.kl.empty()) return out;
  out += fmt::format("against {}:\n", flags.options.reference);
  out += fmt::format("  KL divergence   mean {:.6f}, p99 {:.6f} nats\n", e.kl_mean(), e.kl_quantile(0.99));
  out += fmt::format("  top-1 agreement {:.3f}%\n",
                     100.0 * static_cast<double>(e.agreements) / static_cast<double>(e.kl.size()));
  out += fmt::format("  NLL difference  {:+.6f} +- {:.6f} nats (paired)\n", e.delta.mean(),
                     e.delta.standard_error());
  return out;
}

Status eval(EvalFlags& flags) {
  if (!flags.ids.empty()) return write_logits(flags);
  if (flags.text.empty()) return invalid("nothing to score: give --text FILE, or --ids with --logits-out");
  flags.options.protocol = flags.protocol == "full" ? engine::Protocol::full : engine::Protocol::half;
  LITHE_ASSIGN_OR_RETURN(const std::string text, read_file(flags.text, std::size_t{1} << 32));
  LITHE_ASSIGN_OR_RETURN(const ModelOptions options, flags.model.options(flags.options.ctx));
  LITHE_ASSIGN_OR_RETURN(const std::string path, flags.model.path());
  LITHE_ASSIGN_OR_RETURN(const auto model, engine::LoadedModel::load(path, options));
  watch_interrupts();
  engine::Evaluation result;
  {
    std::optional<Progress> progress;
    const auto on_window = [&](const engine::Evaluation& so_far, std::int64_t total) {
      if (!progress) {
        progress.emplace("windows", static_cast<double>(total));
        progress->advance(static_cast<double>(so_far.resumed));
      }
      progress->note(fmt::format("perplexity {:.4f}", so_far.perplexity()));
      progress->advance(1);
      return !interrupted();
    };
    auto evaluation = engine::evaluate(*model, text, flags.options, on_window);
    if (!evaluation.ok()) {
      progress.reset();
      if (evaluation.status().code() == Code::cancelled) {
        std::fprintf(stderr, "lithe: %s%s\n", evaluation.status().message().c_str(),
                     flags.options.state.empty() ? "" : "; the same command goes on from there");
      }
      return std::move(evaluation).status();
    }
    result = std::move(evaluation).value();
  }
  if (result.resumed > 0) {
    std::fprintf(stderr, "lithe: %lld windows were taken from %s\n", static_cast<long long>(result.resumed),
                 flags.options.state.c_str());
  }
  return print(flags.json ? as_json(flags, result, model->info()) : as_text(flags, result));
}

}  // namespace

Run add_eval(CLI::App& app) {
  auto flags = std::make_shared<EvalFlags>();
  flags->model.add(app, ModelFlags::Text::no);
  auto& options = flags->options;
  app.add_option("-f,--text,--file", flags->text, "Text to score")->type_name("FILE");
  app.add_option("-c,--ctx,--ctx-size", options.ctx, "Window in tokens")
      ->capture_default_str()
      ->transform(whole_number(4, 1 << 24));
  app.add_option(
         "--protocol", flags->protocol,
         "half: llama.cpp's, the second half of each window is scored; full: every token but the first is")
      ->transform(one_of({"half", "full"}))
      ->type_name("half|full");
  app.add_option("--max-chunks,--chunks", options.max_windows, "Only the first windows; 0: all")
      ->transform(whole_number(0));
  app.add_option("--save-logits", options.save_reference, "Keep what this model thinks, for --reference")
      ->type_name("FILE");
  app.add_option("--reference", options.reference,
                 "Compare with what --save-logits kept: KL, top-1, paired error")
      ->type_name("FILE");
  app.add_option("--state", options.state,
                 "Keep finished windows here, and go on from them after an interruption")
      ->type_name("FILE");
  app.add_option("--ids", flags->ids, "Token ids, by comma, instead of a text")->type_name("IDS");
  app.add_option("--logits-out", flags->logits_out, "Their logits as a NumPy array [tokens, vocab]")
      ->type_name("L.npy");
  app.add_flag("--json", flags->json, "Result as JSON");
  app.footer(
      "Examples:\n"
      "  lithe eval -m model.gguf --text wiki.test.raw --ctx 512 --protocol half\n"
      "  lithe eval -m f16.gguf --text wiki.test.raw --save-logits f16.ref --max-chunks 20\n"
      "  lithe eval -m q4.gguf --text wiki.test.raw --reference f16.ref --max-chunks 20\n"
      "  lithe eval -m model.gguf --ids 1,2,3 --logits-out logits.npy");
  return [flags] { return eval(*flags); };
}

}  // namespace lithe::app
