#include "models/families/dense.h"

#include <cmath>
#include <limits>

namespace lithe::models {
namespace {

using layers::ShardRole;

Status describe_rope(const Parameters& parameters, RopeKind kind, int head_dim, RopeSpec& rope) {
  rope.kind = kind;
  LITHE_ASSIGN_OR_RETURN(const auto dim,
                         parameters.integer_or("rope.dimension_count", 2, head_dim, head_dim));
  if (dim % 2 != 0) return corrupt("{}.rope.dimension_count = {} is odd", parameters.architecture(), dim);
  rope.dim = static_cast<int>(dim);
  LITHE_ASSIGN_OR_RETURN(rope.theta, parameters.real_or("rope.freq_base", 1.0, Limits::theta, 10000.0));
  LITHE_ASSIGN_OR_RETURN(const auto scaling, parameters.text_or("rope.scaling.type", "none"));
  if (scaling == "linear") {
    rope.scaling = RopeScaling::linear;
    LITHE_ASSIGN_OR_RETURN(
        rope.factor, parameters.real_or("rope.scaling.factor", 1.0 / Limits::scaling, Limits::scaling, 1.0));
  } else if (scaling != "none") {
    return unsupported("{}.rope.scaling.type '{}' is not one that Lithe runs (none, linear)",
                       parameters.architecture(), scaling);
  }
  return {};
}

Result<LayerSpec> describe_layer(const Parameters& parameters, std::int64_t hidden) {
  LayerSpec layer;
  LITHE_ASSIGN_OR_RETURN(const auto heads, parameters.integer("attention.head_count", 1, Limits::heads));
  LITHE_ASSIGN_OR_RETURN(const auto kv_heads,
                         parameters.integer_or("attention.head_count_kv", 1, heads, heads));
  if (heads % kv_heads != 0) {
    return corrupt("{}: {} heads cannot share {} kv heads evenly", parameters.architecture(), heads,
                   kv_heads);
  }
  // An explicit length wins over hidden / heads, and only without one must the heads divide the hidden size.
  LITHE_ASSIGN_OR_RETURN(const auto key,
                         parameters.integer_or("attention.key_length", 1, Limits::head_dim, 0));
  if (key == 0 && (hidden % heads != 0 || hidden / heads > Limits::head_dim)) {
    return corrupt("{}: hidden size {} does not divide into {} heads, and attention.key_length is not stated",
                   parameters.architecture(), hidden, heads);
  }
  layer.heads = static_cast<int>(heads);
  layer.kv_heads = static_cast<int>(kv_heads);
  layer.head_dim = static_cast<int>(key != 0 ? key : hidden / heads);
  LITHE_ASSIGN_OR_RETURN(
      const auto value, parameters.integer_or("attention.value_length", 1, Limits::head_dim, layer.head_dim));
  layer.value_dim = static_cast<int>(value);
  LITHE_ASSIGN_OR_RETURN(const auto ffn, parameters.integer("feed_forward_length", 1, Limits::ffn));
  layer.ffn_dim = static_cast<int>(ffn);
  LITHE_ASSIGN_OR_RETURN(layer.window,
                         parameters.integer_or("attention.sliding_window", 0, Limits::context, 0));
  layer.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(layer.head_dim)));
  return layer;
}

}  // namespace

Result<ArchSpec> describe_dense(const Parameters& parameters, RopeKind rope) {
  ArchSpec spec;
  spec.family = parameters.architecture();
  LITHE_ASSIGN_OR_RETURN(const auto name, parameters.metadata().optional_string("general.name"));
  spec.name = std::string(name.value_or(""));
  LITHE_ASSIGN_OR_RETURN(const auto count, parameters.integer("block_count", 1, Limits::layers));
  LITHE_ASSIGN_OR_RETURN(spec.context, parameters.integer("context_length", 1, Limits::context));
  LITHE_ASSIGN_OR_RETURN(spec.hidden, parameters.integer("embedding_length", 1, Limits::hidden));
  LITHE_ASSIGN_OR_RETURN(const auto eps,
                         parameters.real_or("attention.layer_norm_rms_epsilon", 0.0, Limits::eps, 1e-5));
  spec.norm_eps = static_cast<float>(eps);
  LITHE_ASSIGN_OR_RETURN(const auto layer, describe_layer(parameters, spec.hidden));
  LITHE_RETURN_IF_ERROR(describe_rope(parameters, rope, layer.head_dim, spec.rope));
  spec.layers.assign(static_cast<std::size_t>(count), layer);
  return spec;
}

WeightTable dense_weights(Transform qk) {
  const auto split = ShardRole::output_rows;
  const auto required = Presence::required;
  const auto none = Transform::none;
  return {
      {Role::embedding, "token_embd.weight", "model.embed_tokens.weight", Dim::vocab, Dim::hidden},
      {Role::output_norm, "output_norm.weight", "model.norm.weight"},
      {Role::output, "output.weight", "lm_head.weight", Dim::vocab, Dim::hidden, Presence::tied, none, split},
      {Role::rope_divisors, "rope_freqs.weight", "", Dim::none, Dim::rope_pairs, Presence::optional},
      {Role::attn_norm, "blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight"},
      {Role::q, "blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight", Dim::q_out, Dim::hidden,
       required, qk, split},
      {Role::k, "blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight", Dim::k_out, Dim::hidden,
       required, qk, split},
      {Role::v, "blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight", Dim::v_out, Dim::hidden,
       required, none, split},
      {Role::attn_out, "blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight", Dim::hidden,
       Dim::attn_in, required, none, split},
      {Role::ffn_norm, "blk.{}.ffn_norm.weight", "model.layers.{}.post_attention_layernorm.weight"},
      {Role::gate, "blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight", Dim::ffn, Dim::hidden,
       required, none, split},
      {Role::up, "blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight", Dim::ffn, Dim::hidden,
       required, none, split},
      {Role::down, "blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight", Dim::hidden, Dim::ffn,
       required, none, split},
  };
}

void add_qkv_biases(WeightTable& table, Presence presence, Transform qk) {
  const auto split = ShardRole::output_rows;
  table.push_back({Role::q_bias, "blk.{}.attn_q.bias", "model.layers.{}.self_attn.q_proj.bias", Dim::none,
                   Dim::q_out, presence, qk, split});
  table.push_back({Role::k_bias, "blk.{}.attn_k.bias", "model.layers.{}.self_attn.k_proj.bias", Dim::none,
                   Dim::k_out, presence, qk, split});
  table.push_back({Role::v_bias, "blk.{}.attn_v.bias", "model.layers.{}.self_attn.v_proj.bias", Dim::none,
                   Dim::v_out, presence, Transform::none, split});
}

}  // namespace lithe::models
