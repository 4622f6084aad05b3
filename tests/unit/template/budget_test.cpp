// What a hostile template or conversation may cost: every one of these ends soon, with an error or a small result.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "template/chat_template.h"

namespace lithe::chat {
namespace {

std::string repeat(const std::string& piece, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += piece;
  return out;
}

Status outcome(const std::string& source, const Json& context = Json::object(),
               const TemplateLimits& limits = {}) {
  const auto parsed = ChatTemplate::parse(source, limits);
  if (!parsed.ok()) return parsed.status();
  const auto rendered = parsed->render(context);
  return rendered.ok() ? Status() : rendered.status();
}

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

TEST(TemplateBudget, DeepSourceIsRefused) {
  constexpr int kMany = 100'000;
  const std::pair<const char*, std::string> sources[] = {
      {"parentheses", "{{ " + repeat("(", kMany) + "1" + repeat(")", kMany) + " }}"},
      {"open parentheses", "{{ " + repeat("(", kMany)},
      {"lists", "{{ " + repeat("[", kMany) + repeat("]", kMany) + " }}"},
      {"dicts", "{{ " + repeat("{1:", kMany) + "1" + repeat("}", kMany) + " }}"},
      {"not", "{{ " + repeat("not ", kMany) + "1 }}"},
      {"minus", "{{ " + repeat("-", kMany) + "1 }}"},
      {"sums", "{{ 1" + repeat("+1", kMany) + " }}"},
      {"attributes", "{{ a" + repeat(".a", kMany) + " }}"},
      {"subscripts", "{{ a" + repeat("[0]", kMany) + " }}"},
      {"calls", "{{ a" + repeat("()", kMany) + " }}"},
      {"filters", "{{ a" + repeat("|list", kMany) + " }}"},
      {"and", "{{ 1" + repeat(" and 1", kMany) + " }}"},
      {"conditionals", "{{ 1" + repeat(" if 1 else 1", kMany / 2) + " }}"},
      {"ifs", repeat("{% if 1 %}", 40'000)},
      {"fors", repeat("{% for a in b %}", 40'000)},
      {"targets", "{% set " + repeat("(", kMany) + "a" + repeat(")", kMany) + " = 1 %}"},
      {"set filters", "{% set a" + repeat("|list", kMany) + " %}{% endset %}"},
  };
  int refused = 0;
  for (const auto& [name, source] : sources) {
    const Stopwatch watch;
    EXPECT_EQ(outcome(source).code(), Code::corrupt) << name << ": " << outcome(source).message();
    EXPECT_LT(watch.seconds(), 5) << name;
    ++refused;
  }
  std::printf("[ counts ] %d deep sources refused\n", refused);
}

TEST(TemplateBudget, WideSourceIsFine) {
  EXPECT_TRUE(outcome("{% if 0 %}" + repeat("{% elif 0 %}x", 20'000) + "{% endif %}").ok());
  EXPECT_TRUE(outcome("{{ 1" + repeat(" ~ 1", 20'000) + " }}").ok());
  EXPECT_TRUE(outcome("{{ 0" + repeat(" < 1 > 0", 20'000) + " }}").ok());
  EXPECT_TRUE(outcome(repeat("{{ 1 }}\n", 40'000)).ok());
  EXPECT_TRUE(outcome("{% set a = [" + repeat("'x',", 40'000) + "] %}").ok());
}

TEST(TemplateBudget, EndlessTemplatesRunOut) {
  const std::pair<const char*, std::string> sources[] = {
      {"loops", "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"},
      {"output", "{% for a in range(100000) %}{{ 'x' * 10000 }}{% endfor %}"},
      {"doubling text",
       "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"},
      {"doubling list",
       "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"},
      {"text times", "{{ 'ab' * 1000000000000000000000 }}"},
      {"list times", "{{ [1] * 1000000000000000000000 }}"},
      {"macro", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"},
      {"two macros", "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}"},
      {"macro tree",
       "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}"},
      {"callers", "{% macro f() %}{% call f() %}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}"},
      {"loop of itself", "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}"},
      {"shared list",
       "{% set ns = namespace(x=[]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
       "ns.x }}"},
      {"shared list equal",
       "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% set "
       "ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}"},
      {"shared list tojson",
       "{% set ns = namespace(x=1) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
       "ns.x | tojson }}"},
      {"shared tuple hash",
       "{% set ns = namespace(x=1) %}{% for i in range(99) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ "
       "{ns.x: 1} }}"},
      {"deep list",
       "{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}"},
      {"deep dict",
       "{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}"},
      {"deep tuple key",
       "{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = {(ns.x,): 1}.keys() | list "
       "%}{% endfor %}"},
      {"deep methods",
       "{% set ns = namespace(x={}) %}{% for i in range(100000) %}{% set ns.x = [ns.x][0].get %}{% set ns.x "
       "= {'a': ns.x} %}{% endfor %}"},
      {"circle", "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}"},
      {"replace",
       "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x | replace('a', "
       "'aa') %}{% endfor %}"},
      {"wide field", "{{ 'a'.center(1000000000000) }}"},
      {"wide format", "{{ '%1000000000s' % 'a' }}"},
      {"wide braces", "{{ '{:>1000000000}'.format('a') }}"},
      {"precise", "{{ '%.1000000f' % 1.5 }}"},
      {"power", "{{ 10 ** 1000 }}"},
      {"json indent", "{{ [1] | tojson(indent=1000000000) }}"},
      {"indent", "{{ 'a' | indent(1000000000) }}"},
      {"searching", "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ 'b' in x }}{% endfor %}"},
      {"comparing",
       "{% set x = 'a' * 1000000 %}{% set y = 'a' * 1000000 %}{% for i in range(100000) %}{{ x == y }}{% "
       "endfor %}"},
      {"measuring", "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ x | length }}{% endfor %}"},
      {"splitting",
       "{% set x = 'a ' * 1000000 %}{% for i in range(100000) %}{% set y = x.split() %}{% endfor %}"},
      {"iterating",
       "{% set x = range(100000) | list %}{% for a in x %}{% for b in x[1:] %}{% break %}{% endfor %}{% "
       "endfor %}"},
      {"namespaces",
       "{% for a in range(100000) %}{% for b in range(1000) %}{% set c = namespace(a=1, b=2) %}{% endfor "
       "%}{% endfor %}"},
      {"macros in loops",
       "{% for a in range(100000) %}{% for b in range(1000) %}{% macro f() %}{% endmacro %}{% endfor %}{% "
       "endfor %}"},
      {"sorting", "{% for a in range(100000) %}{% set x = range(10000) | sort(reverse=true) %}{% endfor %}"},
      {"grouping", "{% for a in range(100000) %}{% set x = ['a', 'b'] * 1000 | groupby(0) %}{% endfor %}"},
      {"time", "{% for a in range(100000) %}{{ strftime_now('%1000d%1000d' * 100) }}{% endfor %}"},
  };
  TemplateLimits limits;
  limits.steps /= 5;  // so that the test does not take a minute under sanitizers
  int ended = 0;
  double slowest = 0;
  for (const auto& [name, source] : sources) {
    const Stopwatch watch;
    const Status status = outcome(source, Json::object(), limits);
    EXPECT_FALSE(status.ok()) << name;
    EXPECT_TRUE(status.code() == Code::resource_exhausted || status.code() == Code::invalid_argument)
        << name << ": " << status.message();
    slowest = std::max(slowest, watch.seconds());
    EXPECT_LT(watch.seconds(), 60) << name;
    ++ended;
  }
  std::printf("[ counts ] %d endless templates ended, the slowest after %.2f s\n", ended, slowest);
}

// The number whose hash in a dict is `hash`: chosen so that all look-ups begin at the same slot.
std::uint64_t key_of_hash(std::uint64_t hash) {
  const auto inverse = [](std::uint64_t odd) {  // modulo 2^64, by Newton's iteration
    std::uint64_t x = odd;
    for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
    return x;
  };
  hash = (hash ^ (hash >> 33)) * inverse(0xC4CEB9FE1A85EC53u);
  hash = (hash ^ (hash >> 33)) * inverse(0xFF51AFD7ED558CCDu);
  return hash ^ (hash >> 33);
}

TEST(TemplateBudget, CollidingKeysArePaidFor) {
  constexpr int kKeys = 20'000;
  std::string colliding, multiples, variables;
  for (std::uint64_t i = 1; i <= kKeys; ++i) {
    colliding += std::to_string(key_of_hash(i << 32)) + ":1,";
    multiples += std::to_string(i << 20) + ":1,";
    variables += "{% set a" + std::to_string(i) + " = 1 %}";
  }
  const std::string last = std::to_string(key_of_hash(std::uint64_t{kKeys} << 32));
  const std::string often = "{% for a in range(100000) %}{% for b in range(100000) %}{% set x = ";
  const std::string sources[] = {
      "{% set d = {" + colliding + "} %}",
      "{% set d = {" + multiples + "} %}" + often + "d[20971520000] %}{% endfor %}{% endfor %}",
      "{% set d = {" + colliding.substr(0, colliding.size() / 4 / 22 * 22) + "1:1} %}" + often + "d[" + last +
          "] %}{% endfor %}{% endfor %}",
      variables + often + "a20000 %}{% endfor %}{% endfor %}",
      "{% macro f(" +
          [] {
            std::string names;
            for (int i = 0; i < 4000; ++i) names += (i == 0 ? "a" : ",a") + std::to_string(i);
            return names;
          }() +
          ") %}{% endmacro %}" + often + "f(a3999=1) %}{% endfor %}{% endfor %}",
  };
  TemplateLimits limits;
  limits.steps /= 10;
  for (const std::string& source : sources) {
    const Stopwatch watch;
    const Status status = outcome(source, Json::object(), limits);
    EXPECT_EQ(status.code(), Code::resource_exhausted) << status.message();
    EXPECT_LT(watch.seconds(), 3) << source.substr(source.size() - 120);
    std::printf("[ counts ] ended after %.2f s\n", watch.seconds());
  }
  // Keys that nobody chose do not collide.
  EXPECT_TRUE(outcome("{% set d = {" + multiples + "} %}").ok());
}

// A namespace is searched like a dict, whatever its size, and remembers the order.
TEST(TemplateBudget, LargeNamespaces) {
  std::string source = "{% set d = namespace(z=1, a=2) %}";
  for (int i = 0; i < 20'000; ++i) source += "{% set d.a" + std::to_string(i) + "=1%}";
  const Stopwatch watch;
  const auto parsed = ChatTemplate::parse(source + "{{ d.a19999 }}{{ (d | string)[:27] }}");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const auto rendered = parsed->render(Json::object());
  ASSERT_TRUE(rendered.ok()) << rendered.status().message();
  EXPECT_EQ(rendered->text, "1<Namespace {'z': 1, 'a': 2,");
  EXPECT_LT(watch.seconds(), 3);
}

TEST(TemplateBudget, HostileConversations) {
  Json deep = Json::array();
  for (int i = 0; i < 100'000; ++i) {
    Json outer = Json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  const Status status = outcome("{{ messages }}", {{"messages", std::move(deep)}});
  EXPECT_EQ(status.code(), Code::resource_exhausted) << status.message();
  EXPECT_EQ(outcome("x", Json::array()).code(), Code::invalid_argument);
  EXPECT_EQ(outcome("x", nullptr).code(), Code::invalid_argument);
  EXPECT_TRUE(outcome("{{ messages }}", {{"messages", "\xff\xfe\xc3"}})
                  .ok());  // not UTF-8: passed on, never read past
  EXPECT_TRUE(
      outcome("{{ messages[1:] | upper | tojson | title }}{{ messages[-1] }}", {{"messages", "\xf0\x9f\x98"}})
          .ok());
}

TEST(TemplateBudget, Sources) {
  EXPECT_EQ(outcome("\xff").code(), Code::corrupt);
  EXPECT_EQ(outcome(std::string(2 << 20, ' ')).code(), Code::resource_exhausted);
  EXPECT_EQ(outcome("{% include 'x' %}").code(), Code::unsupported);
  EXPECT_EQ(outcome("{{ 'a' | urlize }}").code(), Code::unsupported);
  const Status status = outcome("a\nb {{ 1 +* 2 }}");
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_EQ(status.message(), "chat template, line 2, column 9: unexpected '*'");
  const Status late = outcome("\n\n{% if true %}\n{{ a.b }}{% endif %}");
  EXPECT_EQ(late.message(), "chat template, line 4: 'a' is undefined");
}

// A quadratic renderer would need a thousand times its steps here.
TEST(TemplateBudget, LongConversationsAreLinear) {
  const auto parsed = ChatTemplate::parse(
      "{% set ns = namespace(all='', list='') %}{% for m in messages %}"
      "{% set ns.all = ns.all + '<|' + m.role + '|>' + m.content | trim + '\n' %}"
      "{% set ns.list = ns.list ~ loop.index ~ (', ' if not loop.last) %}{% endfor %}{{ ns.all }}{{ ns.list "
      "| length }}");
  ASSERT_TRUE(parsed.ok());
  double seconds[2];
  for (const int n : {0, 1}) {
    const int count = n == 0 ? 4'000 : 32'000;
    Json messages = Json::array();
    for (int i = 0; i < count; ++i) {
      messages.push_back(
          {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", repeat("words and ", 40)}});
    }
    const Json context = {{"messages", std::move(messages)}};
    const Stopwatch watch;
    const auto rendered = parsed->render(context);
    seconds[n] = watch.seconds();
    ASSERT_TRUE(rendered.ok()) << rendered.status().message();
    EXPECT_GT(rendered->text.size(), static_cast<std::size_t>(count) * 400);
  }
  std::printf("[ counts ] 4,000 messages in %.3f s, 32,000 in %.3f s\n", seconds[0], seconds[1]);
}

TEST(TemplateBudget, ThreadsShareATemplate) {
  const auto parsed = ChatTemplate::parse(
      "{% set x = 'start' %}{% macro f(a) %}[{{ a }}]{% endmacro %}"
      "{% for m in messages %}{% set y = '<' + m + '>' %}{{ 'const' + y + x }}{{ f(y) }}{% endfor %}");
  ASSERT_TRUE(parsed.ok());
  const Json context = {{"messages", {"a", "b", "c"}}};
  const std::string expected = parsed->render(context)->text;
  std::vector<std::thread> threads;
  std::vector<int> equal(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i)
        equal[static_cast<std::size_t>(t)] += parsed->render(context)->text == expected ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  for (const int count : equal) EXPECT_EQ(count, 500);
}

}  // namespace
}  // namespace lithe::chat
