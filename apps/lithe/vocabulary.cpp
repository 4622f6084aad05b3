#include "vocabulary.h"

#include "model_flags.h"
#include "models/gguf_vocab.h"
#include "models/open_model.h"

namespace lithe::app {

Result<tokenizer::Tokenizer> load_tokenizer(const std::string& model) {
  ModelFlags flags;
  flags.model = model;
  LITHE_ASSIGN_OR_RETURN(const std::string path, flags.path());
  LITHE_ASSIGN_OR_RETURN(const auto file, models::open_model(path));
  auto spec = models::vocab_spec(file->metadata());
  if (!spec.ok()) return std::move(spec).status().with_context(path);
  auto made = tokenizer::Tokenizer::create(*spec);
  if (!made.ok()) return std::move(made).status().with_context(path);
  return made;
}

}  // namespace lithe::app
