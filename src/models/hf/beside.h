// What a directory says of its model beside sizes and weights: that it is quantised, that tokens see what follows them, and
// how Sentence Transformers makes one vector of a text. What is not run is refused: ignoring it would change the numbers.
#pragma once

#include <filesystem>
#include <vector>

#include "base/status.h"
#include "models/hf/config.h"
#include "models/hf/vocab.h"

namespace lithe::models {

/// unsupported: quantization_config of a method whose tensors are not read.
Status check_quantization(const HfConfig& config);

/// unsupported: a decoder whose tokens see what follows, or an encoder whose tokens do not.
Status check_direction(HfConfig& config, bool causal);

/// modules.json and the configuration of its pooling, where they are: "pooling_type". unsupported: further modules
/// (Dense, ...), other poolings.
Status import_sentence_parts(const std::filesystem::path& folder, HfConfig& config);

/// The same files, for rows of `hidden` numbers; none for Pooling::none and rank.
std::vector<HfFile> sentence_parts(Pooling pooling, std::int64_t hidden);

}  // namespace lithe::models
