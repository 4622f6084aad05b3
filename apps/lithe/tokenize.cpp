// lithe tokenize: a text's token ids.
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.h"
#include "console.h"
#include "input.h"
#include "vocabulary.h"

namespace lithe::app {
namespace {

using Json = nlohmann::ordered_json;

struct TokenizeFlags {
  std::string model, file;
  std::optional<std::string> text;
  bool no_special = false, no_parse_special = false, json = false;
};

Status run_tokenize(const TokenizeFlags& flags) {
  if (flags.text && !flags.file.empty())
    return invalid("a text and --file are given: give one of them, not both");
  LITHE_ASSIGN_OR_RETURN(const auto tokenizer, load_tokenizer(flags.model));
  std::string text;
  if (flags.text) {
    text = *flags.text;
  } else {
    LITHE_ASSIGN_OR_RETURN(text, read_input(flags.file.empty() ? "-" : flags.file, kMostCorpusBytes));
  }
  LITHE_ASSIGN_OR_RETURN(const auto ids, tokenizer.encode(text, {.add_special = !flags.no_special,
                                                                 .parse_special = !flags.no_parse_special}));
  if (flags.json) {
    Json pieces = Json::array();  // as the vocabulary writes them: a token may be a part of a character
    for (const auto id : ids) pieces.push_back(tokenizer.written(id));
    const Json out = {{"ids", ids}, {"pieces", pieces}};
    return print(out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  std::string out;
  for (const auto id : ids) fmt::format_to(std::back_inserter(out), "{}{}", out.empty() ? "" : " ", id);
  return print(out + "\n");
}

}  // namespace

Run add_tokenize(CLI::App& app) {
  auto flags = std::make_shared<TokenizeFlags>();
  app.add_option("-m,--model", flags->model,
                 "Model file (GGUF) or Hugging Face folder; a vocabulary alone is enough")
      ->type_name("MODEL");
  app.add_option("text", flags->text, "The text; without one and without --file, stdin")->type_name("TEXT");
  app.add_option("-f,--file", flags->file, "Read the text from a file (- for stdin), to the last byte")
      ->type_name("F");
  app.add_flag("--no-special,--no-bos", flags->no_special, "Add no BOS and no EOS");
  app.add_flag("--no-parse-special", flags->no_parse_special, "Control tokens written in the text stay text");
  app.add_flag("--json", flags->json, R"({"ids": [...], "pieces": [...]})");
  app.footer("Example: lithe tokenize -m model.gguf \"Hello world\"");
  return [flags] { return run_tokenize(*flags); };
}

}  // namespace lithe::app
