// A model file's tokenizer, for commands that need no weights.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "formats/metadata.h"
#include "formats/model_file.h"
#include "tokenizer/tokenizer.h"

namespace lithe::app {

/// The metadata of a GGUF file, or the texts of a Hugging Face directory under the same keys.
class VocabularySource {
 public:
  static Result<VocabularySource> open(const std::string& path);
  const formats::Metadata& metadata() const { return metadata_ ? *metadata_ : file_->metadata(); }

 private:
  VocabularySource() = default;
  std::unique_ptr<const formats::ModelFile> file_;
  std::unique_ptr<const formats::Metadata> metadata_;  // of a directory
};

/// `model` as ModelFlags::path() takes it. Files with a vocabulary alone will do.
Result<tokenizer::Tokenizer> load_tokenizer(const std::string& model);

/// Of a text that is only tokenised, or of its ids: read_input()'s limit.
inline constexpr std::size_t kMostCorpusBytes = std::size_t{2} << 30;

}  // namespace lithe::app
