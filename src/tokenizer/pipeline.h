// The way from text to words and from ids back to text, as plain data: what tokenizer.json describes, and what
// the few names in a GGUF stand for.
//
// Vocabularies that write a blank as U+2581 are kept with plain blanks (Alphabet::spaced): a text is then read
// as it is, and a token's bytes are its text.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace lithe::tokenizer {

struct VocabSpec;

/// How the written tokens stand for bytes.
enum class Alphabet : std::uint8_t {
  byte_level,  // GPT-2's alphabet: a character for each byte
  plain,       // as they are
  spaced,      // U+2581 is a blank
  word_piece,  // "##ab" continues a word, "ab" begins one: kept as "ab" and " ab"
};

enum class ModelKind : std::uint8_t { byte_bpe, char_bpe, scored_bpe, unigram, word_piece, word_level };

struct NormalizerStep {
  enum class Kind : std::uint8_t {
    nfc,
    nfd,
    nfkc,
    nfkd,
    lowercase,
    strip,          // white space at the ends
    strip_accents,  // marks
    replace,        // `pattern` by `text`
    prepend,        // `text`, unless the text is empty
    bert,           // control characters, blanks around Chinese, accents, case
    charsmap,       // SentencePiece's precompiled map, in `text`
    extra_spaces,   // blanks at the ends, and all but one of a run
  };
  Kind kind;
  std::string pattern = {}, text = {};
  bool regex = false;              // replace: the pattern is an expression, not a literal
  bool left = true, right = true;  // strip
  bool clean = true, cjk = true, accents = true, lower = true;  // bert
  bool graphemes = false;  // charsmap: by grapheme clusters, as Hugging Face reads it
};

struct SplitStep {
  enum class Kind : std::uint8_t {
    pattern,  // cut at the matches of `text`
    prefix,   // put `text` before a piece that does not begin with it
    respace,  // a blank becomes `text`; in Alphabet::spaced the other way round
  };
  enum class Behavior : std::uint8_t {
    removed,
    isolated,
    merged_with_previous,
    merged_with_next,
    contiguous
  };
  Kind kind = Kind::pattern;
  std::string text = {};
  Behavior behavior = Behavior::isolated;
  bool invert = false;      // what lies between the matches counts as the matches
  bool only_first = false;  // prefix: at the very beginning of the input only
};

/// Hugging Face's Whitespace: words, and runs of what is in none; the blanks between them vanish.
SplitStep whitespace_step();

struct Decoding {
  enum class First : std::uint8_t { as_it_is, without_space, without_spaces };
  First first = First::as_it_is;  // what the first token of a text loses
  bool spaces_between = false;    // every token brings a blank before it
  bool added_apart = false;       // added tokens do
  bool tidy = false;              // BERT's: no blank before punctuation and in contractions
  std::vector<std::pair<std::string, std::string>> replace;
};

struct Pipeline {
  Alphabet alphabet = Alphabet::byte_level;
  ModelKind model = ModelKind::byte_bpe;
  bool byte_fallback = false, fuse_unknown = false, ignore_merges = false;
  std::size_t longest_word = 100;  // word_piece
  std::vector<NormalizerStep> normalizers;
  std::string pre;                // a row of pre_tokenizer.h; empty: none
  std::vector<SplitStep> splits;  // after it
  Decoding decoding;
  bool add_bos = false, add_eos = false;  // when the file does not say
};

/// What spec.model and spec.pre stand for. unsupported: a name that is not known, with the nearest that is.
Result<Pipeline> pipeline_of(const VocabSpec& spec);

}  // namespace lithe::tokenizer
