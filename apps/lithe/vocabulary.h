// A model file's tokenizer, for commands that need no weights.
#pragma once

#include <cstddef>
#include <string>

#include "tokenizer/tokenizer.h"

namespace lithe::app {

/// `model` as ModelFlags::path() takes it. Files with a vocabulary alone will do.
Result<tokenizer::Tokenizer> load_tokenizer(const std::string& model);

/// Of a text that is only tokenised, or of its ids: read_input()'s limit.
inline constexpr std::size_t kMostCorpusBytes = std::size_t{2} << 30;

}  // namespace lithe::app
