// The tokens of a vocabulary as a tree of bytes: all tokens that begin at a place, in one walk.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "tokenizer/token_table.h"

namespace lithe::tokenizer {

class Trie {
 public:
  static constexpr std::size_t kLongest =
      1024;  // longer tokens are left out: bounds the work per byte of text
  using NodeId = std::uint32_t;
  static constexpr NodeId kRoot = 0, kNone = 0xFFFFFFFF;

  Trie() = default;
  /// Of the tokens that find_bytes() knows.
  explicit Trie(const TokenTable& tokens);

  NodeId child(NodeId node, char byte) const {
    if (node == kRoot) return roots_[static_cast<std::uint8_t>(byte)];
    const Node& n = nodes_[node];
    const void* const found = std::memchr(bytes_.data() + n.children, byte, n.count);
    if (found == nullptr) return kNone;
    return static_cast<NodeId>(static_cast<const char*>(found) - bytes_.data());
  }
  TokenId token(NodeId node) const { return nodes_[node].token; }

 private:
  struct Node {
    std::uint32_t children = 0, count = 0;  // of their nodes, which lie together
    TokenId token = kNoToken;
  };
  std::vector<Node> nodes_;
  std::vector<char> bytes_;  // by node: the byte that leads to it
  std::array<NodeId, 256> roots_;
};

}  // namespace lithe::tokenizer
