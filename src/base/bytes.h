// Byte counts as people write them (base/text.h prints them).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace lithe {

/// "2GiB", "512 MB", "1.5g", "4096": K, M, G, T with or without "iB" are powers of 1024, with "B" powers of 1000.
/// invalid_argument: says what is allowed.
Result<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace lithe
