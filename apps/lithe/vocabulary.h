// A model file's tokenizer, for commands that need no weights.
#pragma once

#include <string>

#include "tokenizer/tokenizer.h"

namespace lithe::app {

/// `model` as ModelFlags::path() takes it. Files with a vocabulary alone will do.
Result<tokenizer::Tokenizer> load_tokenizer(const std::string& model);

/// A file of less than 2 GiB, or all of stdin ("-").
Result<std::string> read_input(const std::string& path);

}  // namespace lithe::app
