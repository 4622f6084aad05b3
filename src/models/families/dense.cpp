#include "models/families/dense.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace lithe::models {
namespace {

using layers::ShardRole;

// A file may hold a list, with 0 where a layer does not attend.
Result<std::int64_t> describe_kv_heads(const Parameters& parameters, std::int64_t heads) {
  const auto* list = parameters.metadata().int_array(parameters.architecture() + ".attention.head_count_kv");
  if (list == nullptr) return parameters.integer_or("attention.head_count_kv", 1, heads, heads);
  const std::int64_t most = list->empty() ? 0 : *std::ranges::max_element(*list);
  if (most < 1 || most > heads ||
      std::ranges::any_of(*list, [&](std::int64_t n) { return n != 0 && n != most; })) {
    return unsupported("{}: kv heads that differ from layer to layer", parameters.architecture());
  }
  return most;
}

Result<LayerSpec> describe_layer(const Parameters& parameters, std::int64_t hidden) {
  LayerSpec layer;
  LITHE_ASSIGN_OR_RETURN(const auto heads, parameters.integer("attention.head_count", 1, Limits::heads));
  LITHE_ASSIGN_OR_RETURN(const auto kv_heads, describe_kv_heads(parameters, heads));
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

// "a.weight|b.weight" -> "a.bias|b.bias".
std::string bias_name(std::string name) {
  constexpr std::string_view kWeight = ".weight";
  for (std::size_t at = 0; (at = name.find(kWeight, at)) != std::string::npos;)
    name.replace(at, kWeight.size(), ".bias");
  return name;
}

Result<RopeScaling> scaling_named(const Parameters& parameters, std::string_view prefix) {
  // A factor without a name is linear, in the oldest files under another key.
  const bool factor = parameters.has(fmt::format("{}scaling.factor", prefix)) ||
                      parameters.has(fmt::format("{}scale_linear", prefix));
  LITHE_ASSIGN_OR_RETURN(
      const auto name, parameters.text_or(fmt::format("{}scaling.type", prefix), factor ? "linear" : "none"));
  constexpr std::pair<std::string_view, RopeScaling> kNames[] = {
      {"none", RopeScaling::none},
      {"linear", RopeScaling::linear},
      {"yarn", RopeScaling::yarn},
      {"longrope", RopeScaling::longrope},
  };
  for (const auto& [known, scaling] : kNames) {
    if (name == known) return scaling;
  }
  return unsupported("{}.{}scaling.type '{}' is not one that Lithe runs (none, linear, yarn, longrope)",
                     parameters.architecture(), prefix, name);
}

}  // namespace

Result<RopeSpec> describe_rope(const Parameters& parameters, RopeKind kind, int head_dim,
                               std::string_view prefix) {
  const auto key = [&](std::string_view name) { return fmt::format("{}{}", prefix, name); };
  RopeSpec rope;
  rope.kind = kind;
  LITHE_ASSIGN_OR_RETURN(const auto dim,
                         parameters.integer_or(key("dimension_count"), 2, head_dim, head_dim));
  if (dim % 2 != 0)
    return corrupt("{}.{}dimension_count = {} is odd", parameters.architecture(), prefix, dim);
  rope.dim = static_cast<int>(dim);
  LITHE_ASSIGN_OR_RETURN(rope.theta, parameters.real_or(key("freq_base"), 1.0, Limits::theta, 10000.0));
  LITHE_ASSIGN_OR_RETURN(rope.scaling, scaling_named(parameters, prefix));
  LITHE_ASSIGN_OR_RETURN(const double dynamic,
                         parameters.real_or(key("scaling.dynamic_factor"), 0.0, Limits::scaling, 0.0));
  if (dynamic != 0) rope.scaling = RopeScaling::dynamic;
  if (rope.scaling == RopeScaling::none) return rope;
  const std::string_view factor = parameters.has(key("scaling.factor")) ? "scaling.factor" : "scale_linear";
  LITHE_ASSIGN_OR_RETURN(rope.factor, parameters.real_or(key(factor), 0.0, Limits::scaling, 1.0));
  if (rope.factor == 0) rope.factor = 1;  // so files say that there is none
  if (rope.factor < 1.0 / Limits::scaling)
    return corrupt("{}.{} = {}", parameters.architecture(), key(factor), rope.factor);
  if (dynamic != 0) rope.factor = dynamic;
  LITHE_ASSIGN_OR_RETURN(const auto trained, parameters.integer("context_length", 1, Limits::context));
  LITHE_ASSIGN_OR_RETURN(rope.original_context, parameters.integer_or(key("scaling.original_context_length"),
                                                                      1, Limits::context, trained));
  LITHE_ASSIGN_OR_RETURN(const double attention,
                         parameters.real_or(key("scaling.attn_factor"), 0.0, Limits::scaling, 1.0));
  if (rope.scaling == RopeScaling::longrope) rope.magnitude = attention;
  if (rope.scaling == RopeScaling::yarn) {
    LITHE_ASSIGN_OR_RETURN(rope.beta_fast,
                           parameters.real_or(key("scaling.yarn_beta_fast"), 0.01, 1e4, 32.0));
    LITHE_ASSIGN_OR_RETURN(rope.beta_slow, parameters.real_or(key("scaling.yarn_beta_slow"), 0.01, 1e4, 1.0));
    LITHE_ASSIGN_OR_RETURN(rope.truncate, parameters.flag_or(key("scaling.yarn_truncate"), true));
    // A file that states the multiplier scales scores, not angles.
    const bool cancelled =
        parameters.has(key("scaling.yarn_log_multiplier")) && !parameters.has(key("scaling.attn_factor"));
    if (!cancelled) rope.magnitude = attention * (rope.factor <= 1 ? 1.0 : 1.0 + 0.1 * std::log(rope.factor));
    if (rope.theta <= 1.0)
      return corrupt("{}.{}freq_base = {} allows no yarn", parameters.architecture(), prefix, rope.theta);
  }
  return rope;
}

Result<ArchSpec> describe_frame(const Parameters& parameters) {
  ArchSpec spec;
  spec.family = parameters.architecture();
  LITHE_ASSIGN_OR_RETURN(const auto name, parameters.metadata().optional_string("general.name"));
  spec.name = std::string(name.value_or(""));
  LITHE_ASSIGN_OR_RETURN(const auto count, parameters.integer("block_count", 1, Limits::layers));
  LITHE_ASSIGN_OR_RETURN(spec.context, parameters.integer("context_length", 1, Limits::context));
  LITHE_ASSIGN_OR_RETURN(spec.hidden, parameters.integer("embedding_length", 1, Limits::hidden));
  LITHE_ASSIGN_OR_RETURN(const auto layer_eps,
                         parameters.real_or("attention.layer_norm_epsilon", 0.0, Limits::eps, 1e-5));
  LITHE_ASSIGN_OR_RETURN(const auto eps,
                         parameters.real_or("attention.layer_norm_rms_epsilon", 0.0, Limits::eps, layer_eps));
  spec.norm_eps = static_cast<float>(eps);
  LITHE_ASSIGN_OR_RETURN(const auto pooling, parameters.integer_or("pooling_type", 0, 4, 0));
  spec.pooling = static_cast<Pooling>(pooling);
  if (spec.pooling == Pooling::rank)
    spec.pooling = Pooling::none;  // a head that decoders' files need not hold
  spec.layers.resize(static_cast<std::size_t>(count));
  return spec;
}

Result<ArchSpec> describe_dense(const Parameters& parameters, RopeKind rope) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_frame(parameters));
  LITHE_ASSIGN_OR_RETURN(const auto layer, describe_layer(parameters, spec.hidden));
  if (rope != RopeKind::none) {
    LITHE_ASSIGN_OR_RETURN(RopeSpec rotary, describe_rope(parameters, rope, layer.head_dim));
    spec.ropes.push_back(std::move(rotary));
  }
  std::ranges::fill(spec.layers, layer);
  if (rope == RopeKind::none) {
    for (LayerSpec& each : spec.layers) each.rope = kNoRope;
  }
  return spec;
}

WeightEntry& entry_of(WeightTable& table, Role role) {
  const auto found = std::ranges::find(table, role, &WeightEntry::role);
  LITHE_CHECK(found != table.end());
  return *found;
}

Status describe_windows(const Parameters& parameters, std::int64_t period, ArchSpec& spec) {
  LITHE_ASSIGN_OR_RETURN(const std::vector<bool> stated,
                         parameters.flags_or("attention.sliding_window_pattern", spec.layers.size()));
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const bool slides = stated.empty() ? (static_cast<std::int64_t>(i) + 1) % period != 0 : stated[i];
    if (!slides) spec.layers[i].window = 0;
  }
  return {};
}

void describe_layer_norms(ArchSpec& spec) {
  spec.norm = NormKind::layer;
}

KeyTable layer_norm_keys(std::string_view epsilon) {
  KeyTable keys = dense_keys();
  keys.back() = {"attention.layer_norm_epsilon", epsilon, KeyKind::real, "1e-5"};
  return keys;
}

KeyTable dense_keys() {
  return {
      {"vocab_size", "vocab_size"},
      {"block_count", "num_hidden_layers|n_layer|n_layers"},
      {"context_length", "max_position_embeddings|n_positions|n_ctx"},
      {"embedding_length", "hidden_size|n_embd"},
      {"feed_forward_length", "intermediate_size|n_inner"},
      {"attention.head_count", "num_attention_heads|n_head"},
      {"attention.head_count_kv", "num_key_value_heads"},
      {"attention.key_length", "head_dim"},
      {"attention.value_length", "head_dim"},
      {"attention.layer_norm_rms_epsilon", "rms_norm_eps", KeyKind::real, "1e-6"},
  };
}

void assume(KeyTable& keys, std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  for (const auto& [name, value] : values) {
    bool found = false;
    for (KeyRow& row : keys) {
      if (row.gguf.empty() || row.hf.substr(0, row.hf.find('|')) != name) continue;
      row.value = value;
      found = true;
    }
    LITHE_CHECK(found);
  }
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
      {Role::rope_divisors_long, "rope_factors_long.weight", "", Dim::none, Dim::rope_pairs,
       Presence::optional},
      {Role::rope_divisors_short, "rope_factors_short.weight", "", Dim::none, Dim::rope_pairs,
       Presence::optional},
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

void add_biases(WeightTable& table, std::initializer_list<Role> weights, Presence presence) {
  constexpr std::pair<Role, Role> kBiases[] = {
      {Role::output_norm, Role::output_norm_bias},
      {Role::output, Role::output_bias},
      {Role::attn_norm, Role::attn_norm_bias},
      {Role::embedding_norm, Role::embedding_norm_bias},
      {Role::cls, Role::cls_bias},
      {Role::cls_out, Role::cls_out_bias},
      {Role::attn_post_norm, Role::attn_post_norm_bias},
      {Role::q, Role::q_bias},
      {Role::k, Role::k_bias},
      {Role::v, Role::v_bias},
      {Role::attn_out, Role::attn_out_bias},
      {Role::ffn_norm, Role::ffn_norm_bias},
      {Role::ffn_post_norm, Role::ffn_post_norm_bias},
      {Role::gate, Role::gate_bias},
      {Role::up, Role::up_bias},
      {Role::down, Role::down_bias},
  };
  for (const Role role : weights) {
    const auto pair = std::ranges::find(kBiases, role, [](const auto& each) { return each.first; });
    LITHE_CHECK(pair != std::end(kBiases));
    WeightEntry bias = entry_of(table, role);
    bias.role = pair->second;
    bias.gguf = bias_name(bias.gguf);
    bias.hf = bias_name(bias.hf);
    bias.cols = bias.matrix() ? bias.rows : bias.cols;
    bias.rows = Dim::none;
    bias.presence = presence;
    bias.transform = Transform::none;
    table.push_back(bias);
  }
}

void add_post_norms(WeightTable& table, std::string_view hf_attention, std::string_view hf_ffn) {
  table.push_back({Role::attn_post_norm, "blk.{}.post_attention_norm.weight",
                   fmt::format("model.layers.{{}}.{}.weight", hf_attention)});
  table.push_back({Role::ffn_post_norm, "blk.{}.post_ffw_norm.weight",
                   fmt::format("model.layers.{{}}.{}.weight", hf_ffn)});
}

void add_qk_norms(WeightTable& table, Dim q, Dim k) {
  table.push_back(
      {Role::q_norm, "blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.q_norm.weight", Dim::none, q});
  table.push_back(
      {Role::k_norm, "blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.k_norm.weight", Dim::none, k});
}

void fuse(WeightTable& table, std::initializer_list<Role> roles, std::string_view gguf, std::string_view hf) {
  for (const Role role : roles) {
    entry_of(table, role).gguf = gguf;
    entry_of(table, role).hf = hf;
  }
}

void remove(WeightTable& table, std::initializer_list<Role> roles) {
  std::erase_if(
      table, [&](const WeightEntry& entry) { return std::ranges::find(roles, entry.role) != roles.end(); });
}

void rename(WeightTable& table, std::initializer_list<std::pair<Role, std::string_view>> names) {
  for (const auto& [role, hf] : names) entry_of(table, role).hf = hf;
}

}  // namespace lithe::models
