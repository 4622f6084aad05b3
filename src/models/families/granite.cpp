// granite and granitemoe: IBM Granite 3. llama with a factor on embeddings, on each branch, on scores, and a divisor of the
// logits; or that with experts, whose weights are a softmax over the chosen alone.
#include <array>

#include "models/families/dense.h"
#include "models/families/sparse.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"GraniteForCausalLM"};
constexpr std::array<std::string_view, 2> kMoeNames{"GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"};

Status describe_scales(const Parameters& parameters, ArchSpec& spec) {
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

KeyTable keys() {
  KeyTable keys = dense_keys();
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"", "mlp_bias", KeyKind::boolean, "false"});
  keys.push_back({"attention.scale", "attention_multiplier", KeyKind::real, "1.0"});
  keys.push_back({"embedding_scale", "embedding_multiplier", KeyKind::real, "1.0"});
  keys.push_back({"residual_scale", "residual_multiplier", KeyKind::real, "1.0"});
  keys.push_back({"logit_scale", "logits_scaling", KeyKind::real, "1.0"});
  return keys;
}

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::interleaved));
  LITHE_RETURN_IF_ERROR(describe_scales(parameters, spec));
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::pair_heads);
  add_qkv_biases(table, Presence::optional, Transform::pair_heads);
  add_biases(table, {Role::attn_out}, Presence::optional);
  return table;
}

Status import(HfConfig& config) {
  config.name("GraniteForCausalLM", "granite");
  if (config.exporting()) config.set("attention_bias", config.has_tensor("blk.0.attn_q.bias"));
  LITHE_RETURN_IF_ERROR(config.import(keys()));
  return config.import_rope(10000.0);
}

Result<ArchSpec> describe_moe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe(parameters));
  MoeSpec usual;
  usual.rule.score = layers::RouterScore::softmax_of_chosen;
  LITHE_RETURN_IF_ERROR(describe_experts(parameters, usual, spec));
  return spec;
}

WeightTable weights_moe(const ArchSpec& spec) {
  WeightTable table = weights(spec);
  constexpr std::string_view kBoth = "block_sparse_moe.input_linear.weight";  // gate, then up
  add_experts(
      table, {"block_sparse_moe.router.layer.weight", kBoth, kBoth, "block_sparse_moe.output_linear.weight"});
  add_shared_expert(table, "shared_mlp.input_linear.weight", "shared_mlp.input_linear.weight",
                    "shared_mlp.output_linear.weight");
  return table;
}

Status import_moe(HfConfig& config) {
  if (config.exporting()) {
    const bool shared = config.spec().layers.front().moe.shared_dim > 0;
    config.name(shared ? kMoeNames[1] : kMoeNames[0], shared ? "granitemoeshared" : "granitemoe");
  }
  KeyTable table = keys();
  for (const KeyRow& row : expert_keys("num_local_experts", "intermediate_size")) table.push_back(row);
  table.push_back({"expert_shared_feed_forward_length", "shared_intermediate_size"});
  table.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  LITHE_RETURN_IF_ERROR(config.import(table));
  return config.import_rope(10000.0);
}

}  // namespace

const Family kGranite{"granite", kHfNames, describe, weights, import};
const Family kGraniteMoe{"granitemoe", kMoeNames, describe_moe, weights_moe, import_moe};

}  // namespace lithe::models
