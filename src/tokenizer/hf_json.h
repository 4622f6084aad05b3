// tokenizer.json of Hugging Face tokenizers, read into the plain data that Tokenizer takes.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace lithe::tokenizer {

/// Owns the strings that `spec` borrows.
struct HfTokenizer {
  VocabSpec spec;          // with a pipeline; bos and eos: what the file puts around a text
  std::string pre_row;     // the row of pre_tokenizer.h whose patterns these are; empty: none
  bool exact_row = false;  // and whose flags these are, too: that name says all of it
  std::deque<std::string> strings;
};

/// Pure: text in, data out. corrupt: no such JSON, or ids and names that do not fit. unsupported: names the part
/// (a model, a normaliser, a decoder, ...) that is not known.
Result<std::unique_ptr<HfTokenizer>> parse_tokenizer_json(std::string_view text);

}  // namespace lithe::tokenizer
