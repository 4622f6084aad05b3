#include "vocabulary.h"

#include "formats/hf_directory.h"
#include "model_flags.h"
#include "models/gguf_vocab.h"
#include "models/hf/vocab.h"
#include "models/open_model.h"

namespace lithe::app {

Result<VocabularySource> VocabularySource::open(const std::string& path) {
  VocabularySource source;
  if (formats::is_hf_directory(path)) {
    LITHE_ASSIGN_OR_RETURN(const auto folder,
                           formats::HfDirectory::open(path, formats::HfDirectory::Parts::text_only));
    formats::MetadataBuilder keys;
    LITHE_RETURN_IF_ERROR(models::add_hf_vocabulary(folder, keys));
    LITHE_ASSIGN_OR_RETURN(formats::Metadata metadata, keys.build());
    source.metadata_ = std::make_unique<formats::Metadata>(std::move(metadata));
    return source;
  }
  LITHE_ASSIGN_OR_RETURN(source.file_, models::open_model(path));
  return source;
}

Result<tokenizer::Tokenizer> load_tokenizer(const std::string& model) {
  ModelFlags flags;
  flags.model = model;
  LITHE_ASSIGN_OR_RETURN(const std::string path, flags.path());
  LITHE_ASSIGN_OR_RETURN(const VocabularySource source, VocabularySource::open(path));
  auto spec = models::vocab_spec(source.metadata());
  if (!spec.ok()) return std::move(spec).status().with_context(path);
  auto made = tokenizer::Tokenizer::create(*spec);
  if (!made.ok()) return std::move(made).status().with_context(path);
  return made;
}

}  // namespace lithe::app
