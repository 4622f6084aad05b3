// qwen3: Qwen 3. Each head of q and k passes through an RMS norm of its own before the rotation; no biases; head_dim
// is stated and need not be hidden / heads.
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"Qwen3ForCausalLM"};

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  for (LayerSpec& layer : spec.layers) layer.qk_norm = QkNorm::per_head;
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  table.push_back({Role::q_norm, "blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.q_norm.weight",
                   Dim::none, Dim::head_dim});
  table.push_back({Role::k_norm, "blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.k_norm.weight",
                   Dim::none, Dim::head_dim});
  return table;
}

Status translate(HfConfig& config) {
  config.name("Qwen3ForCausalLM", "qwen3");
  KeyTable keys = dense_keys();
  assume(keys, {{"head_dim", "128"}});
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"", "use_sliding_window", KeyKind::boolean, "false"});
  keys.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  return config.translate_rope(10000.0);
}

}  // namespace

const Family kQwen3{"qwen3", kHfNames, describe, weights, translate};

}  // namespace lithe::models
