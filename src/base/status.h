// Builders and macros over the public lithe/status.h.
#pragma once

#include <fmt/format.h>

#include "lithe/status.h"

namespace lithe {

/// invalid("{} is not a number", text), corrupt(...), ...: a Status with a formatted message.
#define LITHE_STATUS_BUILDER(name, code_value)                                         \
  template <typename... Args>                                                          \
  Status name(fmt::format_string<Args...> format, Args&&... args) {                    \
    return Status(Code::code_value, fmt::format(format, std::forward<Args>(args)...)); \
  }
LITHE_STATUS_BUILDER(invalid, invalid_argument)
LITHE_STATUS_BUILDER(not_found, not_found)
LITHE_STATUS_BUILDER(corrupt, corrupt)
LITHE_STATUS_BUILDER(unsupported, unsupported)
LITHE_STATUS_BUILDER(exhausted, resource_exhausted)
LITHE_STATUS_BUILDER(io_error, io)
LITHE_STATUS_BUILDER(cancelled, cancelled)
LITHE_STATUS_BUILDER(internal, internal)
#undef LITHE_STATUS_BUILDER

}  // namespace lithe

#define LITHE_CONCAT_INNER(a, b) a##b
#define LITHE_CONCAT(a, b) LITHE_CONCAT_INNER(a, b)

/// Leaves the function with the Status unless it is ok.
#define LITHE_RETURN_IF_ERROR(expression)                                                     \
  do {                                                                                        \
    if (::lithe::Status lithe_status = (expression); !lithe_status.ok()) return lithe_status; \
  } while (false)

/// LITHE_ASSIGN_OR_RETURN(auto x, f()): x = value, or leaves the function with the Status.
#define LITHE_ASSIGN_OR_RETURN(target, expression) \
  LITHE_ASSIGN_OR_RETURN_INNER(LITHE_CONCAT(lithe_result_, __LINE__), target, expression)
#define LITHE_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                    \
  if (!result.ok()) return std::move(result).status();           \
  target = std::move(result).value()
