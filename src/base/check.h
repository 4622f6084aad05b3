// Assertions: a programmer's fault, never a file's or a request's.
#pragma once

namespace lithe {
[[noreturn]] void check_failed(const char* expression, const char* file, int line);
}

/// Always on: costs one branch, so keep it out of inner loops.
#define LITHE_CHECK(expression) \
  (static_cast<bool>(expression) ? void(0) : ::lithe::check_failed(#expression, __FILE__, __LINE__))

#ifdef NDEBUG
#define LITHE_DCHECK(expression) void(0)
#else
#define LITHE_DCHECK(expression) LITHE_CHECK(expression)
#endif
