#include "tokenizer/pipeline.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace lithe::tokenizer {
namespace {

using StepKind = NormalizerStep::Kind;

Result<Pipeline> byte_level(const VocabSpec& spec) {
  const PreTokenizerRow* row = find_pre_tokenizer(spec.pre);
  if (row == nullptr) {
    return unsupported("pre-tokenizer {}: not known; the nearest known is {}", in_quotes(spec.pre),
                       nearest_pre_tokenizer(spec.pre));
  }
  Pipeline out;
  out.pre = spec.pre;
  out.ignore_merges = row->ignore_merges;
  out.add_bos = row->add_bos;
  if (row->nfc) out.normalizers.push_back({.kind = StepKind::nfc});
  return out;
}

/// What SentencePiece's normaliser does, the map aside.
void add_spaces(const VocabSpec& spec, Pipeline& out) {
  if (spec.remove_extra_whitespaces.value_or(false))
    out.normalizers.push_back({.kind = StepKind::extra_spaces});
  if (!spec.add_space_prefix.value_or(true)) return;
  out.normalizers.push_back({.kind = StepKind::prepend, .text = " "});
  out.decoding.first = Decoding::First::without_space;
}

Pipeline sentencepiece(const VocabSpec& spec, ModelKind model) {
  Pipeline out;
  out.alphabet = Alphabet::spaced;
  out.model = model;
  out.byte_fallback = true;
  out.fuse_unknown = true;
  if (!spec.charsmap.empty()) {
    out.normalizers.push_back({.kind = StepKind::charsmap, .text = spec.charsmap});
  }
  out.normalizers.push_back({.kind = StepKind::replace, .pattern = "\xE2\x96\x81", .text = " "});
  add_spaces(spec, out);
  out.add_bos = model == ModelKind::scored_bpe;
  out.add_eos = model == ModelKind::unigram;
  return out;
}

/// Byte-pair encoding of whole texts with U+2581 for blanks.
Pipeline gemma4() {
  Pipeline out;
  out.alphabet = Alphabet::spaced;
  out.model = ModelKind::char_bpe;
  out.byte_fallback = true;
  out.fuse_unknown = true;
  out.normalizers.push_back({.kind = StepKind::replace, .pattern = "\xE2\x96\x81", .text = " "});
  return out;
}

/// Byte-pair encoding of characters as they are, within words.
Pipeline whitespace(const VocabSpec& spec) {
  Pipeline out;
  out.alphabet = Alphabet::plain;
  out.model = ModelKind::char_bpe;
  if (spec.lowercase.value_or(false)) out.normalizers.push_back({.kind = StepKind::lowercase});
  out.splits.push_back(whitespace_step());
  out.decoding.first = Decoding::First::without_space;
  out.decoding.spaces_between = true;
  return out;
}

Pipeline bert(const VocabSpec& spec) {
  Pipeline out;
  out.alphabet = Alphabet::spaced;  // GGUF writes the blank before a word as U+2581
  out.model = ModelKind::word_piece;
  out.normalizers.push_back({.kind = StepKind::bert,
                             .accents = spec.strip_accents.value_or(spec.lowercase.value_or(true)),
                             .lower = spec.lowercase.value_or(true)});
  out.splits.push_back({.text = R"(\s+)", .behavior = SplitStep::Behavior::removed});
  out.splits.push_back({.text = R"(\p{BertPunctuation})"});
  out.decoding.first = Decoding::First::without_space;
  out.decoding.tidy = out.decoding.added_apart = true;
  out.add_bos = out.add_eos = true;
  return out;
}

// The values of tokenizer.ggml.pre that say "no byte-level alphabet" of a model called gpt2.
constexpr std::string_view kGemma4[] = {"gemma4", "granite-embed-multi-311m", "sarvam-moe"};

}  // namespace

SplitStep whitespace_step() {
  const std::string word =  // \w of another engine, which takes more for letters
      R"(\w\p{Nl}\x{200C}\x{200D}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169})"
      R"(\x{1F170}-\x{1F189})";
  return {.text = "[" + word + "]+|[^" + word + R"(\s]+)",
          .behavior = SplitStep::Behavior::removed,
          .invert = true};
}

Result<Pipeline> pipeline_of(const VocabSpec& spec) {
  if (spec.model == "gpt2") {
    if (std::ranges::find(kGemma4, spec.pre) != std::end(kGemma4)) return gemma4();
    if (spec.pre == "whitespace") return whitespace(spec);
    return byte_level(spec);
  }
  if (spec.model == "whitespace") return whitespace(spec);
  if (spec.model == "llama") return sentencepiece(spec, ModelKind::scored_bpe);
  if (spec.model == "t5") return sentencepiece(spec, ModelKind::unigram);
  if (spec.model == "bert") return bert(spec);
  if (spec.model == "gemma4") return gemma4();
  return unsupported(
      "tokenizer model {}: known are gpt2 (byte-level BPE), llama (SentencePiece BPE), t5 (unigram), bert "
      "(WordPiece), "
      "gemma4 and whitespace",
      in_quotes(spec.model));
}

}  // namespace lithe::tokenizer
