// stablelm: StableLM 3B, Zephyr, Code, 2 1.6B and 2 12B. Layer norms; a quarter of each head rotates. The largest reads one
// norm of the stream in both branches, and has a norm of its own for each head of q and k.
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"StableLmForCausalLM"};

// Files of llama.cpp name no norms of q and k, and those from before its converter knew Transformers' defaults call the
// residual parallel wherever config.json is silent, which means that it is not: the tensors tell.
Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  describe_layer_norms(spec);
  spec.qk_norm_kind = NormKind::layer;
  LITHE_ASSIGN_OR_RETURN(const bool stated, parameters.flag_or("use_parallel_residual", false));
  const bool parallel = stated && !parameters.holds("blk.0.ffn_norm.weight");
  LITHE_ASSIGN_OR_RETURN(const bool norms, parameters.flag_or("attention.qk_norm",
                                                              parameters.holds("blk.0.attn_q_norm.weight")));
  for (LayerSpec& layer : spec.layers) {
    if (parallel) layer.residual = Residual::parallel;
    if (norms) layer.qk_norm = QkNorm::each_head;
  }
  return spec;
}

WeightTable weights(const ArchSpec& spec) {
  const LayerSpec& layer = spec.layers.front();
  WeightTable table = dense_weights(Transform::none);
  add_qkv_biases(table, Presence::optional, Transform::none);  // GGUF states them nowhere
  add_biases(table, {Role::output_norm, Role::attn_norm, Role::ffn_norm}, Presence::required);
  if (layer.residual == Residual::parallel) remove(table, {Role::ffn_norm, Role::ffn_norm_bias});
  if (layer.qk_norm == QkNorm::each_head) {
    add_qk_norms(table, Dim::head_dim, Dim::head_dim);
    entry_of(table, Role::q_norm).stack = Dim::heads;
    entry_of(table, Role::k_norm).stack = Dim::kv_heads;
    rename(table, {{Role::q_norm, "model.layers.{}.self_attn.q_layernorm.norms.{e}.weight"},
                   {Role::k_norm, "model.layers.{}.self_attn.k_layernorm.norms.{e}.weight"}});
  }
  return table;
}

Status translate(HfConfig& config) {
  config.name("StableLmForCausalLM", "stablelm");
  KeyTable keys = layer_norm_keys("layer_norm_eps");
  assume(keys, {{"num_key_value_heads", "32"}});
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"use_parallel_residual", "use_parallel_residual", KeyKind::boolean, "false"});
  keys.push_back({"attention.qk_norm", "qk_layernorm", KeyKind::boolean, "false"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  if (config.exporting()) {
    const LayerSpec& layer = config.spec().layers.front();
    config.set("use_parallel_residual", layer.residual == Residual::parallel);
    config.set("qk_layernorm", layer.qk_norm == QkNorm::each_head);
    config.set("use_qkv_bias", config.has_tensor("blk.0.attn_q.bias"));
  }
  return config.translate_rope(10000.0, 0.25);
}

}  // namespace

const Family kStableLm{"stablelm", kHfNames, describe, weights, translate};

}  // namespace lithe::models
