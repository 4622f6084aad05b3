#include "tokenizer/wordpiece.h"

#include <algorithm>

namespace lithe::tokenizer {

class WordPieceEncoder final : public Encoder {
 public:
  WordPieceEncoder(const WordPiece& model, std::size_t text_size) : model_(model), cache_(text_size) {}

  void encode(std::string_view word, const char* readable_end, std::vector<TokenId>& out) override {
    if (!cache_.takes(word)) return encode_word(word, out);
    const WordCache::Key key = WordCache::key(word, readable_end);
    if (cache_.find(key, out)) return;
    const std::size_t before = out.size();
    encode_word(word, out);
    cache_.keep(key, std::span(out).subspan(before));
  }

 private:
  void encode_word(std::string_view word, std::vector<TokenId>& out) const {
    const std::size_t before = out.size();
    const auto is_lead = [](char byte) { return (byte & 0xC0) != 0x80; };
    bool known = static_cast<std::size_t>(std::ranges::count_if(word, is_lead)) <= model_.longest_;
    Trie::NodeId start = model_.trie_.child(Trie::kRoot, ' ');
    for (std::size_t at = 0; known && at < word.size();) {
      TokenId longest = kNoToken;
      std::size_t end = at;
      Trie::NodeId node = start;
      for (std::size_t i = at; i < word.size() && node != Trie::kNone; ++i) {
        node = model_.trie_.child(node, word[i]);
        if (node == Trie::kNone || model_.trie_.token(node) == kNoToken) continue;
        longest = model_.trie_.token(node);
        end = i + 1;
      }
      known = longest != kNoToken;
      if (known) out.push_back(longest);
      at = end;
      start = Trie::kRoot;
    }
    if (known) return;
    out.resize(before);
    if (model_.unknown_ != kNoToken) out.push_back(model_.unknown_);
  }

  const WordPiece& model_;
  WordCache cache_;
};

std::unique_ptr<Encoder> WordPiece::encoder(std::size_t text_size) const {
  return std::make_unique<WordPieceEncoder>(*this, text_size);
}

class WordLevelEncoder final : public Encoder {
 public:
  explicit WordLevelEncoder(const WordLevel& model) : model_(model) {}
  void encode(std::string_view word, const char*, std::vector<TokenId>& out) override {
    TokenId id = kNoToken;
    if (word.size() <= model_.tokens_->longest()) id = model_.tokens_->find_bytes(word, hash_bytes(word));
    if (id == kNoToken) id = model_.unknown_;
    if (id != kNoToken) out.push_back(id);
  }

 private:
  const WordLevel& model_;
};

std::unique_ptr<Encoder> WordLevel::encoder(std::size_t) const {
  return std::make_unique<WordLevelEncoder>(*this);
}

}  // namespace lithe::tokenizer
