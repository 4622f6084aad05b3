// olmo2: OLMo 2. Norms after the branches instead of before, and over all heads of q and of k at once.
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"Olmo2ForCausalLM"};

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  for (LayerSpec& layer : spec.layers) {
    layer.qk_norm = QkNorm::whole;
    layer.post_norm = true;
  }
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  remove(table, {Role::attn_norm, Role::ffn_norm});
  add_post_norms(table, "post_attention_layernorm", "post_feedforward_layernorm");
  add_qk_norms(table, Dim::q_out, Dim::k_out);
  return table;
}

Status translate(HfConfig& config) {
  config.name("Olmo2ForCausalLM", "olmo2");
  KeyTable keys = dense_keys();
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  return config.translate_rope(10000.0);
}

}  // namespace

const Family kOlmo2{"olmo2", kHfNames, describe, weights, translate};

}  // namespace lithe::models
