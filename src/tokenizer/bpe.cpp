#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "tokenizer/unicode.h"

namespace lithe::tokenizer {
namespace {

enum Reachable : std::uint8_t { kNotKnown, kYes, kNo };

/// For the bytes that are no character of the vocabulary's alphabet, a byte token may stand in.
TokenId byte_token(const TokenTable& tokens, std::uint8_t byte) {
  const char letter = static_cast<char>(byte);
  const std::string_view bytes(&letter, 1);
  if (const TokenId id = tokens.find_bytes(bytes, hash_bytes(bytes)); id != kNoToken) return id;
  return tokens.byte_token(byte);
}

}  // namespace

Result<std::unique_ptr<Bpe>> Bpe::create(const TokenTable& tokens, std::span<const std::string_view> merges,
                                         bool ignore_merges) {
  std::unique_ptr<Bpe> made(new Bpe(tokens));
  Bpe& bpe = *made;
  bpe.ignore_merges_ = ignore_merges;
  LITHE_ASSIGN_OR_RETURN(bpe.merges_, MergeTable::create(merges, tokens));
  for (std::size_t byte = 0; byte < 256; ++byte) {
    bpe.byte_ids_[byte] = byte_token(tokens, static_cast<std::uint8_t>(byte));
  }
  bpe.byte_pairs_.resize(256 * 256);
  for (std::size_t left = 0; left < 256; ++left) {
    for (std::size_t right = 0; right < 256; ++right) {
      const TokenId l = bpe.byte_ids_[left], r = bpe.byte_ids_[right];
      bpe.byte_pairs_[left * 256 + right] = l == kNoToken || r == kNoToken ? kNoRank : bpe.merges_.find(l, r);
    }
  }
  bpe.reachable_ = std::make_unique<std::atomic<std::uint8_t>[]>(tokens.size());
  return made;
}

std::unique_ptr<Encoder> Bpe::encoder(std::size_t text_size) const {
  return std::make_unique<WordEncoder>(*this, text_size);
}

const CharTable& Bpe::chars() const {
  std::call_once(chars_.once, [this] { chars_.table = CharTable(*tokens_, merges_, byte_ids_); });
  return chars_.table;
}

void WordEncoder::encode(std::string_view word, const char* readable_end, std::vector<TokenId>& out) {
  if (!cache_.takes(word)) {
    encode_word(word, word.size() <= bpe_->tokens_->longest() ? hash_bytes(word) : kNoHash, out);
    return;
  }
  const WordCache::Key key = WordCache::key(word, readable_end);
  if (cache_.find(key, out)) return;
  const std::size_t before = out.size();
  encode_word(word, key.hash, out);
  cache_.keep(key, std::span(out).subspan(before));
}

/// hash: of the word's bytes, or kNoHash if no token is that long.
void WordEncoder::encode_word(std::string_view word, std::uint64_t hash, std::vector<TokenId>& out) {
  if (word.size() == 1) {
    const TokenId id = bpe_->byte_id(static_cast<std::uint8_t>(word[0]));
    if (id != kNoToken) out.push_back(id);
    return;
  }
  const TokenId whole = hash == kNoHash ? kNoToken : bpe_->tokens_->find_bytes(word, hash);
  if (whole == kNoToken) return merge(word, true, out);
  std::atomic<std::uint8_t>& reachable = bpe_->reachable_[static_cast<std::size_t>(whole)];
  // Relaxed: the note is one byte and says the same whoever wrote it.
  if (bpe_->ignore_merges_ || reachable.load(std::memory_order_relaxed) == kYes) {
    out.push_back(whole);
    return;
  }
  const std::size_t before = out.size();
  merge(word, true, out);
  const bool same = out.size() == before + 1 && out.back() == whole;
  if (same) reachable.store(kYes, std::memory_order_relaxed);
}

void WordEncoder::encode_plainly(std::string_view word, std::vector<TokenId>& out) {
  if (bpe_->ignore_merges_) {
    if (const TokenId whole = bpe_->tokens_->find_bytes(word, hash_bytes(word)); whole != kNoToken) {
      out.push_back(whole);
      return;
    }
  }
  merge(word, false, out);
}

void WordEncoder::merge(std::string_view word, bool whole_characters, std::vector<TokenId>& out) {
  const std::size_t count = split_symbols(word, whole_characters);
  if (count <= kShort) {
    merge_short(count, out);
  } else {
    merge_long(count, out);
  }
}

/// Fills ids_ and ranks_ (the rank of symbol i and i + 1) with what merging starts from.
std::size_t WordEncoder::split_symbols(std::string_view word, bool whole_characters) {
  if (ids_.size() < word.size()) {
    ids_.resize(word.size());
    ranks_.resize(word.size());
  }
  std::size_t count = 0;
  bool bytes_only = true;
  for (std::size_t i = 0; i < word.size();) {
    const auto byte = static_cast<std::uint8_t>(word[i]);
    if (byte >= 0xC2 && whole_characters) {
      if (chars_ == nullptr) chars_ = &bpe_->chars();
      const std::uint32_t length = utf8_length(byte);
      const TokenId id = chars_->find(word, i, length);
      if (id != kNoToken) {
        ids_[count++] = id;
        i += length;
        bytes_only = false;
        continue;
      }
    }
    const TokenId id = bpe_->byte_id(byte);
    ids_[count] = id;
    count += id != kNoToken;  // a byte without a token vanishes, and its neighbours meet
    bytes_only &= id != kNoToken;
    ++i;
  }
  if (bytes_only) {
    for (std::size_t i = 0; i + 1 < count; ++i) {
      ranks_[i] = bpe_->byte_pairs_[static_cast<std::uint8_t>(word[i]) * 256 +
                                    static_cast<std::uint8_t>(word[i + 1])];
    }
  } else {
    for (std::size_t i = 0; i + 1 < count; ++i) ranks_[i] = bpe_->merges_.find(ids_[i], ids_[i + 1]);
  }
  return count;
}

/// Looks for the best pair anew each time: quadratic, and the fastest way for a few symbols.
void WordEncoder::merge_short(std::size_t count, std::vector<TokenId>& out) {
  TokenId* const ids = ids_.data();
  Rank* const ranks = ranks_.data();
  while (count > 1) {
    Rank best = kNoRank;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < count; ++i) {
      const bool better = ranks[i] < best;  // strictly: of equal ranks the leftmost
      best = better ? ranks[i] : best;
      at = better ? i : at;
    }
    if (best == kNoRank) break;
    ids[at] = bpe_->merges_.joined(best);
    --count;
    std::memmove(ids + at + 1, ids + at + 2, (count - at - 1) * sizeof *ids);
    if (at + 1 < count) {
      std::memmove(ranks + at + 1, ranks + at + 2, (count - at - 2) * sizeof *ranks);
      ranks[at] = bpe_->merges_.find(ids[at], ids[at + 1]);
    }
    if (at > 0) ranks[at - 1] = bpe_->merges_.find(ids[at - 1], ids[at]);
  }
  out.insert(out.end(), ids, ids + count);
}

/// A linked list and a heap of (rank, position): n log n. An entry whose pair has changed since is skipped.
void WordEncoder::merge_long(std::size_t count, std::vector<TokenId>& out) {
  symbols_.resize(count);
  heap_.clear();
  const auto entry = [](Rank rank, std::size_t at) { return std::uint64_t{rank} << 32 | at; };
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::int32_t>(i);
    const bool last = i + 1 == count;
    symbols_[i] = {ids_[i], at - 1, last ? -1 : at + 1, last ? kNoRank : ranks_[i]};
    if (symbols_[i].rank != kNoRank) heap_.push_back(entry(symbols_[i].rank, i));
  }
  const auto later =
      std::greater<>();  // a heap's front is its largest: turned round, the best rank, leftmost
  std::make_heap(heap_.begin(), heap_.end(), later);
  const auto rate = [&](std::int32_t left, std::int32_t right) {
    Symbol& symbol = symbols_[static_cast<std::size_t>(left)];
    symbol.rank = bpe_->merges_.find(symbol.id, symbols_[static_cast<std::size_t>(right)].id);
    if (symbol.rank == kNoRank) return;
    heap_.push_back(entry(symbol.rank, static_cast<std::size_t>(left)));
    std::push_heap(heap_.begin(), heap_.end(), later);
  };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const auto rank = static_cast<Rank>(heap_.back() >> 32);
    const auto at = static_cast<std::int32_t>(heap_.back() & 0x7FFFFFFF);
    heap_.pop_back();
    Symbol& left = symbols_[static_cast<std::size_t>(at)];
    if (left.rank != rank) continue;
    Symbol& right = symbols_[static_cast<std::size_t>(left.next)];
    left.id = bpe_->merges_.joined(rank);
    left.next = right.next;
    left.rank = right.rank = kNoRank;
    right.id = kNoToken;
    if (left.next >= 0) {
      symbols_[static_cast<std::size_t>(left.next)].previous = at;
      rate(at, left.next);
    }
    if (left.previous >= 0) rate(left.previous, at);
  }
  for (std::int32_t i = 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].next) {
    out.push_back(symbols_[static_cast<std::size_t>(i)].id);
  }
}

}  // namespace lithe::tokenizer
