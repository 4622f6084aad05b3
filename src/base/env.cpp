#include "base/env.h"

#include <map>
#include <string_view>

extern char** environ;  // NOLINT

namespace lithe {
namespace {

std::map<std::string, std::string> read_environment() {
  std::map<std::string, std::string> values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    values.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return values;
}

}  // namespace

std::optional<std::string> system_env(const std::string& name) {
  static const auto values = read_environment();
  const auto found = values.find(name);
  if (found == values.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> env(const std::string& name) {
  return system_env("LITHE_" + name);
}

}  // namespace lithe
