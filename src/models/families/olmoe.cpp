// olmoe: OLMoE. Experts in every layer, weights as the softmax leaves them, norms over all heads of q and of k at once.
#include <array>

#include "models/families/dense.h"
#include "models/families/sparse.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"OlmoeForCausalLM"};

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  LITHE_RETURN_IF_ERROR(describe_experts(parameters, {}, spec));
  for (LayerSpec& layer : spec.layers) layer.qk_norm = QkNorm::whole;
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  add_qk_norms(table, Dim::q_out, Dim::k_out);
  add_experts(table, kMlpExperts);
  return table;
}

Status translate(HfConfig& config) {
  config.name("OlmoeForCausalLM", "olmoe");
  KeyTable keys = dense_keys();
  assume(keys, {{"rms_norm_eps", "1e-5"}});
  for (const KeyRow& row : expert_keys("num_experts|num_local_experts", "intermediate_size"))
    keys.push_back(row);
  keys.push_back({"expert_weights_norm", "norm_topk_prob", KeyKind::boolean, "false"});
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  keys.push_back({"", "clip_qkv", KeyKind::real, "null"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  return config.translate_rope(10000.0);
}

}  // namespace

const Family kOlmoe{"olmoe", kHfNames, describe, weights, translate};

}  // namespace lithe::models
