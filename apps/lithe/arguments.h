// The arguments of the command line: spellings that are accepted, mistakes that are named. Every mistake is one line that
// says what, where and what to do.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lithe::app {

std::vector<const CLI::App*> all_commands(const CLI::App& app);
/// Null if there is none of this name.
const CLI::App* find_command(const CLI::App& app, const std::string& name);
/// By its long name without dashes.
bool has_flag(const CLI::App& command, std::string_view name);
bool is_switch(const CLI::Option& option);
/// Texts that mean something when empty: a prompt, a system message, a token of a template.
bool may_be_empty(const CLI::Option& option);

/// As CLI11 reads them rightly: long options may have one dash ("-npl 4"), as llama.cpp's do, and "--flag=" has an empty
/// value. invalid_argument: a switch that is given something else than true or false.
Result<std::vector<std::string>> accept_arguments(const CLI::App& app, const std::vector<std::string>& given);

/// Of the parsed command: arguments nobody took, and values that are empty where that means nothing.
Status check_arguments(const CLI::App& command);

/// Nothing was parsed: the error for what was given instead of a command.
Status no_command(const CLI::App& app);

/// The error for an argument nobody took: names the nearest flag of the command.
Status unknown_argument(const CLI::App& command, const std::string& argument);

/// The error for a required option that has no value anywhere.
Status missing_argument(const CLI::App& command, const CLI::Option& option);

/// CLI11's complaint in our words. `command`: the one that was being parsed.
Status usage_error(const CLI::App& command, const CLI::Error& error);

}  // namespace lithe::app
