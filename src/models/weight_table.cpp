#include "models/weight_table.h"

#include <cmath>

#include "base/check.h"

namespace lithe::models {

std::int64_t dim_length(Dim dim, const ArchSpec& spec, const LayerSpec& layer) {
  switch (dim) {
    case Dim::none:
      return 1;
    case Dim::hidden:
      return spec.hidden;
    case Dim::vocab:
      return spec.vocab;
    case Dim::positions:
      return spec.learned_positions;
    case Dim::skipped_positions:
      return spec.skipped_positions;
    case Dim::token_types:
      return spec.token_types;
    case Dim::labels:
      return spec.labels;
    case Dim::q_out:
      return std::int64_t{layer.heads} * layer.head_dim;
    case Dim::k_out:
      return std::int64_t{layer.kv_heads} * layer.head_dim;
    case Dim::v_out:
      return std::int64_t{layer.kv_heads} * layer.value_dim;
    case Dim::attn_in:
      return std::int64_t{layer.heads} * layer.value_dim;
    case Dim::head_dim:
      return layer.head_dim;
    case Dim::heads:
      return layer.heads;
    case Dim::kv_heads:
      return layer.kv_heads;
    case Dim::rope_pairs:
      return spec.ropes.empty() ? 0 : spec.ropes.front().dim / 2;
    case Dim::ffn:
      return layer.ffn_dim;
    case Dim::experts:
      return layer.moe.rule.experts;
    case Dim::expert_ffn:
      return layer.moe.ffn_dim;
    case Dim::shared_ffn:
      return layer.moe.shared_dim;
    case Dim::query_rank:
      return layer.latent.query_rank;
    case Dim::latent_rank:
      return layer.latent.rank;
    case Dim::latent_row:
      return std::int64_t{layer.latent.rank} + layer.latent.rope_dim;
    case Dim::plain_dim:
      return layer.latent.plain_dim;
    case Dim::head_values:
      return layer.latent.value_dim;
    case Dim::query_out:
      return std::int64_t{layer.heads} * layer.latent.query_dim();
    case Dim::ssm_projected:
      return layer.mamba.projected();
    case Dim::ssm_convolved:
      return layer.mamba.convolved();
    case Dim::ssm_taps:
      return layer.mamba.taps;
    case Dim::ssm_heads:
      return layer.mamba.heads;
    case Dim::ssm_groups:
      return layer.mamba.groups;
    case Dim::ssm_inner:
      return layer.mamba.inner();
    case Dim::head_values_out:
      return std::int64_t{layer.heads} * layer.latent.value_dim;
    case Dim::head_both_out:
      return std::int64_t{layer.heads} * (layer.latent.plain_dim + layer.latent.value_dim);
  }
  LITHE_CHECK(false);
}

float from_checkpoint(Transform transform, float value) {
  if (transform == Transform::add_one) return value + 1.0f;
  if (transform == Transform::negative_exp) return static_cast<float>(-std::exp(static_cast<double>(value)));
  return value;
}
float to_checkpoint(Transform transform, float value) {
  if (transform == Transform::add_one) return value - 1.0f;
  if (transform == Transform::negative_exp) return static_cast<float>(std::log(-static_cast<double>(value)));
  return value;
}

bool is_multiplied(Role role) {
  switch (role) {
    case Role::embedding:
    case Role::output:
    case Role::q:
    case Role::k:
    case Role::v:
    case Role::attn_out:
    case Role::q_down:
    case Role::latent:
    case Role::latent_keys:
    case Role::latent_values:
    case Role::latent_both:
    case Role::ssm_in:
    case Role::ssm_out:
    case Role::gate:
    case Role::up:
    case Role::down:
    case Role::expert_gate:
    case Role::expert_up:
    case Role::expert_down:
    case Role::shared_gate:
    case Role::shared_up:
    case Role::shared_down:
      return true;
    default:
      return false;
  }
}

namespace {

std::string filled(std::string_view pattern, std::string_view hole, std::int64_t number) {
  std::string name(pattern);
  for (std::size_t at = 0; (at = name.find(hole, at)) != std::string::npos;) {
    name.replace(at, hole.size(), std::to_string(number));
  }
  return name;
}

}  // namespace

std::string layer_name(std::string_view pattern, std::int64_t layer) {
  return filled(pattern, "{}", layer);
}

std::string expert_name(std::string_view pattern, std::int64_t expert) {
  return filled(pattern, "{e}", expert);
}

bool is_dense(const LayerSpec& layer) {
  return !layer.sparse();
}
bool is_sparse(const LayerSpec& layer) {
  return layer.sparse();
}
bool is_recurrent(const LayerSpec& layer) {
  return layer.mamba.heads > 0;
}
bool attends(const LayerSpec& layer) {
  return layer.mamba.heads == 0;
}
bool has_query_rank(const LayerSpec& layer) {
  return layer.latent.query_rank > 0;
}

bool has_shared_expert(const LayerSpec& layer) {
  return layer.sparse() && layer.moe.shared_dim > 0;
}

Place place_of(const WeightTable& table, std::size_t entry, std::string WeightEntry::*name,
               const ArchSpec& spec, const LayerSpec& layer) {
  Place place;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].*name != table[entry].*name || !table[i].lies_in(layer)) continue;
    if (i == entry) place.offset = place.whole;
    place.whole += dim_length(table[i].matrix() ? table[i].rows : table[i].cols, spec, layer);
  }
  return place;
}

}  // namespace lithe::models
