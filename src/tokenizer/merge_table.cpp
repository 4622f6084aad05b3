#include "tokenizer/merge_table.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/text.h"

namespace lithe::tokenizer {
namespace {

/// The three strings of a merge, as bytes, with their hashes: looked up in batches, so that the table's cache
/// misses overlap. 280,000 merges take a tenth of a second one by one.
struct Sought {
  std::string_view left, right, both;  // bytes; `both` is empty if a part is not in the byte-level alphabet
  std::uint64_t left_hash = 0, right_hash = 0, both_hash = 0;
  std::string_view left_written, right_written;
};
constexpr std::size_t kBatch = 32;

TokenId look_up(const TokenTable& tokens, std::string_view bytes, std::uint64_t hash,
                std::string_view written) {
  const TokenId id = bytes.empty() ? kNoToken : tokens.find_bytes(bytes, hash);
  return id != kNoToken ? id : tokens.find_other(written);
}

}  // namespace

Result<MergeTable> MergeTable::create(std::span<const std::string_view> merges, const TokenTable& tokens) {
  if (merges.size() >= kRankMask)
    return unsupported("{} merges: at most {} are supported", merges.size(), kRankMask - 1);
  MergeTable table;
  LITHE_RETURN_IF_ERROR(table.resolve(merges, tokens));
  LITHE_RETURN_IF_ERROR(table.index(tokens));
  return table;
}

Status MergeTable::resolve(std::span<const std::string_view> merges, const TokenTable& tokens) {
  pairs_.reserve(merges.size());
  joined_.reserve(merges.size());
  std::string arena;
  std::array<Sought, kBatch> batch;
  std::array<std::size_t, kBatch> begin, middle, end;
  for (std::size_t first = 0; first < merges.size(); first += kBatch) {
    const std::size_t count = std::min(kBatch, merges.size() - first);
    arena.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view merge = merges[first + i];
      const std::size_t blank = merge.find(' ', 1);
      if (blank == std::string_view::npos || blank + 1 == merge.size()) {
        return corrupt("merge {} ({}) is not two parts with a space between", first + i, in_quotes(merge));
      }
      Sought& sought = batch[i] = {};
      sought.left_written = merge.substr(0, blank);
      sought.right_written = merge.substr(blank + 1);
      begin[i] = arena.size();
      const bool left_known = tokens.append_bytes(sought.left_written, arena);
      middle[i] = arena.size();
      const bool right_known = tokens.append_bytes(sought.right_written, arena);
      end[i] = left_known && right_known ? arena.size() : begin[i];
      if (!left_known || !right_known) arena.resize(begin[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      Sought& sought = batch[i];
      if (end[i] == begin[i]) continue;
      sought.both = std::string_view(arena).substr(begin[i], end[i] - begin[i]);
      sought.left = sought.both.substr(0, middle[i] - begin[i]);
      sought.right = sought.both.substr(middle[i] - begin[i]);
      tokens.prefetch(sought.left_hash = hash_bytes(sought.left));
      tokens.prefetch(sought.right_hash = hash_bytes(sought.right));
      tokens.prefetch(sought.both_hash = hash_bytes(sought.both));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Sought& sought = batch[i];
      const auto find = [&](std::string_view bytes, std::uint64_t hash, std::string_view written) {
        // A part outside the alphabet beside one inside: rare, and looked up one by one.
        return sought.both.empty() ? tokens.find_written(written) : look_up(tokens, bytes, hash, written);
      };
      const TokenId left = find(sought.left, sought.left_hash, sought.left_written);
      const TokenId right = find(sought.right, sought.right_hash, sought.right_written);
      TokenId both = sought.both.empty() ? kNoToken : tokens.find_bytes(sought.both, sought.both_hash);
      if (both == kNoToken)
        both = tokens.find_written(std::string(sought.left_written).append(sought.right_written));
      if (left == kNoToken || right == kNoToken || both == kNoToken) {
        const std::string whole = std::string(sought.left_written).append(sought.right_written);
        return corrupt("merge {} ({}) names a token that the vocabulary lacks: {}", first + i,
                       in_quotes(merges[first + i]),
                       in_quotes(left == kNoToken    ? sought.left_written
                                 : right == kNoToken ? sought.right_written
                                                     : whole));
      }
      pairs_.push_back({left, right});
      joined_.push_back(both);
    }
  }
  return {};
}

Status MergeTable::index(const TokenTable& tokens) {
  slots_.assign(std::bit_ceil(2 * pairs_.size() + 2), kEmpty);
  mask_ = slots_.size() - 1;
  shift_ = 64 - std::countr_zero(slots_.size());
  constexpr std::size_t kAhead = 16;
  for (std::size_t rank = 0; rank < pairs_.size(); ++rank) {
    if (rank + kAhead < pairs_.size()) {
      const Pair& ahead = pairs_[rank + kAhead];
      __builtin_prefetch(&slots_[slot_of(key_of(ahead.left, ahead.right))]);
    }
    const std::uint64_t key = key_of(pairs_[rank].left, pairs_[rank].right);
    std::size_t at = slot_of(key), probes = 0;
    while (slots_[at] != kEmpty && slots_[at] >> kRankBits != key) {
      if (++probes > kMaxProbes) {
        return corrupt("merge {} ({} {}) collides with too many others", rank,
                       in_quotes(tokens.written(pairs_[rank].left)),
                       in_quotes(tokens.written(pairs_[rank].right)));
      }
      at = (at + 1) & mask_;
    }
    if (slots_[at] == kEmpty) slots_[at] = key << kRankBits | rank;
  }
  return {};
}

}  // namespace lithe::tokenizer
