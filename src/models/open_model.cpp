#include "models/open_model.h"

#include "formats/gguf.h"
#include "formats/hf_directory.h"
#include "models/hf/model.h"

namespace lithe::models {

Result<std::unique_ptr<const formats::ModelFile>> open_model(const std::filesystem::path& path) {
  if (formats::is_hf_directory(path)) {
    LITHE_ASSIGN_OR_RETURN(std::unique_ptr<HfModel> model, HfModel::open(path));
    return std::unique_ptr<const formats::ModelFile>(std::move(model));
  }
  LITHE_ASSIGN_OR_RETURN(formats::GgufFile file, formats::GgufFile::open(path));
  return std::unique_ptr<const formats::ModelFile>(std::make_unique<formats::GgufFile>(std::move(file)));
}

}  // namespace lithe::models
