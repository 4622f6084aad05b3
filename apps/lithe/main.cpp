#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments.h"
#include "base/log.h"
#include "base/text.h"
#include "command.h"
#include "console.h"
#include "layers.h"
#include "values.h"

namespace lithe::app {
namespace {

struct Command {
  const char* name;
  const char* help;
  Run (*add)(CLI::App& app);
};

constexpr std::initializer_list<Command> kCommands = {
    {"run", "Answer one prompt", add_run},
    {"chat", "Talk with a model", add_chat},
    {"bench", "Measure speed: prefill, decode, depth, batches", add_bench},
    {"eval", "Measure quality: perplexity, divergence from a reference, logits", add_eval},
    {"embed", "Turn texts into vectors", add_embed},
    {"rerank", "Order documents by their worth for a query", add_rerank},
    {"convert", "Write a model file in another type", add_convert},
    {"inspect", "Show what is in a model file and what it needs", add_inspect},
    {"pull", "Fetch a model from the Hugging Face hub", add_pull},
    {"template", "Show a conversation as the model reads it", add_template},
    {"tokenize", "Show the token ids of a text", add_tokenize},
    {"detokenize", "Show the text of token ids", add_detokenize},
};

/// Flags that every command has.
struct Common {
  std::string config, log_level = "info";
};

struct Entry {
  CLI::App* app;
  Run run;
  std::unique_ptr<Common> common;
};

Entry add(CLI::App& root, const Command& command) {
  CLI::App* sub = root.add_subcommand(command.name, command.help);
  sub->allow_extras();  // reported by check_arguments(), which names the nearest flag
  Entry entry{sub, command.add(*sub), std::make_unique<Common>()};
  sub->add_option("--config", entry.common->config, "Read flags from a file of \"flag = value\" lines")
      ->type_name("FILE");
  if (sub->get_option_no_throw("--log-level") == nullptr) {
    sub->add_option("--log-level", entry.common->log_level, "Least important message shown on stderr")
        ->transform(one_of({"debug", "info", "warning", "error", "off"}))
        ->type_name("debug|info|warning|error|off");
  }
  return entry;
}

LogLevel log_level(const std::string& name) {
  if (name == "debug") return LogLevel::debug;
  if (name == "warning") return LogLevel::warning;
  if (name == "error") return LogLevel::error;
  return name == "off" ? LogLevel::off : LogLevel::info;
}

/// The last place where an exception can become one line instead of an abort.
Status run_command(const Entry& entry) {
  try {
    return entry.run();
  } catch (const std::bad_alloc&) {
    return exhausted("out of memory");
  } catch (const std::exception& error) {
    return internal("unexpected fault: {}", printable(error.what()));
  }
}

Status run_entry(const CLI::App& root, const Entry& entry) {
  LITHE_RETURN_IF_ERROR(check_arguments(*entry.app));
  LITHE_RETURN_IF_ERROR(apply_layers(root, *entry.app, entry.common->config));
  set_log_level(log_level(entry.common->log_level));
  LITHE_RETURN_IF_ERROR(run_command(entry));
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    if (errno == EPIPE) return cancelled("the reader of stdout has gone");
    return io_error("cannot write to stdout: {}", std::strerror(errno));
  }
  return {};
}

constexpr std::size_t kMostMessage = 16384;  // two paths and more

int exit_code(const Status& status) {
  if (interrupted()) die_of_interrupt();
  if (status.ok()) return 0;
  if (status.code() != Code::cancelled) {  // paths, files and templates write into messages: still one line
    std::fprintf(stderr, "lithe: %s\n", printable(status.message(), kMostMessage).c_str());
  }
  return status.code() == Code::invalid_argument ? 2 : 1;
}

/// While it lives CLI11 requires no option: it looks at the command line alone, and apply_layers() looks everywhere.
/// Not for good, as the help says which options are required.
class NothingRequired {
 public:
  explicit NothingRequired(const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) {
      const auto required = [](const CLI::Option* option) { return option->get_required(); };
      for (CLI::Option* option : entry.app->get_options(required))
        options_.push_back(option->required(false));
    }
  }
  NothingRequired(const NothingRequired&) = delete;
  NothingRequired& operator=(const NothingRequired&) = delete;
  ~NothingRequired() {
    for (CLI::Option* option : options_) option->required();
  }

 private:
  std::vector<CLI::Option*> options_;
};

/// `lithe --help`, `lithe run --help` and `lithe --version` print; everything else runs.
Status parse_and_run(CLI::App& root, const std::vector<Entry>& entries,
                     const std::vector<std::string>& given) {
  LITHE_ASSIGN_OR_RETURN(std::vector<std::string> arguments, accept_arguments(root, given));
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    const NothingRequired relaxed(entries);
    root.parse(std::move(arguments));
  } catch (const CLI::CallForVersion& version) {
    return print(std::string(version.what()) + "\n");
  } catch (const CLI::Success&) {
    return print(root.help());  // of the command that was named
  } catch (const CLI::Error& error) {
    const auto named = root.get_subcommands();
    return usage_error(named.empty() ? root : *named.front(), error);
  } catch (const std::exception& error) {
    return invalid("cannot read the arguments: {}", printable(error.what()));
  }
  for (const Entry& entry : entries) {
    if (entry.app->parsed() && root.remaining().empty()) return run_entry(root, entry);
  }
  return no_command(root);
}

/// Reading a mapped file beyond an end that moved. Only what is safe in a signal handler.
void on_bus_error(int) {
  constexpr std::string_view kText = "lithe: a file was cut short while it was being read\n";
  (void)!::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(1);
}

int run(int argc, char** argv) {
  std::signal(SIGBUS, on_bus_error);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write(), with a message
  CLI::App root("Lithe: large language models, fast and cheap, on CPUs", "lithe");
  root.set_version_flag("--version", LITHE_VERSION);
  root.require_subcommand(0, 1);  // their absence and what comes before them: no_command()
  root.allow_extras();
  root.footer(
      "Every command has --help with an example. Each flag is also an environment variable (--top-p: "
      "LITHE_TOP_P)\n"
      "and a key of --config FILE; the flag wins over the variable, the variable over the file.");
  std::vector<Entry> entries;
  for (const Command& command : kCommands) entries.push_back(add(root, command));
  return exit_code(parse_and_run(root, entries, std::vector<std::string>(argv + 1, argv + argc)));
}

}  // namespace
}  // namespace lithe::app

int main(int argc, char** argv) {
  try {
    lithe::app::prepare_console();
    std::setlocale(LC_CTYPE, "");
    return lithe::app::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lithe: %s\n", error.what());
    return 1;
  }
}
