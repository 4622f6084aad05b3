// Some four hundred small templates, one feature of the language each, against Jinja2's own outputs and errors.
// snippets.json holds [source, context] pairs; tests/oracle/template_goldens.py writes snippet_goldens.json.
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "template/chat_template.h"

namespace lithe::chat {
namespace {

constexpr std::int64_t kNow = 1783242487;  // 2026-07-05 09:08:07 UTC, the oracle's clock

Json read_json(const char* name) {
  std::ifstream in(std::filesystem::path(LITHE_TEST_DATA) / "unit" / "template" / name, std::ios::binary);
  return Json::parse(std::string(std::istreambuf_iterator<char>(in), {}));
}

struct Outcome {
  bool ok;
  std::string text;  // or the error's message, without "chat template, line L: "
};

Outcome render(const std::string& source, const Json& context) {
  const auto outcome_of = [](const Status& status) {
    const std::string& message = status.message();
    const bool located = message.rfind("chat template, line ", 0) == 0;
    return Outcome{false, located ? message.substr(message.find(": ") + 2) : message};
  };
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed.ok()) return outcome_of(parsed.status());
  const auto rendered = parsed->render(context, kNow);
  if (!rendered.ok()) return outcome_of(rendered.status());
  return {true, rendered->text};
}

TEST(TemplateLanguage, EqualsJinja2) {
  setenv("TZ", "UTC", 1);
  tzset();
  const Json snippets = read_json("snippets.json"), goldens = read_json("snippet_goldens.json");
  ASSERT_EQ(snippets.size(), goldens.size());
  int texts = 0, errors = 0, messages = 0;
  for (std::size_t i = 0; i < snippets.size(); ++i) {
    const auto source = snippets[i][0].get<std::string>();
    const Outcome outcome = render(source, snippets[i][1]);
    if (goldens[i].is_string()) {
      EXPECT_TRUE(outcome.ok) << source << "\n" << outcome.text << "\nexpected " << goldens[i];
      EXPECT_EQ(outcome.text, goldens[i].get<std::string>()) << source;
      texts += outcome.ok && outcome.text == goldens[i].get<std::string>() ? 1 : 0;
    } else {
      EXPECT_FALSE(outcome.ok) << source << "\n" << outcome.text << "\nexpected " << goldens[i];
      errors += outcome.ok ? 0 : 1;
      const bool same = outcome.text == goldens[i].at("message").get<std::string>();
      messages += same ? 1 : 0;
    }
  }
  std::printf("[ counts ] %d snippets equal, %d errors, %d of them in the same words\n", texts, errors,
              messages);
  EXPECT_GE(messages, 125);  // the rest name the same fault in other words
}

}  // namespace
}  // namespace lithe::chat
