// Text that a user hands over: a prompt, a conversation, a text to tokenise.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace lithe::app {

/// Of a prompt or a conversation: a hundred times the longest context there is.
inline constexpr std::size_t kMostPromptBytes = std::size_t{64} << 20;

/// The whole of a file, or of stdin for "-". invalid_argument: more than `limit` bytes, so that an endless stdin ends, or
/// no regular file: a pipe is read from stdin only.
Result<std::string> read_input(const std::string& path, std::size_t limit = kMostPromptBytes);

}  // namespace lithe::app
