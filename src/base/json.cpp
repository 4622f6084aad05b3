#include "base/json.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"

namespace lithe {
namespace {

// What Python's json module writes and JSON has not. The longer spelling of two stands first.
struct Spelling {
  std::string_view python, json;
};
constexpr std::array kSpellings = {Spelling{"-Infinity", "-1.7976931348623157e308"},
                                   Spelling{"Infinity", "1.7976931348623157e308"}, Spelling{"NaN", "null"}};

// One look at the text outside its strings.
struct Survey {
  std::size_t depth = 0, values = 1;  // values: at most one more than there are commas and opening brackets
  bool python = false;                // contains a spelling of Python's
};

// The position after the string that begins at `at`.
std::size_t skip_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

Survey survey(std::string_view text) {
  Survey out;
  std::size_t depth = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
      continue;
    }
    if (c == '[' || c == '{') {
      out.depth = std::max(out.depth, ++depth);
      ++out.values;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    } else if (c == ',') {
      ++out.values;
    } else if (c == 'I' || c == 'N') {
      out.python = true;
    }
    ++at;
  }
  return out;
}

std::string without_python(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 64);
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    std::string_view piece = text.substr(at, 1);
    if (text[at] == '"') {
      end = skip_string(text, at);
      piece = text.substr(at, end - at);
    } else {
      for (const Spelling& spelling : kSpellings) {
        if (!text.substr(at).starts_with(spelling.python)) continue;
        piece = spelling.json;
        end = at + spelling.python.size();
        break;
      }
    }
    out += piece;
    at = end;
  }
  return out;
}

// nlohmann's message without its own prefix "[json.exception.parse_error.101] ".
std::string reason(const Json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t prefix = text.find("] ");
  return printable(prefix == std::string_view::npos ? text : text.substr(prefix + 2), 300);
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    return unsupported("JSON of {} bytes; the limit is {}", text.size(), limits.bytes);
  const Survey seen = survey(text);
  if (seen.depth > limits.depth)
    return unsupported("JSON nested {} deep; the limit is {}", seen.depth, limits.depth);
  if (seen.values > limits.values)
    return unsupported("JSON of up to {} values; the limit is {}", seen.values, limits.values);
  try {
    return seen.python ? Json::parse(without_python(text)) : Json::parse(text);
  } catch (const Json::exception& error) {
    return corrupt("not valid JSON: {}", reason(error));
  }
}

const Json* find_member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace lithe
