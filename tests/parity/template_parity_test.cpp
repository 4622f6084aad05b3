// Real chat templates over a matrix of conversations: the bytes, and the errors, equal those of Hugging Face's renderer.
// tests/oracle/template_goldens.py wrote what is expected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "template/chat_template.h"

namespace lithe::chat {
namespace {

constexpr std::int64_t kNow = 1783242487;  // 2026-07-05 09:08:07 UTC, the oracle's clock

std::filesystem::path folder() {
  return std::filesystem::path(LITHE_TEST_DATA) / "parity" / "templates";
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// A message without the "chat template, line L: " that Lithe puts before it.
std::string words(const Status& status) {
  const std::string& message = status.message();
  if (message.rfind("chat template, line ", 0) != 0) return message;
  return message.substr(message.find(": ") + 2);
}

class TemplateParity : public testing::TestWithParam<std::filesystem::path> {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

TEST_P(TemplateParity, EqualsTheReference) {
  const auto parsed = ChatTemplate::parse(read(GetParam()));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const Json contexts = Json::parse(read(folder() / "conversations.json"));
  const Json goldens = Json::parse(read(folder() / "goldens" / (GetParam().stem().string() + ".json")));
  ASSERT_EQ(contexts.size(), goldens.size());
  int texts = 0, errors = 0;
  for (const auto& [name, context] : contexts.items()) {
    SCOPED_TRACE(name);
    const auto rendered = parsed->render(context, kNow);
    const Json& expected = goldens.at(name);
    if (expected.is_string()) {
      ASSERT_TRUE(rendered.ok()) << rendered.status().message();
      EXPECT_EQ(rendered->text, expected.get<std::string>());
      texts += rendered->text == expected.get<std::string>() ? 1 : 0;
    } else {
      ASSERT_FALSE(rendered.ok()) << "expected " << expected << "\n" << rendered->text;
      const bool equal = expected.at("error") == "RecursionError"
                             ? rendered.status().code() == Code::resource_exhausted
                             : rendered.status().code() == Code::invalid_argument &&
                                   words(rendered.status()) == expected.at("message").get<std::string>();
      EXPECT_TRUE(equal) << "expected " << expected << "\n" << rendered.status().message();
      errors += equal ? 1 : 0;
    }
  }
  if (!HasFailure()) {
    std::printf("[ proved ] template | %s | %d conversations | byte-equal, errors with their own message\n",
                GetParam().stem().c_str(), texts + errors);
  }
  std::printf("[ counts ] %s: %d conversations equal, %d errors equal\n", GetParam().stem().c_str(), texts,
              errors);
  EXPECT_EQ(texts + errors, static_cast<int>(contexts.size()));
}

// --- the field's own faults, by their numbers

Result<Rendered> render(const char* name, const char* conversation) {
  const auto parsed = ChatTemplate::parse(read(folder() / (std::string(name) + ".jinja")));
  if (!parsed.ok()) return parsed.status();
  return parsed->render(Json::parse(read(folder() / "conversations.json")).at(conversation), kNow);
}

constexpr const char* kQwen = "Qwen-Qwen2.5-7B-Instruct";
constexpr const char* kLlama = "meta-llama-Llama-3.2-3B-Instruct";

TEST(TemplateFieldCase, No7NullContentWithACallIsInThePrompt) {
  const std::pair<const char*, const char*> templates[] = {
      {kQwen, R"({"name": "get_weather", "arguments": {"place": "Zürich", "days": 2}})"},
      {kLlama, R"({"name": "get_weather", "parameters": {"place": "Zürich", "days": 2}})"},
      {"HuggingFaceTB-SmolLM3-3B", "{\"degrees\": 21.5}"},  // this template shows results, not calls
      {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", R"("arguments": {"place": "Zürich", "days": 2})"},
  };
  for (const auto& [name, call] : templates) {
    const auto rendered = render(name, "tool-call-null");
    ASSERT_TRUE(rendered.ok()) << name << ": " << rendered.status().message();
    EXPECT_NE(rendered->text.find(call), std::string::npos) << name << "\n" << rendered->text;
    EXPECT_EQ(rendered->text.find("None"), std::string::npos) << name;
  }
}

TEST(TemplateFieldCase, No8ToolTextThroughTojson) {
  const std::string arguments =
      R"({"b": "x > y & z 'q' é", "a": [1, 2.5, true, null, {"k": "ü\n"}], "big": 12345678901234567, )"
      R"("e": 1e-07, "f": 100000.0})";
  for (const char* name : {kQwen, kLlama}) {
    const auto rendered = render(name, "tool-odd");
    ASSERT_TRUE(rendered.ok()) << rendered.status().message();
    EXPECT_NE(rendered->text.find(arguments), std::string::npos) << rendered->text;
  }
}

TEST(TemplateFieldCase, No9AlternationIsTheTemplatesOwnMessage) {
  const auto rendered = render("google-gemma-2-2b-it", "two-users");
  ASSERT_FALSE(rendered.ok());
  EXPECT_EQ(rendered.status().code(), Code::invalid_argument);
  EXPECT_EQ(rendered.status().message(),
            "Conversation roles must alternate user/assistant/user/assistant/...");
}

std::vector<std::filesystem::path> template_files() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    if (entry.path().extension() == ".jinja") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string test_name(const testing::TestParamInfo<std::filesystem::path>& info) {
  std::string name = info.param.stem().string();
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, TemplateParity, testing::ValuesIn(template_files()), test_name);

}  // namespace
}  // namespace lithe::chat
