#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/char_model.h"
#include "tokenizer/normalize.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/splitter.h"
#include "tokenizer/token_table.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unigram.h"
#include "tokenizer/wordpiece.h"

namespace lithe::tokenizer {
namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 31;  // positions within a word take 31 bits

bool is_special(TokenType type) {
  return type == TokenType::control || type == TokenType::unknown || type == TokenType::unused;
}

Status check_id(const char* name, std::optional<TokenId> id, const TokenTable& tokens) {
  if (!id || tokens.contains(*id)) return {};
  return corrupt("the {} token is {}, but the vocabulary has {} tokens", name, *id, tokens.size());
}

/// `tokens` must outlive the result.
Result<std::unique_ptr<Model>> make_model(const VocabSpec& spec, const Pipeline& pipeline,
                                          const TokenTable& tokens) {
  using Made = Result<std::unique_ptr<Model>>;
  const Fallback fallback = Fallback::create(tokens, pipeline.byte_fallback, spec.unk, pipeline.fuse_unknown);
  const auto upcast = [](auto made) -> Made {
    if (!made.ok()) return std::move(made).status();
    return std::unique_ptr<Model>(std::move(made).value());
  };
  switch (pipeline.model) {
    case ModelKind::byte_bpe:
      return upcast(Bpe::create(tokens, spec.merges, pipeline.ignore_merges));
    case ModelKind::char_bpe:
      return upcast(CharBpe::create(tokens, spec.merges, pipeline.ignore_merges, fallback));
    case ModelKind::scored_bpe:
      return upcast(ScoredBpe::create(tokens, spec.scores, fallback));
    case ModelKind::unigram:
      return upcast(Unigram::create(tokens, spec.scores, fallback));
    case ModelKind::word_piece:
      return Made(std::make_unique<WordPiece>(tokens, fallback.unknown, pipeline.longest_word));
    case ModelKind::word_level:
      return Made(std::make_unique<WordLevel>(tokens, fallback.unknown));
  }
  return internal("no such model");
}

}  // namespace

struct Tokenizer::Impl {
  TokenTable tokens;
  Normalizer normalizer;
  Splitter splitter;
  AddedTokens added, added_normalized;
  std::unique_ptr<Model> model;  // borrows tokens
  std::optional<TokenId> bos, eos, separator;
  std::set<TokenId> ends;
  Decoding::First first = Decoding::First::as_it_is;
  bool add_bos = false, add_eos = false;

  /// `text`: between added tokens; `first`: nothing comes before it.
  Status encode_plain(std::string_view text, bool begins, Encoder& words, std::vector<TokenId>& out) const {
    LITHE_ASSIGN_OR_RETURN(const std::optional<std::string> normalized, normalizer.apply(text));
    if (normalized) text = *normalized;
    const auto encode_words = [&](std::string_view part, bool begins_too) {
      return splitter.split(part, begins_too,
                            [&](std::string_view word, const char* end) { words.encode(word, end, out); });
    };
    if (added_normalized.empty()) return encode_words(text, begins);
    AddedTokens::Scope scope{true, {}};
    for (std::size_t at = 0, from = 0;;) {
      const AddedTokens::Match match = added_normalized.find(text, from, at, scope);
      if (match.begin > at)
        LITHE_RETURN_IF_ERROR(encode_words(text.substr(at, match.begin - at), begins && at == 0));
      if (match.id == kNoToken) return {};
      out.push_back(match.id);
      at = match.end;
      from = match.resume;
    }
  }

  Status add_normalized(const std::map<TokenId, AddedTokenRule>& rules) {
    for (const auto& [id, rule] : rules) {
      if (!rule.normalized || tokens.type(id) != TokenType::user_defined) continue;
      const std::string_view written = tokens.written(id);
      if (valid_utf8_prefix(written) != written.size()) continue;
      LITHE_ASSIGN_OR_RETURN(const auto text, normalizer.apply(written));
      added_normalized.add(text ? std::string_view(*text) : written, id, false, rule);
    }
    return {};
  }
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::create(const VocabSpec& spec) {
  Pipeline pipeline;
  if (spec.pipeline) {
    pipeline = *spec.pipeline;
  } else {
    LITHE_ASSIGN_OR_RETURN(pipeline, pipeline_of(spec));
  }
  LITHE_ASSIGN_OR_RETURN(TokenTable tokens, TokenTable::create(spec, pipeline.alphabet));
  LITHE_RETURN_IF_ERROR(check_id("BOS", spec.bos, tokens));
  LITHE_RETURN_IF_ERROR(check_id("EOS", spec.eos, tokens));
  LITHE_RETURN_IF_ERROR(check_id("EOT", spec.eot, tokens));
  LITHE_RETURN_IF_ERROR(check_id("separator", spec.sep, tokens));
  LITHE_RETURN_IF_ERROR(check_id("unknown", spec.unk, tokens));
  LITHE_RETURN_IF_ERROR(check_id("padding", spec.pad, tokens));
  for (const TokenId id : spec.extra_eos) LITHE_RETURN_IF_ERROR(check_id("end", id, tokens));
  for (const auto& [id, rule] : spec.rules) LITHE_RETURN_IF_ERROR(check_id("added", id, tokens));
  LITHE_ASSIGN_OR_RETURN(Normalizer normalizer, Normalizer::create(pipeline.normalizers));
  LITHE_ASSIGN_OR_RETURN(Splitter splitter, Splitter::create(pipeline));

  LITHE_RETURN_IF_ERROR(tokens.set_decoding(pipeline.decoding));
  auto impl = std::make_unique<Impl>(
      Impl{std::move(tokens), std::move(normalizer), std::move(splitter), {}, {}, {}, {}, {}, {}, {}});
  impl->added = AddedTokens(impl->tokens, spec.rules);
  LITHE_RETURN_IF_ERROR(impl->add_normalized(spec.rules));
  LITHE_ASSIGN_OR_RETURN(impl->model, make_model(spec, pipeline, impl->tokens));
  impl->first = pipeline.decoding.first;
  impl->bos = spec.bos;
  impl->eos = spec.eos;
  if (spec.add_sep) impl->separator = spec.sep ? spec.sep : spec.eos;
  impl->ends = spec.extra_eos;
  if (spec.eos) impl->ends.insert(*spec.eos);
  if (spec.eot) impl->ends.insert(*spec.eot);
  impl->add_bos = spec.bos && spec.add_bos.value_or(pipeline.add_bos);
  impl->add_eos = spec.eos && spec.add_eos.value_or(pipeline.add_eos);
  return Tokenizer(std::move(impl));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() >= kMaxText)
    return invalid("a text of {} bytes: at most {} are supported", text.size(), kMaxText - 1);
  std::vector<ByteRange> untrusted(options.untrusted.begin(), options.untrusted.end());
  const std::optional<std::string> repaired = replace_invalid_utf8(text, untrusted);
  if (repaired) text = *repaired;

  std::vector<TokenId> out;
  out.reserve(text.size() / 3 + 8);
  const std::unique_ptr<Encoder> words = impl_->model->encoder(text.size());
  const bool add_bos = options.add_special && impl_->add_bos;
  if (add_bos) out.push_back(*impl_->bos);
  AddedTokens::Scope scope{options.parse_special, untrusted};
  for (std::size_t at = 0, from = 0;;) {
    const AddedTokens::Match match = impl_->added.find(text, from, at, scope);
    if (match.begin > at)
      LITHE_RETURN_IF_ERROR(impl_->encode_plain(text.substr(at, match.begin - at), at == 0, *words, out));
    if (match.id == kNoToken) break;
    // A text that brings its own BOS (a chat template's) gets no second one.
    const bool brings_bos = add_bos && out.size() == 1 && at == 0 && match.id == *impl_->bos;
    if (!brings_bos) out.push_back(match.id);
    at = match.end;
    from = match.resume;
  }
  if (options.add_special && impl_->add_eos) out.push_back(*impl_->eos);
  return out;
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, bool with_special) const {
  std::string text;
  text.reserve(ids.size() * 4);
  bool first = true;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!impl_->tokens.contains(ids[i])) {
      return invalid("id {} at position {} is not in the vocabulary of {} tokens", ids[i], i, size());
    }
    const std::string_view part = piece(ids[i], with_special, first);
    if (with_special || !is_special(impl_->tokens.type(ids[i]))) first = false;
    text += part;
  }
  return text;
}

std::string_view Tokenizer::piece(TokenId id, bool with_special, bool first) const {
  if (!impl_->tokens.contains(id)) return {};
  if (!with_special && is_special(impl_->tokens.type(id))) return {};
  std::string_view piece = impl_->tokens.piece(id);
  if (!first || impl_->first == Decoding::First::as_it_is || !piece.starts_with(' ')) return piece;
  if (impl_->first == Decoding::First::without_space) return piece.substr(1);
  return piece.substr(std::min(piece.find_first_not_of(' '), piece.size()));
}

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  const TokenId id = impl_->tokens.find_written(token);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

std::int64_t Tokenizer::size() const {
  return static_cast<std::int64_t>(impl_->tokens.size());
}
std::int64_t Tokenizer::choosable() const {
  auto end = static_cast<TokenId>(size());
  while (end > 0 && type(end - 1) == TokenType::unused) --end;
  return end;
}
TokenType Tokenizer::type(TokenId id) const {
  return impl_->tokens.contains(id) ? impl_->tokens.type(id) : TokenType::unused;
}
std::optional<TokenId> Tokenizer::bos() const {
  return impl_->bos;
}
std::optional<TokenId> Tokenizer::eos() const {
  return impl_->eos;
}
std::optional<TokenId> Tokenizer::separator() const {
  return impl_->separator;
}
std::string_view Tokenizer::written(TokenId id) const {
  return impl_->tokens.contains(id) ? impl_->tokens.written(id) : std::string_view();
}
bool Tokenizer::add_bos() const {
  return impl_->add_bos;
}
bool Tokenizer::ends_generation(TokenId id) const {
  return impl_->ends.contains(id);
}
const std::set<TokenId>& Tokenizer::end_ids() const {
  return impl_->ends;
}

std::string StreamDecoder::push(TokenId id) {
  std::string bytes = std::move(pending_);
  pending_.clear();
  bytes += tokenizer_->piece(id, with_special_, first_);
  if (with_special_ || !is_special(tokenizer_->type(id))) first_ = false;
  std::string out;
  const char* p = bytes.data();
  const char* const end = p + bytes.size();
  while (p < end) {
    const std::size_t valid = valid_utf8_prefix({p, static_cast<std::size_t>(end - p)});
    out.append(p, valid);
    p += valid;
    if (p == end) break;
    const Utf8Step step = utf8_step(p, end);
    if (step.incomplete) {
      pending_.assign(p, end);
      break;
    }
    out += kReplacement;
    p += step.length;
  }
  return out;
}

std::string StreamDecoder::flush() {
  const bool left = !pending_.empty();
  pending_.clear();
  return left ? std::string(kReplacement) : std::string();
}

}  // namespace lithe::tokenizer
