// The operations of Python's str that filters and methods share. All keep the marks of the bytes they pass
// on.
#pragma once

#include <string_view>
#include <vector>

#include "template/value.h"

namespace lithe::chat {

Text to_upper(const Text& text, Budget& budget);
Text to_lower(const Text& text, Budget& budget);
Text to_capitalized(const Text& text, Budget& budget);
Text to_title(const Text& text, Budget& budget);     // str.title: a letter after anything but a letter
Text title_words(const Text& text, Budget& budget);  // the filter: a letter after a blank, - ( { [ or <
Text fold_case(const Text& text, Budget& budget);
Text swap_case(const Text& text, Budget& budget);

Text strip(const Text& text, bool left, bool right, Budget& budget);
/// Strips any of the code points of `characters`.
Text strip_characters(const Text& text, std::string_view characters, bool left, bool right, Budget& budget);

/// `count` < 0: all of them.
Text replace_all(const Text& text, const Text& old, const Text& with, Integer count, Budget& budget);

std::vector<Text> split_at(const Text& text, std::string_view separator, Integer limit, Budget& budget);
std::vector<Text> split_at_from_right(const Text& text, std::string_view separator, Integer limit,
                                      Budget& budget);
std::vector<Text> split_at_space(const Text& text, Integer limit, Budget& budget);
std::vector<Text> split_at_space_from_right(const Text& text, Integer limit, Budget& budget);
std::vector<Text> split_lines(const Text& text, bool keep_ends, Budget& budget);

enum class Side : std::uint8_t { left, right, both };  // where the text stands; both: in the middle
Text justify(const Text& text, Integer width, char32_t fill, Side side, Budget& budget);

Text join(const Text& separator, const std::vector<Text>& parts, Budget& budget);

}  // namespace lithe::chat
