#include "base/status.h"

#include <cstdio>
#include <cstdlib>

#include "base/check.h"

namespace lithe {

const char* code_name(Code code) {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid argument";
    case Code::not_found:
      return "not found";
    case Code::corrupt:
      return "corrupt";
    case Code::unsupported:
      return "unsupported";
    case Code::resource_exhausted:
      return "out of resources";
    case Code::io:
      return "input/output error";
    case Code::cancelled:
      return "cancelled";
    case Code::internal:
      return "internal error";
  }
  return "unknown";
}

void value_of_error(const Status& status) {
  std::fprintf(stderr, "lithe: the value of a failed result was taken: %s\n", status.message().c_str());
  std::abort();
}

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "lithe: assertion failed: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace lithe
