#include "models/families/sparse.h"

#include "models/families/dense.h"

namespace lithe::models {
namespace {

using layers::RouterScore;

constexpr std::int64_t kMostExperts = 4096;

std::string in_layer(std::string_view name) {
  return fmt::format("model.layers.{{}}.{}", name);
}

Result<RouterScore> describe_score(const Parameters& parameters, RouterScore usual) {
  LITHE_ASSIGN_OR_RETURN(const auto number, parameters.integer_or("expert_gating_func", 0, 3, 0));
  switch (number) {
    case 1:
      return RouterScore::softmax;
    case 2:
      return RouterScore::sigmoid;
    case 3:
      return RouterScore::softmax_of_chosen;
    default:
      return usual;
  }
}

}  // namespace

Status describe_experts(const Parameters& parameters, const MoeSpec& usual, ArchSpec& spec) {
  LITHE_ASSIGN_OR_RETURN(const auto experts, parameters.integer_or("expert_count", 0, kMostExperts, 0));
  if (experts == 0) return {};
  MoeSpec moe = usual;
  layers::RouterRule& rule = moe.rule;
  rule.experts = static_cast<int>(experts);
  LITHE_ASSIGN_OR_RETURN(const auto used, parameters.integer("expert_used_count", 1, experts));
  rule.used = static_cast<int>(used);
  LITHE_ASSIGN_OR_RETURN(const auto ffn, parameters.integer_or("expert_feed_forward_length", 1, Limits::ffn,
                                                               spec.layers.front().ffn_dim));
  moe.ffn_dim = static_cast<int>(ffn);
  LITHE_ASSIGN_OR_RETURN(const auto common, parameters.integer_or("expert_shared_count", 0, kMostExperts, 0));
  LITHE_ASSIGN_OR_RETURN(const auto shared, parameters.integer_or("expert_shared_feed_forward_length", 0,
                                                                  Limits::ffn, common * ffn));
  if (shared > Limits::ffn)
    return corrupt("{}: {} shared experts of {}", parameters.architecture(), common, ffn);
  moe.shared_dim = static_cast<int>(shared);
  if (shared == 0) moe.shared_gate = false;
  LITHE_ASSIGN_OR_RETURN(rule.score, describe_score(parameters, usual.rule.score));
  LITHE_ASSIGN_OR_RETURN(rule.normalise, parameters.flag_or("expert_weights_norm", usual.rule.normalise));
  LITHE_ASSIGN_OR_RETURN(const double scale, parameters.real_or("expert_weights_scale", 0.0, 1e6, 0.0));
  if (scale != 0) rule.scale = static_cast<float>(scale);
  LITHE_ASSIGN_OR_RETURN(const auto groups, parameters.integer_or("expert_group_count", 1, experts, 1));
  LITHE_ASSIGN_OR_RETURN(const auto kept,
                         parameters.integer_or("expert_group_used_count", 1, groups, groups));
  if (experts % groups != 0 || used > experts / groups * kept) {
    return corrupt("{}: {} experts in {} groups, of which {} are used, give no {} experts",
                   parameters.architecture(), experts, groups, kept, used);
  }
  rule.groups = static_cast<int>(groups);
  rule.groups_used = static_cast<int>(kept);
  LITHE_ASSIGN_OR_RETURN(const auto dense,
                         parameters.integer_or("leading_dense_block_count", 0, Limits::layers, 0));
  for (std::size_t i = static_cast<std::size_t>(dense); i < spec.layers.size(); ++i) spec.layers[i].moe = moe;
  return {};
}

void add_experts(WeightTable& table, const ExpertNames& names) {
  const auto split = layers::ShardRole::output_rows;
  for (const Role role : {Role::gate, Role::up, Role::down}) entry_of(table, role).where = is_dense;
  table.push_back({.role = Role::router,
                   .gguf = "blk.{}.ffn_gate_inp.weight",
                   .hf = in_layer(names.router),
                   .rows = Dim::experts,
                   .where = is_sparse});
  const auto add = [&](Role role, const char* gguf, std::string_view hf, Dim rows, Dim cols) {
    table.push_back({.role = role,
                     .gguf = gguf,
                     .hf = in_layer(hf),
                     .rows = rows,
                     .cols = cols,
                     .shard = split,
                     .where = is_sparse,
                     .stack = Dim::experts});
  };
  add(Role::expert_gate, "blk.{}.ffn_gate_exps.weight", names.gate, Dim::expert_ffn, Dim::hidden);
  add(Role::expert_up, "blk.{}.ffn_up_exps.weight", names.up, Dim::expert_ffn, Dim::hidden);
  add(Role::expert_down, "blk.{}.ffn_down_exps.weight", names.down, Dim::hidden, Dim::expert_ffn);
}

void add_shared_expert(WeightTable& table, std::string_view gate, std::string_view up,
                       std::string_view down) {
  const auto add = [&](Role role, const char* gguf, std::string_view hf, Dim rows, Dim cols) {
    table.push_back({.role = role,
                     .gguf = gguf,
                     .hf = in_layer(hf),
                     .rows = rows,
                     .cols = cols,
                     .shard = layers::ShardRole::output_rows,
                     .where = has_shared_expert});
  };
  add(Role::shared_gate, "blk.{}.ffn_gate_shexp.weight", gate, Dim::shared_ffn, Dim::hidden);
  add(Role::shared_up, "blk.{}.ffn_up_shexp.weight", up, Dim::shared_ffn, Dim::hidden);
  add(Role::shared_down, "blk.{}.ffn_down_shexp.weight", down, Dim::hidden, Dim::shared_ffn);
}

KeyTable expert_keys(std::string_view count, std::string_view ffn) {
  return {
      {"expert_count", count},
      {"expert_used_count", "num_experts_per_tok"},
      {"expert_feed_forward_length", ffn},
  };
}

}  // namespace lithe::models
