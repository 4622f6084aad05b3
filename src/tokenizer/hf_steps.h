// The parts of a tokenizer.json that are chains of steps: normaliser, pre-tokenizer, decoder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "tokenizer/pipeline.h"

namespace lithe::tokenizer {

inline constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581, SentencePiece's blank

/// What the steps say, in the file's own terms.
struct HfSteps {
  std::vector<NormalizerStep> normalizers;
  std::vector<SplitStep> splits;
  Decoding decoding;
  bool byte_level = false;  // tokens are written in the byte-level alphabet
  bool metaspace = false;   // U+2581 stands for a blank
  bool has_decoder = false;
};

/// unsupported: names the step.
Result<HfSteps> read_steps(const Json& file);

/// The same with plain blanks in place of U+2581, for Alphabet::spaced. False, and nothing changed, where that would
/// not cut the same: then the steps are taken as they are.
bool use_plain_blanks(HfSteps& steps);

/// Of a Json object: the member as this type, or the default. Wrong types are defaults, too.
bool bool_of(const Json& object, std::string_view key, bool otherwise);
std::string_view string_of(const Json& object, std::string_view key, std::string_view otherwise = {});

}  // namespace lithe::tokenizer
