// What the mixtures of experts have in common, as dense.h for the rest of a layer.
#pragma once

#include <string_view>

#include "base/status.h"
#include "models/arch_spec.h"
#include "models/hf/config.h"
#include "models/parameters.h"
#include "models/weight_table.h"

namespace lithe::models {

/// Experts in all layers but the leading dense ones that the file states. `usual`: the rule where the file is silent.
/// A file without experts is a dense model.
Status describe_experts(const Parameters& parameters, const MoeSpec& usual, ArchSpec& spec);

/// Names within "model.layers.{}." of a checkpoint.
struct ExpertNames {
  std::string_view router, gate, up, down;  // "mlp.gate", "mlp.experts.{e}.gate_proj", ...
};
inline constexpr ExpertNames kMlpExperts{"mlp.gate.weight", "mlp.experts.{e}.gate_proj.weight",
                                         "mlp.experts.{e}.up_proj.weight",
                                         "mlp.experts.{e}.down_proj.weight"};
/// The router and the experts, in sparse layers; the dense matrices stay for the others.
void add_experts(WeightTable& table, const ExpertNames& names);
/// The expert of every token, likewise.
void add_shared_expert(WeightTable& table, std::string_view gate, std::string_view up, std::string_view down);

/// Counts and sizes of experts, under the names of a config.json.
KeyTable expert_keys(std::string_view count, std::string_view ffn);

}  // namespace lithe::models
