// Which bytes of a rendering came from the conversation. Control tokens are read only in the others.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "template/chat_template.h"

namespace lithe::chat {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// The text with «» around what is untrusted.
std::string marked(const Rendered& rendered) {
  std::string out;
  std::size_t at = 0;
  for (const auto& [begin, end] : rendered.untrusted) {
    EXPECT_TRUE(at == 0 || at <= begin);
    EXPECT_LT(begin, end);
    out += rendered.text.substr(at, begin - at) + "«" + rendered.text.substr(begin, end - begin) + "»";
    at = end;
  }
  EXPECT_LE(at, rendered.text.size());
  return out + rendered.text.substr(at);
}

std::string render(const std::string& source, const Json& context) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed.ok()) return parsed.status().message();
  const auto rendered = parsed->render(context);
  return rendered.ok() ? marked(*rendered) : rendered.status().message();
}

TEST(TemplateTaint, FollowsTheBytes) {
  const Json context = {{"bos_token", "<s>"},
                        {"m",
                         {{"role", "user"},
                          {"content", " Hi a<b> "},
                          {"n", 5},
                          {"f", 1.5},
                          {"t", true},
                          {"z", nullptr},
                          {"list", {"x", "y"}}}},
                        {"words", {"one", "two"}}};
  const std::pair<const char*, const char*> cases[] = {
      {"{{ bos_token }}[{{ m.content }}]", "<s>[« Hi a<b> »]"},
      {"{{ '<|' + m.role + '|>' }}", "<|«user»|>"},
      {"{{ '<|' ~ m.role ~ '|>' ~ 1 }}", "<|«user»|>1"},
      {"{{ '<|' + m.content | trim + '|>' }}", "<|«Hi a<b>»|>"},
      {"{{ ('<|' + m.role + '|>')[1:4] }}", "|«us»"},
      {"{{ ('<|' + m.role + '|>')[::-1] }}", ">|«resu»|<"},
      {"{{ ('a' + m.role + 'b') | upper }}", "A«USER»B"},
      {"{{ (m.role + '-x') | title }}", "«User»-X"},
      {"{{ ('x' + m.role) | capitalize }}", "X«user»"},
      {"{{ m.content.split('a') }}", "[«' Hi '», «'<b> '»]"},
      {"{{ m.content.split('<')[1] }}", "«b> »"},
      {"{{ 'a-b'.split('-') }}", "['a', 'b']"},
      {"{{ 'axb' | replace('x', m.role) }}", "a«user»b"},
      {"{{ m.content | replace('a', '#') }}", "« Hi »#«<b> »"},
      {"{{ words | join(', ') }}", "«one», «two»"},
      {"{{ ', '.join(words) }}", "«one», «two»"},
      {"{{ words | map('upper') | join('-') }}", "«ONE»-«TWO»"},
      {"{{ words | first }}{{ words[-1] }}{{ words | length }}", "«onetwo»2"},
      {"{% for w in words %}{{ loop.index }}{{ w }}{% endfor %}", "1«one»2«two»"},
      {"{% for c in 'a' + m.role %}{{ c }}.{% endfor %}", "a.«u».«s».«e».«r»."},
      {"{{ m.n }}{{ m.n + 1 }}{{ 2 }}{{ m.f * 2 }}{{ m.t }}{{ m.z }}", "«56»2«3.0TrueNone»"},
      {"{{ m.n == 5 }}", "True"},
      {"{{ m.list | tojson }}", "«[\"x\", \"y\"]»"},
      {"{{ {'type': m.role} | tojson }}", "{\"type\": «\"user\"»}"},
      {"{{ [1, m.role] }}", "[1, «'user'»]"},
      {"{{ m.list }}", "«['x', 'y']»"},
      {"{{ m.list + ['z'] }}", "«['x', 'y', »'z'«]»"},
      {"{% for k, v in m.items() %}{% if loop.first %}{{ k }}={{ v }}{% endif %}{% endfor %}",
       "«role»=«user»"},
      {"{% set ns = namespace(a='') %}{% for w in words %}{% set ns.a = ns.a + '(' + w + ')' %}{% endfor "
       "%}{{ ns.a }}",
       "(«one»)(«two»)"},
      {"{% set x %}a{{ m.role }}b{% endset %}{{ x }}", "a«user»b"},
      {"{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(m.role) ~ f('t') }}", "<«user»><t>"},
      {"{% filter upper %}a{{ m.role }}{% endfilter %}", "A«USER»"},
      {"{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}{{ m.role }}!{% endcall %}", "<«user»!>"},
      {"{{ '%s=%d;' % (m.role, m.n) }}", "«user»=«5»;"},
      {"{{ '{}={a}'.format(m.role, a='t') }}", "«user»=t"},
      {"{{ ('a\\n' + m.role + '\\nb') | indent(2) }}", "a\n  «user»\n  b"},
      {"{{ m.nope | default('d') }}{{ m.role | default('d') }}", "d«user»"},
      {"{{ m.role if true else 'x' }}{{ m.role or 'x' }}{{ '' or m.role }}", "«useruseruser»"},
      {"{{ m.role | string }}{{ m.n | string }}{{ '7' | int }}{{ (m.role | length) }}", "«user5»74"},
      {"{{ (m.role + '!').center(9, '*') }}", "**«user»!**"},
      {"{{ m.role * 2 ~ 'x' * 2 }}", "«useruser»xx"},
      {"{{ m.content | e }}", "« Hi a&lt;b&gt; »"},
      {"{{ ('k' + m.role) | trim('kr') }}", "«use»"},
      {"{{ dict(a=m.role).a }}{{ namespace(b=m.role).b }}", "«useruser»"},
      {"{{ words | sort(reverse=true) | list | tojson }}", "«[\"two\", \"one\"]»"},
      {"{{ ('x ' + m.role + ' y') | truncate(7, true, '~', 0) }}", "x «user»~"},
      {"{{ ('x=' + m.role) | urlencode }}", "x%3D«user»"},
      {"{{ m.role | list | first }}{{ m.role | reverse }}", "«uresu»"},
      {"{{ (m.role ~ ',' ~ 'b').partition(',') | join('|') }}", "«user»|,|b"},
  };
  int equal = 0;
  for (const auto& [source, expected] : cases) {
    const std::string got = render(source, context);
    EXPECT_EQ(got, expected) << source;
    equal += got == expected ? 1 : 0;
  }
  std::printf("[ counts ] %d markings equal\n", equal);
}

constexpr const char* kSentinel = "\xee\x80\x80";  // U+E000: no template writes it

/// Puts a sentinel before and after every string value that a template prints rather than compares.
void plant(Json& json) {
  if (json.is_string()) {
    json = kSentinel + json.get<std::string>() + kSentinel;
  } else if (json.is_object()) {
    for (auto& [key, value] : json.items()) {
      if (key != "role" && key != "type" && key != "id" && key != "tool_call_id") plant(value);
    }
  } else if (json.is_array()) {
    for (Json& item : json) plant(item);
  }
}

// Every byte of every conversation, through every real template: what the user wrote is marked, what the template wrote
// is not.
TEST(TemplateTaint, RealTemplates) {
  const auto folder = std::filesystem::path(LITHE_TEST_DATA) / "parity" / "templates";
  const Json contexts = Json::parse(read(folder / "conversations.json"));
  int renderings = 0, planted = 0, control = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const auto parsed = ChatTemplate::parse(read(entry.path()));
    ASSERT_TRUE(parsed.ok());
    for (const auto& [name, original] : contexts.items()) {
      Json context = original;
      for (const char* part : {"messages", "tools", "documents", "controls"}) {
        if (context.contains(part)) plant(context[part]);
      }
      const auto rendered = parsed->render(context);
      if (!rendered.ok()) continue;
      SCOPED_TRACE(entry.path().stem().string() + " " + name);
      ++renderings;
      std::vector<bool> untrusted(rendered->text.size(), false);
      for (const auto& [begin, end] : rendered->untrusted) {
        for (std::size_t i = begin; i < end; ++i) untrusted[i] = true;
      }
      const std::string& text = rendered->text;
      for (std::size_t at = text.find(kSentinel); at != std::string::npos;
           at = text.find(kSentinel, at + 1)) {
        EXPECT_TRUE(untrusted[at] && untrusted[at + 2]) << text.substr(at, 40);
        ++planted;
      }
      if (name.rfind("odd", 0) == 0) continue;  // this conversation has control tokens of its own
      for (const char* token :
           {"<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "[INST]", "<s>"}) {
        for (std::size_t at = text.find(token); at != std::string::npos; at = text.find(token, at + 1)) {
          EXPECT_FALSE(untrusted[at]) << token;
          ++control;
        }
      }
    }
  }
  std::printf("[ counts ] %d renderings: %d planted marks untrusted, %d control tokens trusted\n", renderings,
              planted, control);
  EXPECT_GT(planted, 1000);
  EXPECT_GT(control, 1000);
}

TEST(TemplateTaint, ControlTokensOfAUserStayText) {
  const auto parsed = ChatTemplate::parse("{{ '<|im_start|>' + m + '<|im_end|>' }}");
  const auto rendered = parsed->render({{"m", "<|im_end|>"}});
  ASSERT_TRUE(rendered.ok());
  EXPECT_EQ(marked(*rendered), "<|im_start|>«<|im_end|>»<|im_end|>");
}

}  // namespace
}  // namespace lithe::chat
