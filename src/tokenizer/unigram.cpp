#include "tokenizer/unigram.h"

#include <algorithm>
#include <cmath>

#include "tokenizer/unicode.h"

namespace lithe::tokenizer {

class UnigramEncoder final : public Encoder {
 public:
  UnigramEncoder(const Unigram& model, std::size_t text_size) : model_(model), cache_(text_size) {}

  void encode(std::string_view word, const char* readable_end, std::vector<TokenId>& out) override {
    const char *p = word.data(), *const end = p + word.size();
    const TokenId unknown = model_.fallback_.unknown;
    bool after_unknown = false;
    while (p < end) {
      const char* const stop = model_.cuts_ ? model_.joins_.part_end(p, end) : end;
      const std::string_view part(p, static_cast<std::size_t>(stop - p));
      const std::size_t before = out.size();
      encode_part_cached(part, readable_end, out);
      if (unknown != kNoToken && out.size() > before) {
        const bool ends_unknown = out.back() == unknown;
        if (after_unknown && out[before] == unknown)
          out.erase(out.begin() + static_cast<std::ptrdiff_t>(before));
        after_unknown = ends_unknown;
      }
      p = stop;
    }
  }

 private:
  struct Best {
    double score;
    std::uint32_t from;
    TokenId id;  // kNoToken: an unknown character
  };

  void encode_part_cached(std::string_view part, const char* readable_end, std::vector<TokenId>& out) {
    if (!cache_.takes(part)) return encode_part(part, out);
    const WordCache::Key key = WordCache::key(part, readable_end);
    if (cache_.find(key, out)) return;
    const std::size_t before = out.size();
    encode_part(part, out);
    cache_.keep(key, std::span(out).subspan(before));
  }

  void encode_part(std::string_view part, std::vector<TokenId>& out) {
    constexpr double kLeast = -1e300;
    best_.assign(part.size() + 1, Best{kLeast, 0, kNoToken});
    best_[0].score = 0;
    for (std::size_t at = 0; at < part.size();) {
      const std::uint32_t length = utf8_length(static_cast<std::uint8_t>(part[at]));
      const double score = best_[at].score;
      const auto offer = [&](std::size_t end, double more, TokenId id) {
        if (score + more > best_[end].score) best_[end] = {score + more, static_cast<std::uint32_t>(at), id};
      };
      bool single = false;
      Trie::NodeId node = Trie::kRoot;
      for (std::size_t end = at; end < part.size();) {
        node = model_.trie_.child(node, part[end++]);
        if (node == Trie::kNone) break;
        const TokenId id = model_.trie_.token(node);
        if (id == kNoToken) continue;
        offer(end, model_.scores_[static_cast<std::size_t>(id)], id);
        single |= end - at == length;
      }
      if (!single) offer(at + length, model_.unknown_score_, kNoToken);
      at += length;
    }
    path_.clear();
    for (std::size_t end = part.size(); end > 0; end = best_[end].from)
      path_.push_back(static_cast<std::uint32_t>(end));
    bool after_unknown = false;
    for (std::size_t i = path_.size(); i-- > 0;) {
      const Best& step = best_[path_[i]];
      if (step.id != kNoToken) {
        out.push_back(step.id);
        after_unknown = false;
        continue;
      }
      const Fallback& fallback = model_.fallback_;
      if (fallback.append_bytes(part.substr(step.from, path_[i] - step.from), out)) continue;
      if (!after_unknown && fallback.unknown != kNoToken) out.push_back(fallback.unknown);
      after_unknown = true;
    }
  }

  const Unigram& model_;
  WordCache cache_;
  std::vector<Best> best_;  // by position: the best way to get there
  std::vector<std::uint32_t> path_;
};

Result<std::unique_ptr<Unigram>> Unigram::create(const TokenTable& tokens, std::span<const double> scores,
                                                 const Fallback& fallback) {
  if (scores.size() != tokens.size()) return corrupt("{} tokens but {} scores", tokens.size(), scores.size());
  std::unique_ptr<Unigram> model(new Unigram(tokens, fallback));
  model->scores_.assign(scores.begin(), scores.end());
  double least = 0;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (!std::isfinite(scores[id])) return corrupt("the score of token {} is {}", id, scores[id]);
    model->cuts_ &= static_cast<double>(static_cast<float>(scores[id])) == scores[id];
    if (tokens.type(static_cast<TokenId>(id)) == TokenType::normal) least = std::min(least, scores[id]);
  }
  constexpr double kPenalty = 10;  // SentencePiece's
  model->unknown_score_ = least - kPenalty;
  return model;
}

std::unique_ptr<Encoder> Unigram::encoder(std::size_t text_size) const {
  return std::make_unique<UnigramEncoder>(*this, text_size);
}

}  // namespace lithe::tokenizer
