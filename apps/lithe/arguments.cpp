#include "arguments.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "values.h"

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
std::vector<std::string_view> long_names(const CLI::App& command) {
  std::vector<std::string_view> names;
  for (const CLI::Option* option : command.get_options()) {
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  return names;
}

std::string see_help(const CLI::App& command) {
  const bool root = command.get_parent() == nullptr;
  return fmt::format("see `lithe {}--help`", root ? "" : command.get_name() + " ");
}

bool takes_value(const CLI::Option* option) {
  return option != nullptr && !is_switch(*option);
}

/// "--name" or "--name=value".
struct LongFlag {
  std::string dashed, value;
  bool has_value = false;

  explicit LongFlag(const std::string& argument) {
    const auto equals = argument.find('=');
    dashed = argument.substr(0, equals);
    has_value = equals != std::string::npos;
    if (has_value) value = argument.substr(equals + 1);
  }
};

bool one_dash_for_two(const CLI::App& command, const std::string& argument) {
  if (argument.size() < 3 || argument[0] != '-' || argument[1] == '-') return false;
  const std::string name = argument.substr(1, argument.find('=') - 1);
  const bool peer =
      std::any_of(kPeerFlags.begin(), kPeerFlags.end(), [&](const auto& flag) { return flag.name == name; });
  return peer || has_flag(command, name);
}

/// Does the value of "-v", "-p" or "-vp" follow as the next argument?
bool short_flags_want_value(const CLI::App& command, const std::string& argument) {
  for (std::size_t i = 1; i < argument.size(); ++i) {
    const CLI::Option* option = command.get_option_no_throw(std::string("-") + argument[i]);
    if (option == nullptr) return false;
    if (takes_value(option)) return i + 1 == argument.size();
  }
  return false;
}

}  // namespace

std::vector<const CLI::App*> all_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto commands = all_commands(app);
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [&](const CLI::App* c) { return c->get_name() == name; });
  return found == commands.end() ? nullptr : *found;
}

bool has_flag(const CLI::App& command, std::string_view name) {
  const auto names = long_names(command);
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_switch(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}

bool may_be_empty(const CLI::Option& option) {
  for (const char* name : {"--prompt", "--system", "--bos-token", "--eos-token"}) {
    if (option.get_name() == name) return true;
  }
  return option.get_name(true) == "text";  // of `lithe tokenize`
}

Result<std::vector<std::string>> accept_arguments(const CLI::App& app,
                                                  const std::vector<std::string>& given) {
  std::vector<std::string> out;
  const CLI::App* command = nullptr;
  bool value_follows = false, plain = false;  // plain: after "--"
  for (std::string argument : given) {
    if (command == nullptr) command = find_command(app, argument);
    plain = plain || (argument == "--" && !value_follows);
    if (plain || value_follows || command == nullptr || argument.size() < 2 || argument[0] != '-') {
      value_follows = false;
      out.push_back(std::move(argument));
      continue;
    }
    if (one_dash_for_two(*command, argument)) argument.insert(0, "-");
    if (argument[1] != '-') {
      value_follows = short_flags_want_value(*command, argument);
      out.push_back(std::move(argument));
      continue;
    }
    const LongFlag flag(argument);
    const CLI::Option* option = command->get_option_no_throw(flag.dashed);
    if (option == nullptr || (is_switch(*option) && !flag.has_value)) {
      out.push_back(std::move(argument));
      continue;
    }
    if (is_switch(*option)) {
      const auto on = parse_switch(flag.value);
      if (!on.ok()) {
        return invalid("{} is a switch, to be given alone or as true or false, and {}: {}", flag.dashed,
                       on.status().message(), see_help(*command));
      }
      out.push_back(flag.dashed + (*on ? "=true" : "=false"));
      continue;
    }
    out.push_back(flag.dashed);
    value_follows = !flag.has_value;
    if (flag.has_value) out.push_back(flag.value);
  }
  return out;
}

Status check_arguments(const CLI::App& command) {
  for (const std::string& extra : command.remaining()) {
    if (extra != "--") return unknown_argument(command, extra);  // CLI11 counts the mark as left over, too
  }
  for (const CLI::Option* option : command.get_options()) {
    const auto& results = option->results();
    if (is_switch(*option) || may_be_empty(*option)) continue;
    if (std::find(results.begin(), results.end(), "") == results.end()) continue;
    return invalid("{}: the value is empty: {}", option->get_name(), see_help(command));
  }
  return {};
}

Status no_command(const CLI::App& app) {
  const std::vector<std::string> given = app.remaining();
  if (given.empty()) return invalid("no command given, such as run, chat or inspect: {}", see_help(app));
  const std::string shown = printable(given.front());
  if (given.front().starts_with('-'))
    return invalid("{} comes before any command, where no flag is known: {}", shown, see_help(app));
  std::vector<std::string_view> names;
  for (const CLI::App* command : all_commands(app)) names.push_back(command->get_name());
  const std::string_view name = nearest_name(given.front(), names);
  return invalid("there is no command {}: the nearest is {}, {}", in_quotes(given.front()),
                 name.empty() ? "--help" : name, see_help(app));
}

Status unknown_argument(const CLI::App& command, const std::string& argument) {
  const std::string help = see_help(command), shown = printable(argument);
  if (argument.size() < 2 || argument[0] != '-') {
    return invalid("{} is one argument too many for `lithe {}`: {}", in_quotes(argument), command.get_name(),
                   help);
  }
  const std::size_t first = std::min(argument.find_first_not_of('-'), argument.size());  // "---" has no name
  const std::string name = argument.substr(first, argument.find('=') - first);
  for (const PeerFlag& peer : kPeerFlags) {
    if (peer.name != name) continue;
    const std::string why = peer.why.empty() ? "" : fmt::format(" ({})", peer.why);
    if (!has_flag(command, peer.nearest)) return invalid("{} has no meaning here{}: {}", shown, why, help);
    return invalid("{} has no meaning here{}: the nearest flag is --{}", shown, why, peer.nearest);
  }
  const std::string_view flag = nearest_name(name, long_names(command));
  return invalid("`lithe {}` knows no flag {}: the nearest is --{}", command.get_name(), shown,
                 flag.empty() ? "help" : flag);
}

Status missing_argument(const CLI::App& command, const CLI::Option& option) {
  return invalid("`lithe {}` needs {}: {}", command.get_name(), option.get_name(), see_help(command));
}

Status usage_error(const CLI::App& command, const CLI::Error& error) {
  std::string what = error.what();
  const std::string name = what.substr(0, what.find(": "));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool twice = what.find("At Most") != std::string::npos;
    what = name + (twice ? " is given more than once" : " needs a value after it");
  }
  return invalid("{}: {}", printable(what, 400), see_help(command));
}

}  // namespace lithe::app
