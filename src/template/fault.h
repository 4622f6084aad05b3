// Faults inside the interpreter: thrown where they arise, turned into a Status by ChatTemplate, never seen
// outside.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/status.h"

namespace lithe::chat {

struct Fault {
  Code code = Code::invalid_argument;
  std::string message;
  bool raised = false;  // by the template's own raise_exception: the message is passed on as it is
};

template <typename... Args>
[[noreturn]] void fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  throw Fault{code, fmt::format(format, std::forward<Args>(args)...), false};
}

/// What Python would call TypeError, ValueError, UndefinedError, ...: the template and the conversation do
/// not fit.
template <typename... Args>
[[noreturn]] void misfit(fmt::format_string<Args...> format, Args&&... args) {
  throw Fault{Code::invalid_argument, fmt::format(format, std::forward<Args>(args)...), false};
}

}  // namespace lithe::chat
