#include "base/bytes.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

namespace lithe {

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const Status fault = invalid("\"{}\" is no size: write a number and a unit, e.g. 512MiB or 2GiB", text);
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value >= 0)) return fault;
  std::string unit;
  for (const char c : std::string_view(rest, static_cast<std::size_t>(text.data() + text.size() - rest))) {
    if (c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  double scale = 1;
  if (!unit.empty() && unit != "b") {
    constexpr std::string_view kPrefixes = "kmgt";
    const auto power = kPrefixes.find(unit.front());
    const std::string_view tail = std::string_view(unit).substr(1);
    if (power == std::string_view::npos || (!tail.empty() && tail != "b" && tail != "i" && tail != "ib"))
      return fault;
    scale = std::pow(tail == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  if (value * scale > 0x1p62) return fault;
  return static_cast<std::uint64_t>(value * scale);
}

}  // namespace lithe
