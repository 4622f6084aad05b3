// The one place that tells kinds of model files apart.
#pragma once

#include <filesystem>
#include <memory>

#include "base/status.h"
#include "formats/model_file.h"

namespace lithe::models {

/// A GGUF file (any shard of a split) or a Hugging Face directory. Errors name it.
Result<std::unique_ptr<const formats::ModelFile>> open_model(const std::filesystem::path& path);

}  // namespace lithe::models
