#include "tokenizer/char_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tokenizer/merge_loop.h"
#include "tokenizer/unicode.h"

namespace lithe::tokenizer {

Fallback Fallback::create(const TokenTable& tokens, bool use_bytes, std::optional<TokenId> unknown,
                          bool fuse) {
  Fallback out;
  out.use_bytes = use_bytes;
  out.unknown = unknown.value_or(kNoToken);
  out.fuse = fuse;
  for (std::size_t byte = 0; byte < 256; ++byte)
    out.bytes[byte] = tokens.byte_token(static_cast<std::uint8_t>(byte));
  return out;
}

bool Fallback::append_bytes(std::string_view character, std::vector<TokenId>& out) const {
  if (!use_bytes) return false;
  const std::size_t before = out.size();
  for (const char c : character) {
    const TokenId id = bytes[static_cast<std::uint8_t>(c)];
    if (id == kNoToken) {
      out.resize(before);
      return false;
    }
    out.push_back(id);
  }
  return true;
}

namespace {

TokenId find(const TokenTable& tokens, std::string_view bytes) {
  return bytes.size() > tokens.longest() ? kNoToken : tokens.find_bytes(bytes, hash_bytes(bytes));
}

/// Cuts words into parts and remembers those.
class PartEncoder : public Encoder {
 public:
  PartEncoder(const TokenTable& tokens, const JoinTable& joins, const Fallback& fallback,
              std::size_t text_size)
      : tokens_(tokens), joins_(joins), fallback_(fallback), cache_(text_size) {
    // Where characters vanish, their neighbours meet: no cuts then.
    cuts_ = fallback.use_bytes || fallback.unknown != kNoToken;
  }

  void encode(std::string_view word, const char* readable_end, std::vector<TokenId>& out) override {
    const char *p = word.data(), *const end = p + word.size();
    bool after_unknown = false;
    while (p < end) {
      const char* const stop = cuts_ ? joins_.part_end(p, end) : end;
      const std::string_view part(p, static_cast<std::size_t>(stop - p));
      const std::size_t before = out.size();
      encode_part_cached(part, readable_end, out);
      if (fallback_.fuse && fallback_.unknown != kNoToken && out.size() > before) {
        const bool ends_unknown = out.back() == fallback_.unknown;
        if (after_unknown && out[before] == fallback_.unknown)
          out.erase(out.begin() + static_cast<std::ptrdiff_t>(before));
        after_unknown = ends_unknown;
      }
      p = stop;
    }
  }

 protected:
  virtual void encode_part(std::string_view part, std::vector<TokenId>& out) = 0;

  /// An unknown character's ids.
  void append_unknown(std::string_view character, std::vector<TokenId>& out) const {
    if (fallback_.append_bytes(character, out) || fallback_.unknown == kNoToken) return;
    if (fallback_.fuse && !out.empty() && out.back() == fallback_.unknown && last_was_unknown_) return;
    out.push_back(fallback_.unknown);
  }

  const TokenTable& tokens_;
  const JoinTable& joins_;
  const Fallback& fallback_;
  bool last_was_unknown_ = false;  // within a part

 private:
  void encode_part_cached(std::string_view part, const char* readable_end, std::vector<TokenId>& out) {
    if (!cache_.takes(part)) return encode_part(part, out);
    const WordCache::Key key = WordCache::key(part, readable_end);
    if (cache_.find(key, out)) return;
    const std::size_t before = out.size();
    encode_part(part, out);
    cache_.keep(key, std::span(out).subspan(before));
  }

  WordCache cache_;
  bool cuts_;
};

}  // namespace

class ScoredEncoder final : public PartEncoder {
 public:
  ScoredEncoder(const ScoredBpe& model, std::size_t text_size)
      : PartEncoder(*model.tokens_, model.joins_, model.fallback_, text_size), model_(model) {}

 private:
  struct Rules {
    const ScoredBpe& model;
    const char* text;
    Merged operator()(const TextSymbol& left, const TextSymbol& right) const {
      const TokenId id = find(*model.tokens_, {text + left.begin, std::size_t{left.size} + right.size});
      return id == kNoToken ? Merged{kNoRank, kNoToken}
                            : Merged{model.order_[static_cast<std::size_t>(id)], id};
    }
  };

  void encode_part(std::string_view part, std::vector<TokenId>& out) override {
    symbols_.clear();
    for (std::size_t at = 0; at < part.size();) {
      const std::uint32_t length = utf8_length(static_cast<std::uint8_t>(part[at]));
      symbols_.push_back({static_cast<std::uint32_t>(at), length, find(tokens_, part.substr(at, length))});
      at += length;
    }
    loop_.run(symbols_, Rules{model_, part.data()});
    last_was_unknown_ = false;
    for (const TextSymbol& symbol : symbols_) {
      if (symbol.id != kNoToken) {
        out.push_back(symbol.id);
      } else {
        append_unknown(part.substr(symbol.begin, symbol.size), out);
      }
      last_was_unknown_ = symbol.id == kNoToken;
    }
  }

  const ScoredBpe& model_;
  std::vector<TextSymbol> symbols_;
  MergeLoop<Rules> loop_;
};

Result<std::unique_ptr<ScoredBpe>> ScoredBpe::create(const TokenTable& tokens, std::span<const double> scores,
                                                     const Fallback& fallback) {
  if (scores.size() != tokens.size()) return corrupt("{} tokens but {} scores", tokens.size(), scores.size());
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (!std::isfinite(scores[id])) return corrupt("the score of token {} is {}", id, scores[id]);
  }
  std::unique_ptr<ScoredBpe> model(new ScoredBpe(tokens, fallback));
  std::vector<TokenId> ids(tokens.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto score = [&](TokenId id) { return scores[static_cast<std::size_t>(id)]; };
  std::ranges::stable_sort(ids, [&](TokenId a, TokenId b) { return score(a) > score(b); });
  model->order_.resize(ids.size());
  Rank rank = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0 && score(ids[i]) != score(ids[i - 1])) rank = static_cast<Rank>(i);
    model->order_[static_cast<std::size_t>(ids[i])] = rank;
  }
  return model;
}

std::unique_ptr<Encoder> ScoredBpe::encoder(std::size_t text_size) const {
  return std::make_unique<ScoredEncoder>(*this, text_size);
}

class ListedEncoder final : public PartEncoder {
 public:
  ListedEncoder(const CharBpe& model, std::size_t text_size)
      : PartEncoder(*model.tokens_, model.joins_, model.fallback_, text_size), model_(model) {}

  void encode(std::string_view word, const char* readable_end, std::vector<TokenId>& out) override {
    if (model_.ignore_merges_) {
      if (const TokenId whole = find(tokens_, word); whole != kNoToken) {
        out.push_back(whole);
        return;
      }
    }
    PartEncoder::encode(word, readable_end, out);
  }

 private:
  struct Rules {
    const CharBpe& model;
    Merged operator()(const TextSymbol& left, const TextSymbol& right) const {
      const Rank rank = model.merges_.find(left.id, right.id);
      return {rank, rank == kNoRank ? kNoToken : model.merges_.joined(rank)};
    }
  };

  void encode_part(std::string_view part, std::vector<TokenId>& out) override {
    symbols_.clear();
    last_was_unknown_ = false;
    for (std::size_t at = 0; at < part.size();) {
      const std::uint32_t length = utf8_length(static_cast<std::uint8_t>(part[at]));
      const std::string_view character = part.substr(at, length);
      const TokenId id = find(tokens_, character);
      if (id != kNoToken) {
        symbols_.push_back({0, 0, id});
      } else {
        ids_.clear();
        if (!symbols_.empty()) ids_.push_back(symbols_.back().id);  // so that a run of unknown ones is seen
        const std::size_t before = ids_.size();
        append_unknown(character, ids_);
        for (std::size_t i = before; i < ids_.size(); ++i) symbols_.push_back({0, 0, ids_[i]});
      }
      last_was_unknown_ = id == kNoToken;
      at += length;
    }
    loop_.run(symbols_, Rules{model_});
    for (const TextSymbol& symbol : symbols_) out.push_back(symbol.id);
  }

  const CharBpe& model_;
  std::vector<TextSymbol> symbols_;
  std::vector<TokenId> ids_;
  MergeLoop<Rules> loop_;
};

Result<std::unique_ptr<CharBpe>> CharBpe::create(const TokenTable& tokens,
                                                 std::span<const std::string_view> merges, bool ignore_merges,
                                                 const Fallback& fallback) {
  std::unique_ptr<CharBpe> model(new CharBpe(tokens, fallback));
  LITHE_ASSIGN_OR_RETURN(model->merges_, MergeTable::create(merges, tokens));
  model->ignore_merges_ = ignore_merges;
  return model;
}

std::unique_ptr<Encoder> CharBpe::encoder(std::size_t text_size) const {
  return std::make_unique<ListedEncoder>(*this, text_size);
}

}  // namespace lithe::tokenizer
