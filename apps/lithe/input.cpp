#include "input.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/file.h"

namespace lithe::app {

Result<std::string> read_input(const std::string& path, std::size_t limit) {
  if (path != "-") {
    auto text = read_file(path, limit);
    std::error_code ignored;
    if (!text.ok() && std::filesystem::is_fifo(path, ignored)) {
      return invalid("{} is a pipe: give - for the file, and the pipe as stdin", shown_path(path));
    }
    return text;
  }
  std::string text;
  char chunk[1 << 16];
  while (const std::size_t got = std::fread(chunk, 1, sizeof chunk, stdin)) {
    text.append(chunk, got);
    if (text.size() > limit)
      return invalid("stdin holds more than {} MiB: that much is not read", limit >> 20);
  }
  if (std::ferror(stdin) != 0) return io_error("cannot read stdin: {}", std::strerror(errno));
  return text;
}

}  // namespace lithe::app
