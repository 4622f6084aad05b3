#include "tokenizer/pipeline.h"

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

/// Byte-pair encoding of whole lines with U+2581 for blanks.
Pipeline gemma4() {
  Pipeline out;
  out.alphabet = Alphabet::spaced;
  out.model = ModelKind::char_bpe;
  out.byte_fallback = true;
  out.fuse_unknown = true;
  out.normalizers.push_back({.kind = StepKind::replace, .pattern = "\xE2\x96\x81", .text = " "});
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

}  // namespace

Result<Pipeline> pipeline_of(const VocabSpec& spec) {
  if (spec.model == "gpt2") {
    if (spec.pre == "gemma4") return gemma4();
    return byte_level(spec);
  }
  if (spec.model == "llama") return sentencepiece(spec, ModelKind::scored_bpe);
  if (spec.model == "t5") return sentencepiece(spec, ModelKind::unigram);
  if (spec.model == "bert") return bert(spec);
  if (spec.model == "gemma4") return gemma4();
  return unsupported(
      "tokenizer model {}: known are gpt2 (byte-level BPE), llama (SentencePiece BPE), t5 (unigram), bert "
      "(WordPiece) "
      "and gemma4",
      in_quotes(spec.model));
}

}  // namespace lithe::tokenizer
