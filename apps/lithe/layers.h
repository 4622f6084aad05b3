// Where a flag's value comes from: the command line, else LITHE_NAME in the environment, else the --config file.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace lithe::app {

/// A config file: "key = value" lines, # comments, "[command]" sections. Keys are flags without their dashes.
struct ConfigFile {
  std::string path;
  std::map<std::string, std::map<std::string, std::string>> sections;  // "" = for all commands
};
/// invalid_argument names the line.
Result<ConfigFile> read_config(const std::string& path);

/// Gives every option of the parsed `command` that was not on the command line its value from the environment or
/// the file. `app` tells whether a key of the file is known to any command. invalid_argument names the source, or
/// the required option that no layer has.
Status apply_layers(const CLI::App& app, CLI::App& command, const std::string& config_path);

}  // namespace lithe::app
