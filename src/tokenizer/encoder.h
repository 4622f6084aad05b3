// What every model of tokenisation offers: an encoder of words, made anew for each text.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/hash.h"
#include "tokenizer/token_table.h"

namespace lithe::tokenizer {

/// The working memory of one encode() call.
class Encoder {
 public:
  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  virtual ~Encoder() = default;
  /// Appends the ids of one word. `readable_end`: the bytes of [word.end(), readable_end) may be read (a word
  /// lies in a text, and two loads of 8 bytes are faster than 16 of one).
  virtual void encode(std::string_view word, const char* readable_end, std::vector<TokenId>& out) = 0;
};

/// Immutable, for all threads.
class Model {
 public:
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;
  /// `text_size`: of the whole text, from which the size of caches follows.
  virtual std::unique_ptr<Encoder> encoder(std::size_t text_size) const = 0;
};

/// The ids of short words that a text has had already.
class WordCache {
 public:
  static constexpr std::size_t kBytes = 16;  // longer words are not kept
  static constexpr int kIds = 3;             // nor words of more ids
  struct Key {
    std::uint64_t low, high, hash;  // the word's bytes, zero-padded; hash_bytes() of them
    std::uint16_t size;
  };

  explicit WordCache(std::size_t text_size) {
    if (text_size < kMinText) return;
    entries_.resize(std::min(std::bit_ceil(text_size / 16), kMaxEntries));
    mask_ = entries_.size() - 1;
  }
  bool takes(std::string_view word) const { return word.size() <= kBytes && !entries_.empty(); }

  /// Of a word that takes() accepts, one byte or more.
  static Key key(std::string_view word, const char* readable_end) {
    const std::size_t size = word.size();
    Key key{0, 0, 0, static_cast<std::uint16_t>(size)};
    if (readable_end - word.data() >= static_cast<std::ptrdiff_t>(kBytes)) {
      key.low = load_u64(word.data());
      const auto keep = [](std::size_t bytes) { return ~std::uint64_t{0} >> (64 - 8 * bytes); };  // of 1..8
      if (size <= 8) {
        key.low &= keep(size);
      } else {
        key.high = load_u64(word.data() + 8) & keep(size - 8);
      }
    } else {
      key.low = load_up_to_8(word.data(), size);
      key.high = size > 8 ? load_up_to_8(word.data() + 8, size - 8) : 0;
    }
    key.hash = hash_words(key.low, key.high, size);
    return key;
  }
  /// Appends the ids and says so if the word is known.
  bool find(const Key& key, std::vector<TokenId>& out) const {
    const Entry& entry = entries_[(key.hash >> 20) & mask_];
    if (entry.low != key.low || entry.high != key.high || entry.size != key.size || entry.count == 0)
      return false;
    // Three are written whatever the count, and the rest cut off: no branch to predict.
    const std::size_t before = out.size();
    out.resize(before + kIds);
    std::memcpy(out.data() + before, entry.ids, sizeof entry.ids);
    out.resize(before + entry.count);
    return true;
  }
  void keep(const Key& key, std::span<const TokenId> ids) {
    if (ids.empty() || ids.size() > kIds) return;
    Entry& entry = entries_[(key.hash >> 20) & mask_];
    entry = {key.low, key.high, key.size, static_cast<std::uint16_t>(ids.size()), {}};
    std::copy(ids.begin(), ids.end(), entry.ids);
  }

 private:
  static constexpr std::size_t kMinText = 256, kMaxEntries = 1 << 13;
  struct Entry {  // half a cache line
    std::uint64_t low, high;
    std::uint16_t size, count;  // count 0: free
    TokenId ids[kIds];
  };
  std::vector<Entry> entries_;
  std::size_t mask_ = 0;
};

}  // namespace lithe::tokenizer
