// lithe convert --hf: a model as the directory that Hugging Face Transformers loads.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"
#include "formats/model_file.h"

namespace lithe::app {

struct HfOutput {
  std::string shard_size;  // "5GB", "200MB", bytes
  int threads = 0;
  bool dry_run = false, json = false;
};

/// Writes it, with a progress bar, and reports what was written. type: none for that of the input.
Status convert_to_hf(const formats::ModelFile& file, const std::filesystem::path& folder,
                     std::optional<DType> type, const HfOutput& output);

}  // namespace lithe::app
