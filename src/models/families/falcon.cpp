// falcon: Falcon 7B, 11B, 40B, 180B. Both branches read the same stream, through one norm or, in the larger models, through
// one each; few kv heads; no biases but the norms'.
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"FalconForCausalLM"};

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  describe_layer_norms(spec);
  for (LayerSpec& layer : spec.layers) {
    layer.ffn = FfnKind::plain;
    layer.activation = Activation::gelu_erf;
    layer.residual = Residual::parallel;
  }
  return spec;
}

// attn_norm is what the feed-forward layer reads; so does attention, unless it has attn_norm_2. No parameter says so.
WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::grouped_qkv);
  remove(table, {Role::gate});
  entry_of(table, Role::v).transform = Transform::grouped_qkv;
  rename(table, {{Role::embedding, "transformer.word_embeddings.weight"},
                 {Role::output_norm, "transformer.ln_f.weight"},
                 {Role::attn_norm, "transformer.h.{}.ln_attn.weight"},
                 {Role::attn_out, "transformer.h.{}.self_attention.dense.weight"},
                 {Role::ffn_norm, "transformer.h.{}.ln_mlp.weight|transformer.h.{}.input_layernorm.weight"},
                 {Role::up, "transformer.h.{}.mlp.dense_h_to_4h.weight"},
                 {Role::down, "transformer.h.{}.mlp.dense_4h_to_h.weight"}});
  fuse(table, {Role::q, Role::k, Role::v}, "blk.{}.attn_qkv.weight",
       "transformer.h.{}.self_attention.query_key_value.weight");
  entry_of(table, Role::attn_norm).gguf = "blk.{}.attn_norm_2.weight";
  entry_of(table, Role::attn_norm).presence = Presence::optional;
  entry_of(table, Role::ffn_norm).gguf = "blk.{}.attn_norm.weight";
  add_biases(table, {Role::output_norm, Role::ffn_norm}, Presence::required);
  add_biases(table, {Role::attn_norm}, Presence::optional);
  return table;
}

// The newer models have several kv heads, and a norm for each branch or one.
void export_shape(HfConfig& config) {
  const LayerSpec& layer = config.spec().layers.front();
  const bool two_norms = config.has_tensor("blk.0.attn_norm_2.weight");
  const bool grouped = two_norms || (layer.kv_heads > 1 && layer.kv_heads < layer.heads);
  config.alternative = two_norms ? 0 : 1;
  config.set("new_decoder_architecture", grouped);
  config.set("num_ln_in_parallel_attn", two_norms ? 2 : 1);
  config.set("num_kv_heads", layer.kv_heads);
  config.set("multi_query", layer.kv_heads == 1);
  config.set("parallel_attn", true);
  config.set("ffn_hidden_size", layer.ffn_dim);
}

Status translate(HfConfig& config) {
  config.name("FalconForCausalLM", "falcon");
  KeyTable keys = layer_norm_keys("layer_norm_epsilon");
  assume(keys, {{"max_position_embeddings", "2048"}});
  keys.push_back({"", "activation|hidden_act", KeyKind::text, R"("gelu")"});
  keys.push_back({"", "alibi", KeyKind::boolean, "false"});
  keys.push_back({"", "bias", KeyKind::boolean, "false"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  if (config.exporting()) export_shape(config);
  LITHE_ASSIGN_OR_RETURN(const auto hidden, config.integer("hidden_size|n_embed"));
  LITHE_ASSIGN_OR_RETURN(const auto heads, config.integer("num_attention_heads|n_head"));
  LITHE_ASSIGN_OR_RETURN(const bool grouped, config.boolean("new_decoder_architecture", false));
  LITHE_ASSIGN_OR_RETURN(const bool one, config.boolean("multi_query", true));
  LITHE_ASSIGN_OR_RETURN(const bool parallel, config.boolean("parallel_attn", true));
  if (!grouped && !parallel) return unsupported("config.json: parallel_attn = false does not run");
  LITHE_ASSIGN_OR_RETURN(const auto stated, config.integer("num_kv_heads|n_head_kv", heads));
  const std::int64_t kv_heads = grouped ? stated : (one ? 1 : heads);
  config.add("attention.head_count_kv", static_cast<std::uint32_t>(kv_heads));
  LITHE_ASSIGN_OR_RETURN(const auto ffn, config.integer("ffn_hidden_size", 4 * hidden));
  config.add("feed_forward_length", static_cast<std::uint32_t>(ffn));
  return config.translate_rope(10000.0);
}

}  // namespace

const Family kFalcon{"falcon", kHfNames, describe, weights, translate};

}  // namespace lithe::models
