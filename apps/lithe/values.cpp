#include "values.h"

#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/text.h"

namespace lithe::app {
namespace {

template <typename T>
std::errc parse_all(std::string_view text, T& value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && rest != text.data() + text.size()) return std::errc::invalid_argument;
  return error;
}

std::string range_text(std::int64_t least, std::int64_t most) {
  if (most == std::numeric_limits<std::int64_t>::max()) return fmt::format("at least {}", least);
  return fmt::format("in [{}, {}]", least, most);
}

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

}  // namespace

Result<std::int64_t> parse_integer(const std::string& text) {
  std::int64_t value = 0;
  const std::errc error = parse_all(text, value);
  if (error == std::errc::result_out_of_range) return invalid("{} does not fit in 64 bits", printable(text));
  if (error != std::errc()) return invalid("{} is no whole number", in_quotes(text));
  return value;
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const bool any = least == std::numeric_limits<std::int64_t>::min();
  const auto check = [least, most](std::string& text) -> std::string {
    const auto value = parse_integer(text);
    if (!value.ok()) return value.status().message();
    if (*value < least || *value > most)
      return fmt::format("{} must lie {}", *value, range_text(least, most));
    text = std::to_string(*value);
    return {};
  };
  return CLI::Validator(check, any ? "" : range_text(least, most));
}

CLI::Validator real_number() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        double value = 0;
        const std::errc error = parse_all(text, value);
        if (error == std::errc::result_out_of_range) return in_quotes(text) + " is too large or too small";
        return error == std::errc() ? "" : in_quotes(text) + " is no number";
      },
      "");
}

CLI::Validator one_of(std::initializer_list<const char*> names) {
  const std::vector<std::string> all(names.begin(), names.end());
  return CLI::Validator(
      [all](std::string& text) -> std::string {
        for (const std::string& name : all) {
          if (text == name) return {};
        }
        return fmt::format("{} must be {}", in_quotes(text), list_text(all));
      },
      "");
}

Result<bool> parse_switch(const std::string& text) {
  for (const char* yes : {"true", "on", "yes", "1"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"false", "off", "no", "0"}) {
    if (text == no) return false;
  }
  return invalid("{} is neither true nor false", in_quotes(text));
}

}  // namespace lithe::app
