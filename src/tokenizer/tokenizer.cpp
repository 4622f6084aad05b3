#include "tokenizer/tokenizer.h"

#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_table.h"
#include "tokenizer/unicode.h"

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

std::string known_names() {
  std::string names;
  for (const PreTokenizerRow& row : pre_tokenizer_rows()) {
    if (!names.empty()) names += ", ";
    names += row.names[0];
  }
  return names;
}

}  // namespace

struct Tokenizer::Impl {
  TokenTable tokens;
  const PreTokenizerRow* row;
  PreTokenizer pre;
  AddedTokens added;
  std::optional<TokenId> bos, eos;
  std::set<TokenId> ends;
  bool add_bos = false, add_eos = false;
  std::unique_ptr<Bpe> bpe;  // borrows tokens

  Status encode_plain(std::string_view text, WordEncoder& words, std::vector<TokenId>& out) const {
    std::optional<std::string> normalized;
    if (row->nfc) {
      LITHE_ASSIGN_OR_RETURN(normalized, normalize_nfc(text));
      if (normalized) text = *normalized;
    }
    const char* const end = text.data() + text.size();
    return pre.split(text, [&](std::string_view word) { words.encode(word, end, out); });
  }
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::create(const VocabSpec& spec) {
  if (spec.model != "gpt2") {
    return unsupported("tokenizer model {}: known is gpt2 (byte-level BPE)", in_quotes(spec.model));
  }
  const PreTokenizerRow* row = find_pre_tokenizer(spec.pre);
  if (row == nullptr)
    return unsupported("pre-tokenizer {}: known are {}", in_quotes(spec.pre), known_names());
  LITHE_ASSIGN_OR_RETURN(TokenTable tokens, TokenTable::create(spec));
  LITHE_RETURN_IF_ERROR(check_id("BOS", spec.bos, tokens));
  LITHE_RETURN_IF_ERROR(check_id("EOS", spec.eos, tokens));
  LITHE_RETURN_IF_ERROR(check_id("EOT", spec.eot, tokens));
  LITHE_RETURN_IF_ERROR(check_id("unknown", spec.unk, tokens));
  LITHE_RETURN_IF_ERROR(check_id("padding", spec.pad, tokens));
  for (const TokenId id : spec.extra_eos) LITHE_RETURN_IF_ERROR(check_id("end", id, tokens));
  for (const auto& [id, rule] : spec.rules) LITHE_RETURN_IF_ERROR(check_id("added", id, tokens));
  LITHE_ASSIGN_OR_RETURN(PreTokenizer pre, PreTokenizer::create(*row));

  auto impl = std::make_unique<Impl>();
  impl->tokens = std::move(tokens);
  impl->row = row;
  impl->pre = std::move(pre);
  impl->added = AddedTokens(impl->tokens, spec.rules);
  LITHE_ASSIGN_OR_RETURN(Bpe bpe, Bpe::create(impl->tokens, spec.merges, row->ignore_merges));
  impl->bpe = std::make_unique<Bpe>(std::move(bpe));
  impl->bos = spec.bos;
  impl->eos = spec.eos;
  impl->ends = spec.extra_eos;
  if (spec.eos) impl->ends.insert(*spec.eos);
  if (spec.eot) impl->ends.insert(*spec.eot);
  impl->add_bos = spec.bos && spec.add_bos.value_or(row->add_bos);
  impl->add_eos = spec.eos && spec.add_eos.value_or(false);
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
  WordEncoder words(*impl_->bpe, text.size());
  const bool add_bos = options.add_special && impl_->add_bos;
  if (add_bos) out.push_back(*impl_->bos);
  AddedTokens::Scope scope{options.parse_special, untrusted};
  for (std::size_t at = 0, from = 0;;) {
    const AddedTokens::Match match = impl_->added.find(text, from, at, scope);
    if (match.begin > at)
      LITHE_RETURN_IF_ERROR(impl_->encode_plain(text.substr(at, match.begin - at), words, out));
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
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!impl_->tokens.contains(ids[i])) {
      return invalid("id {} at position {} is not in the vocabulary of {} tokens", ids[i], i, size());
    }
    text += piece(ids[i], with_special);
  }
  return text;
}

std::string_view Tokenizer::piece(TokenId id, bool with_special) const {
  if (!impl_->tokens.contains(id)) return {};
  if (!with_special && is_special(impl_->tokens.type(id))) return {};
  return impl_->tokens.bytes(id);
}

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  const TokenId id = impl_->tokens.find_written(token);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

std::int64_t Tokenizer::size() const {
  return static_cast<std::int64_t>(impl_->tokens.size());
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
  bytes += tokenizer_->piece(id, with_special_);
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
