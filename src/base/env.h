// Environment variables, read once at first use: nothing else in Lithe calls getenv.
#pragma once

#include <optional>
#include <string>

namespace lithe {

/// The value of LITHE_<name>, or nothing. Safe from several threads.
std::optional<std::string> env(const std::string& name);

/// The value of somebody else's variable (HOME, XDG_CACHE_HOME), or nothing. Safe from several threads.
std::optional<std::string> system_env(const std::string& name);

}  // namespace lithe
