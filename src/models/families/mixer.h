// What models with Mamba-2 mixers have in common, as dense.h for attention.
#pragma once

#include <string_view>

#include "base/status.h"
#include "models/arch_spec.h"
#include "models/hf/config.h"
#include "models/parameters.h"
#include "models/weight_table.h"

namespace lithe::models {

/// The sizes under "ssm.".
Result<layers::MambaSpec> describe_mixer(const Parameters& parameters);
/// Refuses a config.json whose mixers bound their steps: no published model does, and GGUF has no word for it.
Status check_step_limit(const HfConfig& config);
/// The mixer's tensors, in recurrent layers; `prefix`: "model.layers.{}.mamba." of a checkpoint.
void add_mixer(WeightTable& table, std::string_view prefix);

}  // namespace lithe::models
