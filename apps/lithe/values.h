// What the value of a flag may be. Checked as text, because CLI11 alone reads "010" as 8, "true" as 1 and a number of
// thirty digits as the largest there is.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "base/status.h"

namespace lithe::app {

/// Decimal digits and nothing else, within 64 bits. invalid_argument shows the text.
Result<std::int64_t> parse_integer(const std::string& text);

/// For Option::transform(), which keeps the number in the form that CLI11 reads rightly.
CLI::Validator whole_number(std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                            std::int64_t most = std::numeric_limits<std::int64_t>::max());
/// A decimal number; NaN and infinities are left to whoever knows the range.
CLI::Validator real_number();
CLI::Validator one_of(std::initializer_list<const char*> names);

/// "true", "off", "1", ...: what a switch may be set to in the environment, in a file and as --switch=VALUE.
Result<bool> parse_switch(const std::string& text);

}  // namespace lithe::app
