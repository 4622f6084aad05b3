#include "models/open_model.h"

#include "formats/gguf.h"

namespace lithe::models {

Result<std::unique_ptr<const formats::ModelFile>> open_model(const std::filesystem::path& path) {
  LITHE_ASSIGN_OR_RETURN(formats::GgufFile file, formats::GgufFile::open(path));
  return std::unique_ptr<const formats::ModelFile>(std::make_unique<formats::GgufFile>(std::move(file)));
}

}  // namespace lithe::models
