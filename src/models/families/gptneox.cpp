// gptneox: GPT-NeoX, Pythia. Both branches read the same stream (or, as stated, one after another); a quarter of each head
// rotates; checkpoints hold q, k and v mixed head by head.
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"GPTNeoXForCausalLM"};

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  describe_layer_norms(spec);
  LITHE_ASSIGN_OR_RETURN(const auto parallel, parameters.flag_or("use_parallel_residual", true));
  for (LayerSpec& layer : spec.layers) {
    layer.ffn = FfnKind::plain;
    layer.activation = Activation::gelu_erf;
    if (parallel) layer.residual = Residual::parallel;
  }
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::grouped_qkv);
  remove(table, {Role::gate});
  entry_of(table, Role::v).transform = Transform::grouped_qkv;
  add_qkv_biases(table, Presence::required, Transform::grouped_qkv);
  entry_of(table, Role::v_bias).transform = Transform::grouped_qkv;
  rename(table, {{Role::embedding, "gpt_neox.embed_in.weight"},
                 {Role::output_norm, "gpt_neox.final_layer_norm.weight"},
                 {Role::output, "embed_out.weight|lm_head.weight"},
                 {Role::attn_norm, "gpt_neox.layers.{}.input_layernorm.weight"},
                 {Role::attn_out, "gpt_neox.layers.{}.attention.dense.weight"},
                 {Role::ffn_norm, "gpt_neox.layers.{}.post_attention_layernorm.weight"},
                 {Role::up, "gpt_neox.layers.{}.mlp.dense_h_to_4h.weight"},
                 {Role::down, "gpt_neox.layers.{}.mlp.dense_4h_to_h.weight"}});
  fuse(table, {Role::q, Role::k, Role::v}, "blk.{}.attn_qkv.weight",
       "gpt_neox.layers.{}.attention.query_key_value.weight");
  fuse(table, {Role::q_bias, Role::k_bias, Role::v_bias}, "blk.{}.attn_qkv.bias",
       "gpt_neox.layers.{}.attention.query_key_value.bias");
  add_biases(table,
             {Role::output_norm, Role::attn_norm, Role::ffn_norm, Role::attn_out, Role::up, Role::down},
             Presence::required);
  return table;
}

Status translate(HfConfig& config) {
  config.name("GPTNeoXForCausalLM", "gpt_neox");
  KeyTable keys = layer_norm_keys("layer_norm_eps");
  keys.push_back({"", "hidden_act", KeyKind::text, R"("gelu")"});
  keys.push_back({"", "attention_bias", KeyKind::boolean, "true"});
  keys.push_back({"use_parallel_residual", "use_parallel_residual", KeyKind::boolean, "true"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  LITHE_RETURN_IF_ERROR(config.translate_rope(10000.0, 0.25));
  if (config.exporting()) {  // under this family's own names
    config.set("rotary_emb_base", config.json().at("rope_theta"));
    config.set("rotary_pct", config.json().at("partial_rotary_factor"));
  }
  return {};
}

}  // namespace

const Family kGptNeoX{"gptneox", kHfNames, describe, weights, translate};

}  // namespace lithe::models
