// granite: IBM Granite 3. llama with a factor on embeddings, on each branch, on scores, and a divisor of the logits.
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"GraniteForCausalLM"};

}  // namespace

Status describe_granite_scales(const Parameters& parameters, ArchSpec& spec) {
  constexpr double kLeast = 1e-6, kMost = 1e6;
  const double usual = static_cast<double>(spec.layers.front().attention_scale);
  LITHE_ASSIGN_OR_RETURN(const double attention, parameters.real_or("attention.scale", kLeast, kMost, usual));
  LITHE_ASSIGN_OR_RETURN(const double embedding, parameters.real_or("embedding_scale", kLeast, kMost, 1.0));
  LITHE_ASSIGN_OR_RETURN(const double residual, parameters.real_or("residual_scale", kLeast, kMost, 1.0));
  LITHE_ASSIGN_OR_RETURN(const double logits, parameters.real_or("logit_scale", kLeast, kMost, 1.0));
  spec.embedding_scale = static_cast<float>(embedding);
  spec.residual_scale = static_cast<float>(residual);
  spec.logit_scale = static_cast<float>(1.0 / logits);
  for (LayerSpec& layer : spec.layers) layer.attention_scale = static_cast<float>(attention);
  return {};
}

KeyTable granite_keys() {
  KeyTable keys = dense_keys();
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"", "mlp_bias", KeyKind::boolean, "false"});
  keys.push_back({"attention.scale", "attention_multiplier", KeyKind::real, "1.0"});
  keys.push_back({"embedding_scale", "embedding_multiplier", KeyKind::real, "1.0"});
  keys.push_back({"residual_scale", "residual_multiplier", KeyKind::real, "1.0"});
  keys.push_back({"logit_scale", "logits_scaling", KeyKind::real, "1.0"});
  return keys;
}

namespace {

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::interleaved));
  LITHE_RETURN_IF_ERROR(describe_granite_scales(parameters, spec));
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::pair_heads);
  add_qkv_biases(table, Presence::optional, Transform::pair_heads);
  add_biases(table, {Role::attn_out}, Presence::optional);
  return table;
}

Status import(HfConfig& config) {
  LITHE_RETURN_IF_ERROR(config.import(granite_keys()));
  return config.import_rope(10000.0);
}

}  // namespace

const Family kGranite{"granite", kHfNames, describe, weights, import};

}  // namespace lithe::models
