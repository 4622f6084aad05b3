// One sub-command per file: each add_NAME() declares its flags on `app` and returns what to run after parsing.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/status.h"

namespace lithe::app {

/// Prints results on stdout, progress and logs on stderr. main() turns the Status into the exit code:
/// ok 0, invalid_argument 2, everything else 1, and prints its message as one line. cancelled: quietly.
using Run = std::function<Status()>;

Run add_bench(CLI::App& app);
Run add_chat(CLI::App& app);
Run add_convert(CLI::App& app);
Run add_detokenize(CLI::App& app);
Run add_embed(CLI::App& app);
Run add_eval(CLI::App& app);
Run add_inspect(CLI::App& app);
Run add_pull(CLI::App& app);
Run add_rerank(CLI::App& app);
Run add_run(CLI::App& app);
Run add_template(CLI::App& app);
Run add_tokenize(CLI::App& app);

}  // namespace lithe::app
