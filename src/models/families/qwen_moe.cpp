// qwen2moe and qwen3moe: Qwen 1.5 and 2 MoE, Qwen 3 MoE. The dense families with experts; qwen2moe has one expert more that
// every token passes through, weighed by a sigmoid.
#include <array>

#include "models/families/dense.h"
#include "models/families/sparse.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kQwen2Names{"Qwen2MoeForCausalLM"};
constexpr std::array<std::string_view, 1> kQwen3Names{"Qwen3MoeForCausalLM"};

Result<ArchSpec> describe2(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  MoeSpec usual;
  usual.shared_gate = true;
  LITHE_RETURN_IF_ERROR(describe_experts(parameters, usual, spec));
  return spec;
}

Result<ArchSpec> describe3(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  MoeSpec usual;
  usual.rule.normalise = true;
  LITHE_RETURN_IF_ERROR(describe_experts(parameters, usual, spec));
  for (LayerSpec& layer : spec.layers) layer.qk_norm = QkNorm::per_head;
  return spec;
}

WeightTable weights2(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  add_qkv_biases(table, Presence::required, Transform::none);
  add_experts(table, kMlpExperts);
  add_shared_expert(table, "mlp.shared_expert.gate_proj.weight", "mlp.shared_expert.up_proj.weight",
                    "mlp.shared_expert.down_proj.weight");
  table.push_back({.role = Role::shared_weight,
                   .gguf = "blk.{}.ffn_gate_inp_shexp.weight",
                   .hf = "model.layers.{}.mlp.shared_expert_gate.weight",
                   .where = has_shared_expert});
  return table;
}

WeightTable weights3(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  add_qk_norms(table, Dim::head_dim, Dim::head_dim);
  add_experts(table, kMlpExperts);
  return table;
}

KeyTable keys() {
  KeyTable keys = dense_keys();
  for (const KeyRow& row : expert_keys("num_experts|num_local_experts", "moe_intermediate_size"))
    keys.push_back(row);
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"", "use_sliding_window", KeyKind::boolean, "false"});
  keys.push_back({"", "decoder_sparse_step", KeyKind::integer, "1"});
  keys.push_back({"", "mlp_only_layers", KeyKind::integer, "[]"});
  return keys;
}

Status translate2(HfConfig& config) {
  config.name("Qwen2MoeForCausalLM", "qwen2_moe");
  KeyTable table = keys();
  table.push_back(
      {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", KeyKind::integer, "5632"});
  table.push_back({"expert_weights_norm", "norm_topk_prob", KeyKind::boolean, "false"});
  table.push_back({"", "qkv_bias", KeyKind::boolean, "true"});
  LITHE_RETURN_IF_ERROR(config.translate(table));
  return config.translate_rope(10000.0);
}

Status translate3(HfConfig& config) {
  config.name("Qwen3MoeForCausalLM", "qwen3_moe");
  KeyTable table = keys();
  table.push_back({"expert_weights_norm", "norm_topk_prob", KeyKind::boolean, "false"});
  table.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  LITHE_RETURN_IF_ERROR(config.translate(table));
  return config.translate_rope(10000.0);
}

}  // namespace

const Family kQwen2Moe{"qwen2moe", kQwen2Names, describe2, weights2, translate2};
const Family kQwen3Moe{"qwen3moe", kQwen3Names, describe3, weights3, translate3};

}  // namespace lithe::models
