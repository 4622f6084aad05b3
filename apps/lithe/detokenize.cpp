// lithe detokenize: the text of token ids.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text.h"
#include "command.h"
#include "console.h"
#include "input.h"
#include "vocabulary.h"

namespace lithe::app {
namespace {

using Json = nlohmann::ordered_json;
using tokenizer::TokenId;

struct DetokenizeFlags {
  std::string model;
  std::vector<std::string> ids;
  bool no_special = false, json = false;
};

/// A flat list of ids. Read directly: dump() recurses, and a hostile nesting would exhaust the stack.
Result<std::vector<TokenId>> ids_of(const Json& list) {
  if (!list.is_array()) return invalid("\"ids\" must be a list of token ids");
  std::vector<TokenId> ids;
  for (const Json& entry : list) {
    if (!entry.is_number_integer()) return invalid("\"ids\"[{}] is not a token id", ids.size());
    const auto id = entry.get<std::int64_t>();
    const bool huge = entry.is_number_unsigned() && entry.get<std::uint64_t>() > INT64_MAX;
    if (huge || !std::in_range<TokenId>(id)) return invalid("{} is not a token id", entry.dump());
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

/// "1 2 3", "1,2,3", "[1, 2, 3]", {"ids": [1, 2, 3]}.
Result<std::vector<TokenId>> parse_ids(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto skip_space = [&] { text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size())); };
  skip_space();
  if (text.starts_with('[') || text.starts_with('{')) {
    const auto json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) return invalid("the token ids are no valid JSON");
    if (json.is_object() && !json.contains("ids")) return invalid("the JSON object holds no \"ids\"");
    return ids_of(json.is_object() ? json["ids"] : json);
  }
  std::vector<TokenId> ids;
  for (bool comma = false; !text.empty() || comma;) {
    const std::string_view word = text.substr(0, text.find_first_of(" \t\r\n,"));
    TokenId id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (word.empty()) return invalid("an id is missing between two commas or at an end");
    if (error != std::errc() || end != word.data() + word.size())
      return invalid("{} is not a token id", in_quotes(word));
    ids.push_back(id);
    text.remove_prefix(word.size());
    skip_space();
    comma = text.starts_with(',');
    if (comma) text.remove_prefix(1);
    skip_space();
  }
  return ids;
}

Status run_detokenize(const DetokenizeFlags& flags) {
  std::string written;
  for (const std::string& id : flags.ids) written += id + " ";
  if (flags.ids.empty()) {
    LITHE_ASSIGN_OR_RETURN(written, read_input("-", kMostCorpusBytes));
  }
  LITHE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, parse_ids(written));
  LITHE_ASSIGN_OR_RETURN(const auto tokenizer, load_tokenizer(flags.model));
  LITHE_ASSIGN_OR_RETURN(const std::string text, tokenizer.decode(ids, !flags.no_special));
  if (flags.json) {
    const Json out = {{"text", text}};
    return print(out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  // To a pipe or a file the exact bytes, so that tokenize | detokenize gives back what went in.
  return print(stdout_is_terminal() ? text + "\n" : text);
}

}  // namespace

Run add_detokenize(CLI::App& app) {
  auto flags = std::make_shared<DetokenizeFlags>();
  app.add_option("-m,--model", flags->model,
                 "Model file (GGUF) or Hugging Face folder; a vocabulary alone is enough")
      ->type_name("MODEL");
  app.add_option("ids", flags->ids, "Token ids, apart or with commas; without any, stdin")->type_name("IDS");
  app.add_flag("--no-special", flags->no_special, "Leave control tokens out");
  app.add_flag("--json", flags->json, R"({"text": "..."})");
  app.footer("Example: lithe detokenize -m model.gguf 19556 905");
  return [flags] { return run_detokenize(*flags); };
}

}  // namespace lithe::app
