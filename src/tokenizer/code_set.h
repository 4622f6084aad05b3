// Sets of code points as sorted ranges: what a character class of a pattern means.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lithe::tokenizer {

struct CodeRange {
  std::uint32_t first, last;
  friend bool operator==(const CodeRange&, const CodeRange&) = default;
};

/// Ascending, disjoint, not touching: equal sets are equal vectors.
class CodeSet {
 public:
  CodeSet() = default;
  CodeSet(std::initializer_list<CodeRange> ranges) {
    for (const CodeRange& range : ranges) add(range.first, range.last);
  }
  static CodeSet all() { return {{0, 0x10FFFF}}; }
  static CodeSet white_space();  // \s
  static CodeSet word();         // \w: letters, marks, decimal digits, connectors
  /// "L", "Lu", "N", ..., "Han": a general category or the script Han; "BertPunctuation": what BERT's steps and
  /// Hugging Face's Punctuation cut off. Nothing for other properties.
  static std::optional<CodeSet> property(std::string_view name);

  /// Marks, punctuation and format controls younger than the Unicode that BERT's steps follow.
  static const CodeSet& young_to_bert();

  void add(std::uint32_t first, std::uint32_t last);
  void add(const CodeSet& other);
  CodeSet complement() const;
  CodeSet intersection(const CodeSet& other) const;
  /// With the other case of its ASCII letters, and the two letters beyond ASCII that fold to one. False if it
  /// holds a letter beyond ASCII singly, whose case is not known here.
  bool add_other_case();

  bool contains(std::uint32_t point) const;
  const std::vector<CodeRange>& ranges() const { return ranges_; }
  friend bool operator==(const CodeSet&, const CodeSet&) = default;

 private:
  std::vector<CodeRange> ranges_;
};

}  // namespace lithe::tokenizer
