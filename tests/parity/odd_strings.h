// String number i of tests/oracle/odd_strings.py, from the same parts.
#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/unicode.h"

namespace lithe::tokenizer::testing {

class OddStrings {
  using Range = std::array<std::uint32_t, 2>;

  /// Vigna's splitmix64.
  struct SplitMix {
    std::uint64_t state;
    std::uint64_t below(std::uint64_t bound) {
      std::uint64_t z = state += 0x9E3779B97F4A7C15u;
      z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
      z = (z ^ z >> 27) * 0x94D049BB133111EBu;
      return (z ^ z >> 31) % bound;
    }
    template <typename Items>
    const auto& choice(const Items& items) {
      return items[below(items.size())];
    }
  };

 public:
  explicit OddStrings(const std::string& parts_file) {
    std::ifstream in(parts_file);
    const auto parts = nlohmann::json::parse(in);
    parts.at("fragments").get_to(fragments_);
    parts.at("blanks").get_to(blanks_);
    parts.at("punctuation").get_to(punctuation_);
    parts.at("ranges").get_to(ranges_);
    parts.at("excluded").get_to(excluded_);
  }

  std::string make(std::uint64_t number, const std::vector<std::string>& extra) const {
    static constexpr std::array<int, 9> kCounts = {1, 2, 3, 4, 5, 6, 8, 12, 16};
    SplitMix random{number};
    std::string text;
    for (int left = random.choice(kCounts); left > 0; --left) text += part(random, extra);
    return text;
  }

 private:
  static std::string repeat(const std::string& unit, std::uint64_t times) {
    std::string out;
    while (times-- > 0) out += unit;
    return out;
  }
  std::string random_point(SplitMix& random) const {
    while (true) {
      const Range& range = random.choice(ranges_);
      const auto point = static_cast<std::uint32_t>(range[0] + random.below(range[1] - range[0] + 1));
      bool excluded = false;
      for (const Range& hole : excluded_) excluded |= hole[0] <= point && point <= hole[1];
      if (excluded) continue;
      std::string out;
      utf8_append(point, out);
      return out;
    }
  }
  std::string part(SplitMix& random, const std::vector<std::string>& extra) const {
    if (!extra.empty() && random.below(3) == 0) return random.choice(extra);
    const std::uint64_t kind = random.below(12);
    if (kind <= 5) {
      const char* blank = random.below(3) == 0 ? " " : "";
      return blank + random.choice(fragments_);
    }
    if (kind == 6) {
      const std::uint64_t times = 1 + random.below(6);
      return repeat(random.choice(fragments_), times);
    }
    if (kind == 7) {
      const std::uint64_t times = 1 + random.below(9);
      return repeat(random.choice(blanks_), times);
    }
    if (kind == 8) {
      static constexpr std::array<std::uint64_t, 4> kTimes = {1, 1, 2, 17};
      const std::uint64_t times = random.choice(kTimes);
      return repeat(random_point(random), times);
    }
    if (kind == 9) {
      std::string out;
      for (std::uint64_t left = 1 + random.below(6); left > 0; --left) out += random_point(random);
      return out;
    }
    if (kind == 10) {
      std::string out = random.choice(fragments_);
      for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
      return out;
    }
    static constexpr std::array<std::uint64_t, 4> kTimes = {1, 2, 3, 40};
    const std::uint64_t times = random.choice(kTimes);
    return repeat(random.choice(punctuation_), times);
  }

  std::vector<std::string> fragments_, blanks_, punctuation_;
  std::vector<Range> ranges_, excluded_;
};

}  // namespace lithe::tokenizer::testing
