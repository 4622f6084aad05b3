// glm4: GLM 4 (0414). Norms before and after each branch, half of each head rotates, in neighbouring pairs; gate and up are
// one matrix.
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"Glm4ForCausalLM"};

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::interleaved));
  for (LayerSpec& layer : spec.layers) layer.post_norm = true;
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  add_post_norms(table, "post_self_attn_layernorm", "post_mlp_layernorm");
  add_qkv_biases(table, Presence::optional, Transform::none);  // attention_bias: GGUF does not state it
  fuse(table, {Role::gate, Role::up}, "blk.{}.ffn_up.weight", "model.layers.{}.mlp.gate_up_proj.weight");
  return table;
}

Status translate(HfConfig& config) {
  config.name("Glm4ForCausalLM", "glm4");
  if (config.exporting()) config.set("attention_bias", config.has_tensor("blk.0.attn_q.bias"));
  KeyTable keys = dense_keys();
  assume(keys, {{"rms_norm_eps", "1.5625e-7"}, {"head_dim", "128"}, {"num_key_value_heads", "2"}});
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  return config.translate_rope(10000.0, 0.5);
}

}  // namespace

const Family kGlm4{"glm4", kHfNames, describe, weights, translate};

}  // namespace lithe::models
