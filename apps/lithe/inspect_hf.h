// lithe inspect of a Hugging Face directory that does not run: what is in it, as it stands, and why not.
#pragma once

#include <filesystem>

#include "base/status.h"

namespace lithe::app {

/// Prints configuration and tensors under the checkpoint's own names. `reason`: why it does not run. Errors: the folder
/// itself is damaged.
Status inspect_hf_directory(const std::filesystem::path& folder, const Status& reason, bool all, bool json);

}  // namespace lithe::app
