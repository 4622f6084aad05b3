// Logging: progress and warnings go to stderr, results to stdout. spdlog behind three functions.
#pragma once

#include <fmt/format.h>

#include <string>

namespace lithe {

enum class LogLevel { debug, info, warning, error, off };

void set_log_level(LogLevel level);
void log_message(LogLevel level, const std::string& message);

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lithe
