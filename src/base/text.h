// Text that comes from files and requests, made fit for a message or a terminal.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace lithe {

/// 'text' in single quotes: control bytes and broken UTF-8 as \xNN, cut after about `limit` bytes with "..."
/// so that an untrusted name can neither flood a log nor drive a terminal.
std::string in_quotes(std::string_view text, std::size_t limit = 80);

/// The same without the quotes.
std::string printable(std::string_view text, std::size_t limit = 80);

/// "98.4 MB", "1.2 GB", "512 B": decimal units, three significant digits.
std::string human_bytes(double bytes);

/// "134.5 M", "1.24 B", "576": counts of parameters and the like.
std::string human_count(double count);

/// Insertions, deletions and replacements of bytes that make one of the other.
std::size_t edit_distance(std::string_view a, std::string_view b);
/// The known name that is most like it, the first of equals; empty if there are none. For messages.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace lithe
