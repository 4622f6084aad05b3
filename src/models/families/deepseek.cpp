// deepseek: the first DeepSeek-MoE. llama's attention, V2-Lite's experts. (DeepSeek-LLM is a llama.)
// deepseek2: DeepSeek V2, V2-Lite, V3, R1. Latent attention; leading dense layers, then many small experts with shared
// ones. V2 scores experts by softmax, V3 by sigmoid with a bias for the choice; both choose from the best groups.
#include <array>
#include <cmath>

#include "models/families/dense.h"
#include "models/families/sparse.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kFirstNames{"DeepseekForCausalLM"};
constexpr std::array<std::string_view, 2> kHfNames{"DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM"};
constexpr int kGroupBest = 2;  // V3: a group is as good as its two best

void add_shared_experts(WeightTable& table) {
  add_shared_expert(table, "mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight",
                    "mlp.shared_experts.down_proj.weight");
}

KeyTable mixture_keys() {
  KeyTable keys = expert_keys("n_routed_experts", "moe_intermediate_size");
  keys.push_back({"leading_dense_block_count", "first_k_dense_replace"});
  keys.push_back({"expert_shared_count", "n_shared_experts"});
  keys.push_back({"expert_weights_norm", "norm_topk_prob", KeyKind::boolean, "false"});
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  keys.push_back({"", "moe_layer_freq", KeyKind::integer, "1"});
  return keys;
}

Result<ArchSpec> describe_first(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::interleaved));
  LITHE_RETURN_IF_ERROR(describe_experts(parameters, {}, spec));
  return spec;
}

WeightTable weights_first(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::pair_heads);
  add_experts(table, kMlpExperts);
  add_shared_experts(table);
  return table;
}

Status translate_first(HfConfig& config) {
  config.name(kFirstNames[0], "deepseek");
  KeyTable keys = dense_keys();
  for (const KeyRow& row : mixture_keys()) keys.push_back(row);
  keys.push_back({"", "scoring_func", KeyKind::text, R"("softmax")"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  return config.translate_rope(10000.0);
}

// The last layers of a file may predict the token after next; they are not run.
Status describe_depth(const Parameters& parameters, ArchSpec& spec) {
  LITHE_ASSIGN_OR_RETURN(const auto ahead,
                         parameters.integer_or("nextn_predict_layers", 0, Limits::layers, 0));
  if (ahead >= std::ssize(spec.layers))
    return corrupt("{}: nextn_predict_layers = {} of {} layers", spec.family, ahead, spec.layers.size());
  spec.layers.resize(spec.layers.size() - static_cast<std::size_t>(ahead));
  return {};
}

Status describe_latent(const Parameters& parameters, ArchSpec& spec) {
  LITHE_ASSIGN_OR_RETURN(const double tuned,
                         parameters.real_or("attention.temperature_scale", 0.0, Limits::scaling, 0.0));
  if (tuned != 0)
    return unsupported("{}: queries scaled by their position (attention.temperature_scale)", spec.family);
  const int rope = spec.ropes.front().dim;
  const LayerSpec first = spec.layers.front();
  // Old files state the lengths of the heads as trained.
  LITHE_ASSIGN_OR_RETURN(const auto query, parameters.integer_or("attention.key_length_mla", 1,
                                                                 Limits::head_dim, first.head_dim));
  LITHE_ASSIGN_OR_RETURN(const auto value, parameters.integer_or("attention.value_length_mla", 1,
                                                                 Limits::head_dim, first.value_dim));
  LITHE_ASSIGN_OR_RETURN(const auto rank, parameters.integer("attention.kv_lora_rank", 1, Limits::head_dim));
  LITHE_ASSIGN_OR_RETURN(const auto query_rank,
                         parameters.integer_or("attention.q_lora_rank", 0, Limits::hidden, 0));
  LITHE_ASSIGN_OR_RETURN(const double logarithm,
                         parameters.real_or("rope.scaling.yarn_log_multiplier", 0.0, 10.0, 0.0));
  LatentSpec latent;
  latent.rank = static_cast<int>(rank);
  latent.query_rank = static_cast<int>(query_rank);
  latent.rope_dim = rope;
  latent.plain_dim = static_cast<int>(query) - rope;
  latent.value_dim = static_cast<int>(value);
  latent.joined = !parameters.has("attention.key_length_mla");
  const int kv_heads = latent.joined ? first.heads : 1;
  const int key = latent.joined ? latent.query_dim() : latent.rank + rope;
  if (latent.plain_dim < 1 || first.kv_heads != kv_heads || first.head_dim != key ||
      first.value_dim != (latent.joined ? latent.value_dim : latent.rank)) {
    return corrupt(
        "{}: {} kv heads with keys of {} and values of {} are not what ranks of {} and {} rotated channels "
        "give",
        spec.family, first.kv_heads, first.head_dim, first.value_dim, rank, rope);
  }
  const RopeSpec& scaling = spec.ropes.front();
  const double stretch = scaling.scaling == RopeScaling::yarn && scaling.factor > 1
                             ? 1.0 + logarithm * std::log(scaling.factor)
                             : 1.0;
  for (LayerSpec& layer : spec.layers) {
    layer.latent = latent;
    layer.kv_heads = 1;
    layer.head_dim = latent.rank + rope;
    layer.value_dim = latent.rank;
    layer.attention_scale = static_cast<float>(stretch * stretch / std::sqrt(static_cast<double>(query)));
  }
  return {};
}

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::interleaved));
  LITHE_RETURN_IF_ERROR(describe_depth(parameters, spec));
  LITHE_RETURN_IF_ERROR(describe_latent(parameters, spec));
  LITHE_RETURN_IF_ERROR(describe_experts(parameters, {}, spec));
  for (LayerSpec& layer : spec.layers) {
    if (layer.moe.rule.score == layers::RouterScore::sigmoid) layer.moe.rule.group_best = kGroupBest;
  }
  return spec;
}

// What makes a head's keys and values of the latent vector.
void add_unfolding(WeightTable& table, bool joined) {
  const auto split = layers::ShardRole::output_rows;
  if (joined) {
    table.push_back({.role = Role::latent_both,
                     .gguf = "blk.{}.attn_kv_b.weight",
                     .hf = "model.layers.{}.self_attn.kv_b_proj.weight",
                     .rows = Dim::head_both_out,
                     .cols = Dim::latent_rank,
                     .shard = split});
    return;
  }
  table.push_back({.role = Role::latent_keys,
                   .gguf = "blk.{}.attn_k_b.weight",
                   .hf = "model.layers.{}.self_attn.kv_b_proj.weight",
                   .rows = Dim::latent_rank,
                   .cols = Dim::plain_dim,
                   .transform = Transform::latent_keys,
                   .shard = split,
                   .stack = Dim::heads});
  table.push_back({.role = Role::latent_values,
                   .gguf = "blk.{}.attn_v_b.weight",
                   .hf = "model.layers.{}.self_attn.kv_b_proj.weight",
                   .rows = Dim::head_values,
                   .cols = Dim::latent_rank,
                   .transform = Transform::latent_values,
                   .shard = split,
                   .stack = Dim::heads});
}

WeightTable weights(const ArchSpec& spec) {
  WeightTable table = dense_weights(Transform::none);
  remove(table, {Role::k, Role::v});
  entry_of(table, Role::attn_out).cols = Dim::head_values_out;
  WeightEntry& q = entry_of(table, Role::q);
  q.rows = Dim::query_out;
  if (has_query_rank(spec.layers.front())) {
    q.gguf = "blk.{}.attn_q_b.weight";
    q.hf = "model.layers.{}.self_attn.q_b_proj.weight";
    q.cols = Dim::query_rank;
    table.push_back({.role = Role::q_down,
                     .gguf = "blk.{}.attn_q_a.weight",
                     .hf = "model.layers.{}.self_attn.q_a_proj.weight",
                     .rows = Dim::query_rank});
    table.push_back({.role = Role::q_down_norm,
                     .gguf = "blk.{}.attn_q_a_norm.weight",
                     .hf = "model.layers.{}.self_attn.q_a_layernorm.weight",
                     .cols = Dim::query_rank});
  }
  table.push_back({.role = Role::latent,
                   .gguf = "blk.{}.attn_kv_a_mqa.weight",
                   .hf = "model.layers.{}.self_attn.kv_a_proj_with_mqa.weight",
                   .rows = Dim::latent_row});
  table.push_back({.role = Role::latent_norm,
                   .gguf = "blk.{}.attn_kv_a_norm.weight",
                   .hf = "model.layers.{}.self_attn.kv_a_layernorm.weight",
                   .cols = Dim::latent_rank});
  add_unfolding(table, spec.layers.front().latent.joined);
  add_experts(table, kMlpExperts);
  table.push_back({.role = Role::choice_bias,
                   .gguf = "blk.{}.exp_probs_b.bias",
                   .hf = "model.layers.{}.mlp.gate.e_score_correction_bias",
                   .cols = Dim::experts,
                   .presence = Presence::optional,
                   .where = is_sparse});
  add_shared_experts(table);
  return table;
}

// What GGUF derives from the ranks, and config.json states one by one.
Status translate_latent(HfConfig& config) {
  LITHE_ASSIGN_OR_RETURN(const auto rank, config.integer("kv_lora_rank"));
  LITHE_ASSIGN_OR_RETURN(const auto rope, config.integer("qk_rope_head_dim"));
  LITHE_ASSIGN_OR_RETURN(const auto plain, config.integer("qk_nope_head_dim"));
  for (const std::int64_t length : {rank, rope, plain}) {
    if (length < 1 || length > Limits::head_dim) return corrupt("config.json: a head of {} channels", length);
  }
  config.add("attention.head_count_kv", std::uint32_t{1});
  config.add("attention.key_length", static_cast<std::uint32_t>(rank + rope));
  config.add("attention.value_length", static_cast<std::uint32_t>(rank));
  config.add("attention.key_length_mla", static_cast<std::uint32_t>(plain + rope));
  return {};
}

void export_latent(HfConfig& config) {
  const ArchSpec& spec = config.spec();
  const LatentSpec& latent = spec.layers.front().latent;
  const layers::RouterRule& rule = spec.layers.back().moe.rule;
  const bool third = rule.score == layers::RouterScore::sigmoid;
  config.name(third ? kHfNames[0] : kHfNames[1], third ? "deepseek_v3" : "deepseek_v2");
  config.set("num_key_value_heads", spec.layers.front().heads);
  config.set("qk_rope_head_dim", latent.rope_dim);
  config.set("qk_nope_head_dim", latent.plain_dim);
  config.set("q_lora_rank", latent.query_rank > 0 ? Json(latent.query_rank) : Json());
  config.set("n_group", rule.groups);
  config.set("topk_group", rule.groups_used);
  config.set("topk_method", third ? "noaux_tc" : rule.groups > 1 ? "group_limited_greedy" : "greedy");
}

Status translate(HfConfig& config) {
  if (config.exporting()) export_latent(config);
  KeyTable keys = dense_keys();
  std::erase_if(
      keys, [](const KeyRow& row) { return row.gguf == "attention.head_count_kv" || row.hf == "head_dim"; });
  for (const KeyRow& row : mixture_keys()) keys.push_back(row);
  keys.push_back({"attention.q_lora_rank", "q_lora_rank"});
  keys.push_back({"attention.kv_lora_rank", "kv_lora_rank"});
  keys.push_back({"attention.value_length_mla", "v_head_dim"});
  LITHE_ASSIGN_OR_RETURN(const std::string type, config.text("model_type", ""));
  const bool third = type == "deepseek_v3";
  keys.push_back({"expert_weights_scale", "routed_scaling_factor", KeyKind::real, third ? "2.5" : "1.0"});
  assume(keys, {{"n_shared_experts", third ? "1" : "2"}, {"q_lora_rank", "1536"}});
  if (third) assume(keys, {{"norm_topk_prob", "true"}});
  keys.push_back({"", "rope_interleave", KeyKind::boolean, "true"});
  keys.push_back({"", "scoring_func", KeyKind::text, third ? R"("sigmoid")" : R"("softmax")"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  LITHE_RETURN_IF_ERROR(translate_latent(config));
  LITHE_ASSIGN_OR_RETURN(const std::string method, config.text("topk_method", third ? "noaux_tc" : "greedy"));
  const bool sigmoid = method == "noaux_tc";
  config.add("expert_gating_func", std::uint32_t{sigmoid ? 2u : 1u});
  if (method != "greedy") {
    LITHE_ASSIGN_OR_RETURN(const auto groups, config.integer("n_group", 1));
    LITHE_ASSIGN_OR_RETURN(const auto kept, config.integer("topk_group", groups));
    if (groups < 1 || kept < 1 || groups > UINT32_MAX || kept > groups)
      return corrupt("config.json: topk_group = {} of n_group = {}", kept, groups);
    config.add("expert_group_count", static_cast<std::uint32_t>(groups));
    config.add("expert_group_used_count", static_cast<std::uint32_t>(kept));
  }
  return config.translate_rope(10000.0);
}

}  // namespace

const Family kDeepseek{"deepseek", kFirstNames, describe_first, weights_first, translate_first};
const Family kDeepseek2{"deepseek2", kHfNames, describe, weights, translate};

}  // namespace lithe::models
