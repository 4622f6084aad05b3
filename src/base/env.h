// Environment variables, read once at first use: nothing else in Lithe calls getenv.
#pragma once

#include <optional>
#include <string>

namespace lithe {

/// The value of LITHE_<name>, or nothing. Safe from several threads.
std::optional<std::string> env(const std::string& name);

}  // namespace lithe
