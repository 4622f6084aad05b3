#include "tokenizer/trie.h"

#include <algorithm>

namespace lithe::tokenizer {

/// Level by level over the sorted tokens: each node stands for a range of them that share its prefix.
Trie::Trie(const TokenTable& tokens) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view bytes = tokens.bytes(id);
    if (tokens.type(id) != TokenType::normal || bytes.empty() || bytes.size() > kLongest) continue;
    if (tokens.find_bytes(bytes, hash_bytes(bytes)) == id)
      ids.push_back(id);  // of duplicates the one that is found
  }
  std::ranges::sort(ids, [&](TokenId a, TokenId b) { return tokens.bytes(a) < tokens.bytes(b); });
  struct Range {
    std::uint32_t begin, end;
  };
  std::vector<Range> level{{0, static_cast<std::uint32_t>(ids.size())}}, next;
  nodes_.emplace_back();
  bytes_.push_back('\0');
  std::size_t first = 0;  // node of the level's first range
  for (std::size_t depth = 0; !level.empty(); ++depth) {
    const std::size_t next_first = nodes_.size();
    next.clear();
    for (std::size_t i = 0; i < level.size(); ++i) {
      auto [begin, end] = level[i];
      if (begin < end && tokens.bytes(ids[begin]).size() == depth) nodes_[first + i].token = ids[begin++];
      nodes_[first + i].children = static_cast<std::uint32_t>(nodes_.size());
      while (begin < end) {
        const char byte = tokens.bytes(ids[begin])[depth];
        std::uint32_t stop = begin + 1;
        while (stop < end && tokens.bytes(ids[stop])[depth] == byte) ++stop;
        nodes_.emplace_back();
        bytes_.push_back(byte);
        next.push_back({begin, stop});
        begin = stop;
      }
      nodes_[first + i].count = static_cast<std::uint32_t>(nodes_.size()) - nodes_[first + i].children;
    }
    std::swap(level, next);
    first = next_first;
  }
  roots_.fill(kNone);
  for (std::uint32_t i = 0; i < nodes_[0].count; ++i) {
    const NodeId node = nodes_[0].children + i;
    roots_[static_cast<std::uint8_t>(bytes_[node])] = node;
  }
}

}  // namespace lithe::tokenizer
