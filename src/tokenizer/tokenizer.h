// Text to token ids and back. Plain data in (no file type is known here), exact ids out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/pipeline.h"

namespace lithe::tokenizer {

using TokenId = std::int32_t;

/// The numbers GGUF uses for tokenizer.ggml.token_type.
enum class TokenType : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

/// How an added token behaves in text where the plain "exactly these characters" is not meant.
struct AddedTokenRule {
  bool lstrip = false, rstrip = false;  // takes the white space before / after it along
  bool single_word = false;             // not inside a longer word
  bool normalized = false;              // looked for in the normalised text; of control tokens not heeded
};

/// Everything that defines a vocabulary. Views must outlive create() only: the tokenizer copies what it
/// keeps.
struct VocabSpec {
  std::string model;                 // tokenizer.ggml.model: "gpt2" = byte-level BPE, "llama", "t5", "bert"
  std::string pre;                   // tokenizer.ggml.pre: "gpt-2", "smollm", "llama-bpe", "qwen2", ...
  std::optional<Pipeline> pipeline;  // instead of what `model` and `pre` stand for
  std::vector<std::string_view> tokens;                            // by id, in the pipeline's alphabet
  std::vector<TokenType> types;                                    // by id; empty = all normal
  std::vector<std::string_view> merges;                            // "left right", best first
  std::vector<double> scores;                                      // by id, of SentencePiece's models
  std::string charsmap;                                            // tokenizer.ggml.precompiled_charsmap
  std::optional<bool> add_space_prefix, remove_extra_whitespaces;  // of SentencePiece's models
  std::optional<bool> lowercase, strip_accents;                    // of BERT's
  std::optional<TokenId> bos, eos, eot, unk, pad;
  std::optional<TokenId> sep;   // nothing: eos
  bool add_sep = false;         // between two texts, after the first one's eos: RoBERTa's "</s></s>"
  std::set<TokenId> extra_eos;  // further ids that end an answer (generation_config, <|im_end|>, ...)
  std::optional<bool> add_bos, add_eos;     // nothing: the default of `pre`
  std::map<TokenId, AddedTokenRule> rules;  // of control and user_defined tokens; GGUF has no field for them
  std::shared_ptr<const void> owner;        // of what the views point to, where nobody else keeps it
};

/// Bytes [begin, end) of a text.
struct ByteRange {
  std::size_t begin = 0, end = 0;
};

struct EncodeOptions {
  bool add_special = true;  // BOS / EOS as the vocabulary asks; never a second BOS if the text begins with it
  bool parse_special =
      true;  // control tokens written in the text become their ids (user_defined ones always do)
  /// Parts that a user wrote inside a rendered template: a control token touching one stays plain text there.
  /// Ascending, disjoint.
  std::span<const ByteRange> untrusted = {};
};

/// Immutable after create(): safe from several threads.
class Tokenizer {
 public:
  /// unsupported: names the model or pre-tokenizer not known. corrupt: names the token or merge at fault.
  /// Control tokens longer than 1,024 bytes are not looked for in text.
  static Result<Tokenizer> create(const VocabSpec& spec);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Any bytes: what is not valid UTF-8 counts as U+FFFD, as Python's decode("utf-8", "replace") hands it to
  /// Hugging Face. Linear in the text's length. A byte that the vocabulary has no token for is left out, as
  /// by Hugging Face and llama.cpp (SmolLM2 lacks six control characters). Fails only on texts of 2 GiB and
  /// more and when the generic pattern engine reaches its limits.
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The bytes of the ids, control tokens left out unless `with_special`. Out-of-range ids are an error.
  Result<std::string> decode(std::span<const TokenId> ids, bool with_special = true) const;

  /// The bytes of one id (empty for control tokens unless `with_special`); empty when out of range. `first`: at
  /// the beginning of a text, where SentencePiece's tokens and BERT's lose the blank before them.
  std::string_view piece(TokenId id, bool with_special = true, bool first = false) const;
  std::optional<TokenId> find(std::string_view token) const;  // by its written form, e.g. "<|im_end|>"

  std::int64_t size() const;
  /// The ids below it are tokens; from it on there is only what fills a vocabulary up to the rows of a model (of type
  /// unused, as converters write it): never to be chosen.
  std::int64_t choosable() const;
  TokenType type(TokenId id) const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  /// What stands between two texts beside the first one's eos; nothing: nothing more.
  std::optional<TokenId> separator() const;
  std::string_view written(TokenId id) const;  // as in the vocabulary; empty when out of range
  bool add_bos() const;
  /// Ends an answer: the union of eos, eot and extra_eos.
  bool ends_generation(TokenId id) const;
  const std::set<TokenId>& end_ids() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Ids in, text out, cut only between whole characters: a stream whose every chunk is valid UTF-8 and whose
/// concatenation is decode() of all ids, with invalid bytes as U+FFFD.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool with_special = false)
      : tokenizer_(&tokenizer), with_special_(with_special) {}
  std::string push(TokenId id);  // the characters that id completes; may be empty
  std::string flush();           // what is left, at the end

 private:
  const Tokenizer* tokenizer_;
  bool with_special_, first_ = true;
  std::string pending_;  // an incomplete UTF-8 sequence, at most 3 bytes
};

}  // namespace lithe::tokenizer
