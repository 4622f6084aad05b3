#include "vocabulary.h"

#include "formats/gguf.h"
#include "model_flags.h"
#include "models/gguf_vocab.h"

namespace lithe::app {

Result<tokenizer::Tokenizer> load_tokenizer(const std::string& model) {
  ModelFlags flags;
  flags.model = model;
  LITHE_ASSIGN_OR_RETURN(const std::string path, flags.path());
  LITHE_ASSIGN_OR_RETURN(const formats::GgufFile file, formats::GgufFile::open(path));
  LITHE_ASSIGN_OR_RETURN(const tokenizer::VocabSpec spec, models::vocab_spec(file));
  auto made = tokenizer::Tokenizer::create(spec);
  if (!made.ok()) return std::move(made).status().with_context(path);
  return made;
}

}  // namespace lithe::app
