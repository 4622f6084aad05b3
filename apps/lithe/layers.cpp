#include "layers.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "arguments.h"
#include "base/env.h"
#include "base/file.h"
#include "base/text.h"
#include "values.h"

namespace lithe::app {
namespace {

std::string trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

std::string env_name(std::string_view flag) {
  std::string name;
  for (const char c : flag)
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

/// What a layer cannot give.
bool command_line_only(std::string_view flag) {
  return flag == "help" || flag == "config";
}

/// What a layer says about an option, under one of its names.
struct Found {
  std::string flag, value, source;
};

/// The whole environment comes before the whole file, and a command's section before the lines for all commands:
/// whichever of its names an option has there.
std::optional<Found> find_value(const CLI::Option& option, const std::string& command,
                                const ConfigFile& config) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) {
    if (!command_line_only(name)) names.push_back(name);
  }
  for (const std::string& flag : names) {
    const auto value = env(env_name(flag));  // an empty variable is one that is not set
    if (value && !value->empty()) return Found{flag, *value, "LITHE_" + env_name(flag)};
  }
  for (const std::string& section : {command, std::string()}) {
    const auto keys = config.sections.find(section);
    if (keys == config.sections.end()) continue;
    for (const std::string& flag : names) {
      const auto value = keys->second.find(flag);
      if (value == keys->second.end()) continue;
      return Found{flag, value->second, fmt::format("{}: {}", shown_path(config.path), flag)};
    }
  }
  return std::nullopt;
}

Status set_value(const CLI::App& command, CLI::Option& option, const Found& found) {
  std::string text = found.value;
  if (is_switch(option)) {
    const auto on = parse_switch(found.value);
    if (!on.ok()) return invalid("{}: {}", found.source, on.status().message());
    text = option.get_flag_value(found.flag, *on ? "true" : "false");
  } else if (found.value.empty() && !may_be_empty(option)) {
    return invalid("{}: the value is empty", found.source);
  }
  try {
    option.run_callback_for_default()->default_val(text);
  } catch (const CLI::Error& error) {
    return usage_error(command, error).with_context(found.source);
  }
  return {};
}

}  // namespace

Result<ConfigFile> read_config(const std::string& path) {
  LITHE_ASSIGN_OR_RETURN(const std::string text, read_file(path, std::size_t{1} << 20));
  ConfigFile config{path, {}};
  std::string section;
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = trim(std::string_view(text).substr(at, end - at));
    at = end + 1;
    ++line_number;
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line.front() == '[' && line.back() == ']') {
      section = trim(std::string_view(line).substr(1, line.size() - 2));
      continue;
    }
    const auto equals = line.find('=');
    std::string key = trim(std::string_view(line).substr(0, equals));
    if (equals == std::string::npos || key.empty()) {
      return invalid("{}:{}: {} is not key = value", shown_path(path), line_number, in_quotes(line));
    }
    std::string value = trim(std::string_view(line).substr(equals + 1));
    const bool quoted =
        value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front();
    if (quoted) value = value.substr(1, value.size() - 2);
    std::replace(key.begin(), key.end(), '_', '-');
    config.sections[section][key] = value;
  }
  return config;
}

Status apply_layers(const CLI::App& app, CLI::App& command, const std::string& config_path) {
  ConfigFile config;
  const std::string path = config_path.empty() ? env("CONFIG").value_or("") : config_path;
  if (!path.empty()) {
    LITHE_ASSIGN_OR_RETURN(config, read_config(path));
    const std::string shown = shown_path(path);
    for (const auto& [section, keys] : config.sections) {
      const CLI::App* only = section.empty() ? nullptr : find_command(app, section);
      if (!section.empty() && only == nullptr)
        return invalid("{}: there is no command [{}]", shown, printable(section));
      for (const auto& [key, value] : keys) {
        if (command_line_only(key))
          return invalid("{}: {} belongs on the command line, not in a file", shown, key);
        const auto commands = all_commands(app);
        const bool known = only != nullptr
                               ? has_flag(*only, key)
                               : std::any_of(commands.begin(), commands.end(),
                                             [&, k = key](const CLI::App* sub) { return has_flag(*sub, k); });
        if (!known)
          return unknown_argument(only != nullptr ? *only : command, "--" + key).with_context(shown);
      }
    }
  }
  for (CLI::Option* option : command.get_options([](const CLI::Option*) { return true; })) {
    if (option->count() > 0) continue;
    const auto found = find_value(*option, command.get_name(), config);
    if (found) {
      LITHE_RETURN_IF_ERROR(set_value(command, *option, *found));
    } else if (option->get_required()) {
      return missing_argument(command, *option);
    }
  }
  return {};
}

}  // namespace lithe::app
