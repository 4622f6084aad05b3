#include <cstdio>
#include <utility>
#include <vector>

#include "command.h"

namespace lithe::app {
namespace {

struct Command {
  const char* name;
  const char* help;
  Run (*add)(CLI::App& app);
};

constexpr std::initializer_list<Command> kCommands = {};

int run(int argc, char** argv) {
  CLI::App app("Lithe: large language models, fast and cheap, on CPUs", "lithe");
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, Run>> commands;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    commands.emplace_back(sub, command.add(*sub));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const auto& [sub, action] : commands) {
    if (!sub->parsed()) continue;
    const Status status = action();
    if (status.ok()) return 0;
    std::fprintf(stderr, "lithe: %s\n", status.message().c_str());
    return status.code() == Code::invalid_argument ? 2 : 1;
  }
  return 2;
}

}  // namespace
}  // namespace lithe::app

int main(int argc, char** argv) {
  return lithe::app::run(argc, argv);
}
