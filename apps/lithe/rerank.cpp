// lithe rerank: documents in the order of their worth for a query.
#include <nlohmann/json.hpp>

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

struct RerankFlags {
  ModelFlags model;
  std::string query, file;
  std::vector<std::string> documents;
  std::int64_t most = 0;
  bool json = false;
};

Status run_rerank(const RerankFlags& flags) {
  if (!flags.documents.empty() && !flags.file.empty())
    return invalid("documents and --file are given: give one of them, not both");
  std::vector<std::string> documents = flags.documents;
  if (documents.empty()) {
    LITHE_ASSIGN_OR_RETURN(const std::string all,
                           read_input(flags.file.empty() ? "-" : flags.file, kMostCorpusBytes));
    for (std::size_t begin = 0; begin < all.size();) {
      const std::size_t end = std::min(all.find('\n', begin), all.size());
      if (end > begin) documents.push_back(all.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  if (documents.empty()) return invalid("there is no document to rank");
  LITHE_ASSIGN_OR_RETURN(const auto model, flags.model.load());
  std::int64_t tokens = 0;
  LITHE_ASSIGN_OR_RETURN(auto ranked, rerank(*model, flags.query, documents, &tokens));
  if (flags.most > 0 && std::ssize(ranked) > flags.most) ranked.resize(static_cast<std::size_t>(flags.most));
  if (!flags.json) {
    std::string out;
    for (const Ranked& one : ranked)
      fmt::format_to(std::back_inserter(out), "{:9.4f}  {}  {}\n", one.score, one.index,
                     printable(documents[one.index], 200));
    return print(out);
  }
  Json results = Json::array();
  for (const Ranked& one : ranked) {
    results.push_back({{"index", one.index},
                       {"relevance_score", one.score},
                       {"document", {{"text", documents[one.index]}}}});
  }
  const Json out = {{"model", model->info().name},
                    {"object", "list"},
                    {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}},
                    {"results", std::move(results)}};
  return print(out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

Run add_rerank(CLI::App& app) {
  auto flags = std::make_shared<RerankFlags>();
  flags->model.add(app, ModelFlags::Text::no);
  app.add_option("-q,--query", flags->query, "What is asked")->required()->type_name("TEXT");
  app.add_option("document", flags->documents, "Documents; without any and without --file, stdin, one a line")
      ->type_name("TEXT...");
  app.add_option("-f,--file", flags->file, "Read the documents from a file, one a line")->type_name("F");
  app.add_option("-n,--top-n", flags->most, "Show the best so many; 0: all")
      ->transform(whole_number(0, 1 << 30))
      ->capture_default_str()
      ->type_name("N");
  app.add_flag("--json", flags->json, "As Jina's and Cohere's APIs answer");
  app.footer(
      "Example: lithe rerank -m ms-marco-minilm/ -q \"What is a page table?\" -f passages.txt --top-n 3");
  return [flags] { return run_rerank(*flags); };
}

}  // namespace lithe::app
