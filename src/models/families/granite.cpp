// granite, granitemoe and granitehybrid: IBM Granite 3 and 4. llama with a factor on embeddings, on each branch, on scores,
// and a divisor of the logits; or that with experts, whose weights are a softmax over the chosen alone.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "models/families/dense.h"
#include "models/families/mixer.h"
#include "models/families/sparse.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"GraniteForCausalLM"};
constexpr std::array<std::string_view, 2> kMoeNames{"GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"};

constexpr std::array<std::string_view, 1> kHybridNames{"GraniteMoeHybridForCausalLM"};

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

Status translate(HfConfig& config) {
  config.name("GraniteForCausalLM", "granite");
  if (config.exporting()) config.set("attention_bias", config.has_tensor("blk.0.attn_q.bias"));
  LITHE_RETURN_IF_ERROR(config.translate(keys()));
  return config.translate_rope(10000.0);
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

Status translate_moe(HfConfig& config) {
  if (config.exporting()) {
    const bool shared = config.spec().layers.front().moe.shared_dim > 0;
    config.name(shared ? kMoeNames[1] : kMoeNames[0], shared ? "granitemoeshared" : "granitemoe");
  }
  KeyTable table = keys();
  for (const KeyRow& row : expert_keys("num_local_experts", "intermediate_size")) table.push_back(row);
  table.push_back({"expert_shared_feed_forward_length", "shared_intermediate_size", KeyKind::integer, "0"});
  table.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  LITHE_RETURN_IF_ERROR(config.translate(table));
  return config.translate_rope(10000.0);
}

// granitehybrid, Granite 4: most layers have a state space mixer instead of attention, and attention mostly no rotation.
// What every token passes through is the shared expert, or without experts the feed-forward layer.
Result<ArchSpec> describe_hybrid(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_moe(parameters));
  LITHE_ASSIGN_OR_RETURN(const auto kv_heads, parameters.integers("attention.head_count_kv", 0, Limits::heads,
                                                                  spec.layers.size()));
  LITHE_ASSIGN_OR_RETURN(const bool rotates, parameters.flag_or("rope.scaling.finetuned", true));
  LITHE_ASSIGN_OR_RETURN(const layers::MambaSpec mixer, describe_mixer(parameters));
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    if (!rotates) layer.rope = kNoRope;
    if (kv_heads[i] > 0) continue;
    layer.mamba = mixer;
    layer.heads = layer.kv_heads = layer.head_dim = layer.value_dim = 0;
    layer.attention_scale = 0;
  }
  return spec;
}

WeightTable weights_hybrid(const ArchSpec& spec) {
  WeightTable table = weights_moe(spec);
  for (WeightEntry& entry : table) {
    if (entry.role >= Role::q && entry.role <= Role::attn_out_bias) entry.where = attends;
  }
  rename(table, {{Role::gate, "model.layers.{}.shared_mlp.input_linear.weight"},
                 {Role::up, "model.layers.{}.shared_mlp.input_linear.weight"},
                 {Role::down, "model.layers.{}.shared_mlp.output_linear.weight"}});
  add_mixer(table, "model.layers.{}.mamba.");
  return table;
}

// Which layers attend, under the name that checkpoints have for it.
Status translate_layers(HfConfig& config) {
  if (config.exporting()) {
    Json types = Json::array();
    std::int64_t kv_heads = 0;
    for (const LayerSpec& layer : config.spec().layers) {
      types.push_back(is_recurrent(layer) ? "mamba" : "attention");
      kv_heads = std::max<std::int64_t>(kv_heads, layer.kv_heads);
    }
    config.set("layer_types", std::move(types));
    config.set("num_key_value_heads", kv_heads);
    return {};
  }
  const Json* types = config.find("layer_types|layers_block_type");
  if (types == nullptr || !types->is_array() || types->empty() || types->size() > Limits::layers)
    return corrupt("config.json does not list its layers (layer_types)");
  LITHE_ASSIGN_OR_RETURN(const auto heads, config.integer("num_attention_heads"));
  LITHE_ASSIGN_OR_RETURN(const auto kv_heads, config.integer("num_key_value_heads", heads));
  if (kv_heads < 1 || kv_heads > Limits::heads) return corrupt("config.json: {} kv heads", kv_heads);
  std::vector<std::uint32_t> list;
  list.reserve(types->size());
  for (const Json& type : *types) {
    const bool recurrent = type == "mamba" || type == "linear_attention";
    if (!recurrent && type != "attention" && type != "full_attention")
      return unsupported("config.json: a layer of type {}", type.dump().substr(0, 40));
    list.push_back(recurrent ? 0u : static_cast<std::uint32_t>(kv_heads));
  }
  config.add("attention.head_count_kv", std::move(list));
  return {};
}

Status translate_hybrid(HfConfig& config) {
  config.name("GraniteMoeHybridForCausalLM", "granitemoehybrid");
  KeyTable table = keys();
  std::erase_if(table, [](const KeyRow& row) {
    return row.gguf == "attention.head_count_kv" || row.gguf == "feed_forward_length" || row.hf == "mlp_bias";
  });
  table.push_back({"ssm.conv_kernel", "mamba_d_conv", KeyKind::integer, "4"});
  table.push_back({"ssm.state_size", "mamba_d_state", KeyKind::integer, "256"});
  table.push_back({"ssm.time_step_rank", "mamba_n_heads", KeyKind::integer, "128"});
  table.push_back({"ssm.group_count", "mamba_n_groups", KeyKind::integer, "1"});
  table.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  table.push_back({"", "mamba_proj_bias", KeyKind::boolean, "false"});
  bool sparse = false;
  if (config.exporting()) {
    sparse = config.spec().layers.front().sparse();
  } else {
    LITHE_ASSIGN_OR_RETURN(const auto experts, config.integer("num_local_experts", 8));
    sparse = experts > 0;
  }
  if (sparse) {
    for (const KeyRow& row : expert_keys("num_local_experts", "intermediate_size")) table.push_back(row);
  }
  if (config.exporting()) {
    const ArchSpec& spec = config.spec();
    const LayerSpec& first = spec.layers.front();
    const auto mixer = std::ranges::find_if(spec.layers, is_recurrent);
    config.set("shared_intermediate_size", first.sparse() ? first.moe.shared_dim : first.ffn_dim);
    if (!first.sparse()) config.set("num_local_experts", 0);
    if (!first.sparse()) config.set("intermediate_size", first.ffn_dim);
    if (mixer != spec.layers.end()) config.set("mamba_expand", mixer->mamba.inner() / spec.hidden);
    if (mixer != spec.layers.end()) config.set("mamba_d_head", mixer->mamba.head_dim);
    const auto attending = std::ranges::find_if(spec.layers, attends);
    const bool rotates = attending != spec.layers.end() && attending->rope != kNoRope;
    config.set("position_embedding_type", rotates ? Json("rope") : Json());
  }
  LITHE_RETURN_IF_ERROR(config.translate(table));
  LITHE_RETURN_IF_ERROR(check_step_limit(config));
  LITHE_RETURN_IF_ERROR(translate_layers(config));
  LITHE_ASSIGN_OR_RETURN(const auto shared, config.integer("shared_intermediate_size", 1024));
  LITHE_ASSIGN_OR_RETURN(const auto inner, config.integer("intermediate_size", shared));
  LITHE_ASSIGN_OR_RETURN(const auto hidden, config.integer("hidden_size"));
  LITHE_ASSIGN_OR_RETURN(const auto expand, config.integer("mamba_expand", 2));
  for (const std::int64_t length : {shared, inner, hidden, expand}) {
    if (length < 1 || length > Limits::ffn) return corrupt("config.json: a layer of {} channels", length);
  }
  config.add("feed_forward_length", static_cast<std::uint32_t>(sparse ? inner : shared));
  if (sparse) config.add("expert_shared_feed_forward_length", static_cast<std::uint32_t>(shared));
  config.add("ssm.inner_size", static_cast<std::uint32_t>(expand * hidden));
  LITHE_ASSIGN_OR_RETURN(const std::string positions, config.text("position_embedding_type", ""));
  config.add("rope.scaling.finetuned", positions == "rope");
  return config.translate_rope(10000.0);
}

}  // namespace

const Family kGraniteHybrid{"granitehybrid", kHybridNames, describe_hybrid, weights_hybrid, translate_hybrid};
const Family kGranite{"granite", kHfNames, describe, weights, translate};
const Family kGraniteMoe{"granitemoe", kMoeNames, describe_moe, weights_moe, translate_moe};

}  // namespace lithe::models
