#include "layers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <optional>
#include <string_view>

#include "base/env.h"
#include "base/file.h"

namespace lithe::app {
namespace {

/// Flags of llama.cpp and vLLM that mean nothing here, and the flag that serves their purpose best.
struct PeerFlag {
  std::string_view name, nearest, why;
};
constexpr std::string_view kCpuOnly = "Lithe runs on CPUs";
constexpr std::array kPeerFlags{
    PeerFlag{"n-gpu-layers", "threads", kCpuOnly},
    PeerFlag{"gpu-layers", "threads", kCpuOnly},
    PeerFlag{"ngl", "threads", kCpuOnly},
    PeerFlag{"split-mode", "threads", kCpuOnly},
    PeerFlag{"tensor-split", "threads", kCpuOnly},
    PeerFlag{"main-gpu", "threads", kCpuOnly},
    PeerFlag{"device", "threads", kCpuOnly},
    PeerFlag{"gpu-memory-utilization", "kv-cache-memory", kCpuOnly},
    PeerFlag{"swap-space", "kv-cache-memory", "requests are recomputed, not swapped"},
    PeerFlag{"cpu-offload-gb", "kv-cache-memory", kCpuOnly},
    PeerFlag{"no-kv-offload", "kv-cache-memory", kCpuOnly},
    PeerFlag{"flash-attn", "attention", ""},
    PeerFlag{"fa", "attention", ""},
    PeerFlag{"dtype", "precision", "weights keep the file's type"},
    PeerFlag{"quantization", "precision", "weights keep the file's type; `lithe convert` changes it"},
    PeerFlag{"mlock", "kv-cache-memory", "weights are repacked into memory of their own"},
    PeerFlag{"mirostat", "typical-p", ""},
    PeerFlag{"tfs", "typical-p", ""},
    PeerFlag{"xtc-probability", "min-p", ""},
    PeerFlag{"dry-multiplier", "repetition-penalty", ""},
    PeerFlag{"samplers", "top-p", "the order is fixed: see --help"},
    PeerFlag{"no-cnv", "raw", ""},
    PeerFlag{"no-conversation", "raw", ""},
    PeerFlag{"cnv", "raw", "`lithe chat` is the conversation"},
    PeerFlag{"conversation", "raw", "`lithe chat` is the conversation"},
    PeerFlag{"interactive", "raw", "`lithe chat` is the conversation"},
    PeerFlag{"log-disable", "log-level", ""},
    PeerFlag{"perplexity", "text", "`lithe eval` measures it"},
    PeerFlag{"enforce-eager", "attention", ""},
    PeerFlag{"max-seq-len-to-capture", "max-model-len", ""},
    PeerFlag{"rope-scaling", "max-model-len", "the file's own scaling is used"},
    PeerFlag{"keep", "max-model-len", "nothing is shifted out of the context"},
};

/// Edits (insertions, deletions, replacements) between two words.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> long_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  return names;
}

bool has_flag(const CLI::App& command, std::string_view name) {
  const auto names = long_names(command);
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<const CLI::App*> all_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto commands = all_commands(app);
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [&](const CLI::App* c) { return c->get_name() == name; });
  return found == commands.end() ? nullptr : *found;
}

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

Status set_value(CLI::Option& option, const std::string& flag, const std::string& value,
                 const std::string& source) {
  try {
    const bool is_switch = option.get_items_expected_max() == 0;
    const std::string text = is_switch ? option.get_flag_value(flag, value) : value;
    option.run_callback_for_default()->default_val(text);
  } catch (const CLI::Error& error) {
    return invalid("{}: {}", source, error.what());
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
      return invalid("{}:{}: \"{}\" is not key = value", path, line_number, line);
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
    for (const auto& [section, keys] : config.sections) {
      const CLI::App* only = section.empty() ? nullptr : find_command(app, section);
      if (!section.empty() && only == nullptr) return invalid("{}: there is no command [{}]", path, section);
      for (const auto& [key, value] : keys) {
        const auto commands = all_commands(app);
        const bool known = only != nullptr
                               ? has_flag(*only, key)
                               : std::any_of(commands.begin(), commands.end(),
                                             [&, k = key](const CLI::App* sub) { return has_flag(*sub, k); });
        if (!known) return unknown_argument(only != nullptr ? *only : command, "--" + key).with_context(path);
      }
    }
  }
  for (CLI::Option* option : command.get_options([](const CLI::Option*) { return true; })) {
    if (option->count() > 0) continue;
    for (const std::string& flag : option->get_lnames()) {
      if (flag == "help" || flag == "config") continue;
      if (const auto value = env(env_name(flag))) {
        LITHE_RETURN_IF_ERROR(set_value(*option, flag, *value, "LITHE_" + env_name(flag)));
        break;
      }
      const auto from = [&](const std::string& section) -> std::optional<std::string> {
        const auto keys = config.sections.find(section);
        if (keys == config.sections.end()) return std::nullopt;
        const auto found = keys->second.find(flag);
        return found == keys->second.end() ? std::nullopt : std::optional(found->second);
      };
      auto value = from(command.get_name());
      if (!value) value = from("");
      if (!value) continue;
      LITHE_RETURN_IF_ERROR(set_value(*option, flag, *value, fmt::format("{}: {}", config.path, flag)));
      break;
    }
  }
  return {};
}

std::vector<std::string> accept_single_dashes(const CLI::App& app, std::vector<std::string> arguments) {
  const CLI::App* command = nullptr;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    if (argument == "--") break;
    if (command == nullptr) {
      command = find_command(app, argument);
      continue;
    }
    if (argument.size() < 3 || argument[0] != '-' ||
        std::isalpha(static_cast<unsigned char>(argument[1])) == 0)
      continue;
    if (i > 0 && (arguments[i - 1] == "-p" || arguments[i - 1] == "--prompt")) continue;  // the user's words
    const std::string name = argument.substr(1, argument.find('=') - 1);
    const bool peer = std::any_of(kPeerFlags.begin(), kPeerFlags.end(),
                                  [&](const auto& flag) { return flag.name == name; });
    if (peer || has_flag(*command, name)) argument.insert(0, "-");
  }
  return arguments;
}

Status unknown_argument(const CLI::App& command, const std::string& argument) {
  const std::string help = fmt::format("see `lithe {} --help`", command.get_name());
  if (argument.size() < 2 || argument[0] != '-') {
    return invalid("\"{}\" is one argument too many for `lithe {}`: {}", argument, command.get_name(), help);
  }
  const std::size_t first = std::min(argument.find_first_not_of('-'), argument.size());  // "---" has no name
  const std::string name = argument.substr(first, argument.find('=') - first);
  for (const PeerFlag& peer : kPeerFlags) {
    if (peer.name != name) continue;
    const std::string why = peer.why.empty() ? "" : fmt::format(" ({})", peer.why);
    if (!has_flag(command, peer.nearest)) return invalid("{} has no meaning here{}: {}", argument, why, help);
    return invalid("{} has no meaning here{}: the nearest flag is --{}", argument, why, peer.nearest);
  }
  const auto names = long_names(command);
  const auto nearest = std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return distance(a, name) < distance(b, name);
  });
  if (nearest == names.end()) return invalid("`lithe {}` knows no flag {}", command.get_name(), argument);
  return invalid("`lithe {}` knows no flag {}: the nearest is --{}", command.get_name(), argument, *nearest);
}

}  // namespace lithe::app
