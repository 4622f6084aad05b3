// Merging of neighbours, the best pair first: for models whose symbols are characters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "tokenizer/merge_table.h"

namespace lithe::tokenizer {

/// A stretch of the text that is one symbol for now.
struct TextSymbol {
  std::uint32_t begin, size;
  TokenId id;  // kNoToken: not a token
};

/// What two neighbours would become. rank: smaller is sooner; kNoRank: they do not merge.
struct Merged {
  Rank rank;
  TokenId id;
};

/// Rules: Merged operator()(const TextSymbol& left, const TextSymbol& right) const.
/// Of equal ranks the leftmost goes first. n log n; scratch memory is kept between calls.
template <typename Rules>
class MergeLoop {
 public:
  /// `symbols` lie one after the other in the text.
  void run(std::vector<TextSymbol>& symbols, const Rules& rules) {
    const std::size_t count = symbols.size();
    if (count < 2) return;
    links_.resize(count);
    heap_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      links_[i] = {static_cast<std::int32_t>(i) - 1,
                   i + 1 < count ? static_cast<std::int32_t>(i + 1) : -1,
                   {kNoRank, kNoToken}};
      if (i + 1 < count) links_[i].merged = rules(symbols[i], symbols[i + 1]);
    }
    if (count <= kShort) {
      merge_scanning(symbols, rules);
    } else {
      merge_with_heap(symbols, rules);
    }
    std::size_t kept = 0;
    for (std::int32_t i = 0; i >= 0; i = links_[static_cast<std::size_t>(i)].next)
      symbols[kept++] = symbols[static_cast<std::size_t>(i)];
    symbols.resize(kept);
  }

 private:
  static constexpr std::size_t kShort = 24;
  struct Link {
    std::int32_t previous, next;  // -1: none
    Merged merged;                // with the next one
  };

  Link& link(std::int32_t i) { return links_[static_cast<std::size_t>(i)]; }

  /// Joins `at` with its successor.
  void join(std::vector<TextSymbol>& symbols, const Rules& rules, std::int32_t at) {
    Link& left = link(at);
    TextSymbol& symbol = symbols[static_cast<std::size_t>(at)];
    const std::int32_t gone = left.next;
    symbol.size += symbols[static_cast<std::size_t>(gone)].size;
    symbol.id = left.merged.id;
    left.next = link(gone).next;
    link(gone).merged.rank = kNoRank;
    left.merged.rank = kNoRank;
    if (left.next >= 0) {
      link(left.next).previous = at;
      left.merged = rules(symbol, symbols[static_cast<std::size_t>(left.next)]);
    }
    if (left.previous >= 0)
      link(left.previous).merged = rules(symbols[static_cast<std::size_t>(left.previous)], symbol);
  }

  void merge_scanning(std::vector<TextSymbol>& symbols, const Rules& rules) {
    while (true) {
      Rank best = kNoRank;
      std::int32_t at = -1;
      for (std::int32_t i = 0; i >= 0; i = link(i).next) {
        if (link(i).merged.rank < best) {
          best = link(i).merged.rank;
          at = i;
        }
      }
      if (at < 0) return;
      join(symbols, rules, at);
    }
  }

  void merge_with_heap(std::vector<TextSymbol>& symbols, const Rules& rules) {
    const auto entry = [&](std::int32_t at) {
      return std::uint64_t{link(at).merged.rank} << 32 | static_cast<std::uint32_t>(at);
    };
    const auto later = std::greater<>();  // a heap's front is its largest: turned round, the best, leftmost
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (links_[i].merged.rank != kNoRank) heap_.push_back(entry(static_cast<std::int32_t>(i)));
    }
    std::make_heap(heap_.begin(), heap_.end(), later);
    const auto push = [&](std::int32_t at) {
      if (at < 0 || link(at).merged.rank == kNoRank) return;
      heap_.push_back(entry(at));
      std::push_heap(heap_.begin(), heap_.end(), later);
    };
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const std::uint64_t best = heap_.back();
      heap_.pop_back();
      const auto at = static_cast<std::int32_t>(best & 0xFFFFFFFF);
      if (link(at).merged.rank != best >> 32) continue;  // the pair has changed since
      join(symbols, rules, at);
      push(at);
      push(link(at).previous);
    }
  }

  std::vector<Link> links_;
  std::vector<std::uint64_t> heap_;
};

}  // namespace lithe::tokenizer
