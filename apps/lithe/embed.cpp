// lithe embed: texts as vectors.
#include <array>
#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "base/text.h"
#include "command.h"
#include "console.h"
#include "input.h"
#include "lithe/embedding.h"
#include "model_flags.h"
#include "values.h"
#include "vocabulary.h"

namespace lithe::app {
namespace {

using Json = nlohmann::ordered_json;

struct EmbedFlags {
  ModelFlags model;
  std::vector<std::string> texts;
  std::string file, separator = "\n", pooling = "auto", format = "text";
  std::int64_t normalize = 2, batch = 512;
};

EmbeddingPooling pooling_named(const std::string& name) {
  constexpr std::pair<std::string_view, EmbeddingPooling> kNames[] = {{"none", EmbeddingPooling::none},
                                                                      {"mean", EmbeddingPooling::mean},
                                                                      {"cls", EmbeddingPooling::cls},
                                                                      {"last", EmbeddingPooling::last}};
  for (const auto& [known, pooling] : kNames) {
    if (name == known) return pooling;
  }
  return EmbeddingPooling::automatic;
}

// The parts of a file between separators; the last may lack one.
std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(std::min(text.size(), at + separator.size()));
  }
  return parts;
}

std::string as_text(const std::vector<Embedding>& embeddings) {
  std::string out;
  for (std::size_t i = 0; i < embeddings.size(); ++i) {
    for (const std::vector<float>& row : embeddings[i].rows) {
      fmt::format_to(std::back_inserter(out), "embedding {}:", i);
      for (const float value : row) fmt::format_to(std::back_inserter(out), " {:.6f}", value);
      out += '\n';
    }
  }
  return out;
}

std::string as_raw(const std::vector<Embedding>& embeddings) {
  std::string out;
  for (const Embedding& embedding : embeddings) {
    for (const std::vector<float>& row : embedding.rows)
      fmt::format_to(std::back_inserter(out), "{}\n", fmt::join(row, " "));
  }
  return out;
}

Json vectors_of(const Embedding& embedding) {
  return embedding.rows.size() == 1 ? Json(embedding.rows.front()) : Json(embedding.rows);
}

std::string as_array(const std::vector<Embedding>& embeddings) {
  Json out = Json::array();
  for (const Embedding& embedding : embeddings) out.push_back(vectors_of(embedding));
  return out.dump() + "\n";
}

// As OpenAI's /v1/embeddings answers.
std::string as_json(const std::vector<Embedding>& embeddings, const std::string& model) {
  Json data = Json::array();
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < embeddings.size(); ++i) {
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", vectors_of(embeddings[i])}});
    tokens += embeddings[i].tokens;
  }
  const Json out = {{"object", "list"},
                    {"data", std::move(data)},
                    {"model", model},
                    {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status run_embed(const EmbedFlags& flags) {
  if (!flags.texts.empty() && !flags.file.empty())
    return invalid("texts and --file are given: give one of them, not both");
  if (flags.separator.empty()) return invalid("--embd-separator is empty");
  std::vector<std::string> texts = flags.texts;
  if (texts.empty()) {
    LITHE_ASSIGN_OR_RETURN(const std::string all,
                           read_input(flags.file.empty() ? "-" : flags.file, kMostCorpusBytes));
    texts = split(all, flags.separator);
  }
  if (texts.empty()) return invalid("there is no text to embed");
  LITHE_ASSIGN_OR_RETURN(const auto model, flags.model.load());
  watch_interrupts();
  EmbedOptions options;
  options.pooling = pooling_named(flags.pooling);
  options.normalize = static_cast<int>(flags.normalize);
  options.batch = flags.batch;
  Progress bar("Embedding", static_cast<double>(texts.size()));
  std::size_t seen = 0;
  LITHE_ASSIGN_OR_RETURN(const auto embeddings, embed(*model, texts, options, [&](std::size_t done) {
                           bar.advance(static_cast<double>(done - seen));
                           seen = done;
                           return !interrupted();
                         }));
  if (flags.format == "json") return print(as_json(embeddings, model->info().name));
  if (flags.format == "array") return print(as_array(embeddings));
  return print(flags.format == "raw" ? as_raw(embeddings) : as_text(embeddings));
}

}  // namespace

Run add_embed(CLI::App& app) {
  auto flags = std::make_shared<EmbedFlags>();
  flags->model.add(app, ModelFlags::Text::no);
  app.add_option("text", flags->texts, "Texts; without any and without --file, stdin, one a line")
      ->type_name("TEXT...");
  app.add_option("-f,--file", flags->file, "Read the texts from a file (- for stdin)")->type_name("F");
  app.add_option("--embd-separator", flags->separator,
                 "What is between two texts of a file; default: a line's end")
      ->type_name("S");
  app.add_option(
         "--pooling", flags->pooling,
         "How a text's rows become one; auto: as the model says, else the mean (of a decoder the last)")
      ->transform(one_of({"auto", "none", "mean", "cls", "last"}))
      ->capture_default_str()
      ->type_name("auto|none|mean|cls|last");
  app.add_option(
         "--embd-normalize", flags->normalize,
         "The p of the norm that becomes 1: 2 Euclidean, 1 taxicab; 0 largest magnitude to 32760; -1 none")
      ->transform(whole_number(-1, 64))
      ->capture_default_str()
      ->type_name("P");
  app.add_option("--embd-output-format", flags->format,
                 "text; array: [[...]]; json: as OpenAI's API; raw: numbers alone, a line each")
      ->transform(one_of({"text", "array", "json", "raw"}))
      ->capture_default_str()
      ->type_name("text|array|json|raw");
  app.add_option("-b,--max-num-batched-tokens,--batch-size,--ubatch-size", flags->batch, "Tokens in one pass")
      ->transform(whole_number(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  app.footer(
      "Examples:\n"
      "  lithe embed -m bge-small.gguf \"What is a page table?\"\n"
      "  lithe embed -m bge-small/ -f questions.txt --embd-output-format json");
  return [flags] { return run_embed(*flags); };
}

}  // namespace lithe::app
