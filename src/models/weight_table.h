// Which tensors a model consists of: role -> names, shape, presence, transform, parallel role. One table per
// family; every tensor of a file is either in the table or reported as unused.
//
// A row is a piece: usually a whole tensor. Rows that name the same tensor of GGUF lie in it one after another, in the
// order of the table (q, k and v in attn_qkv); so do rows that name the same tensor of a checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layers/linear.h"
#include "models/arch_spec.h"

namespace lithe::models {

enum class Role : std::uint8_t {
  // one per model
  embedding,
  skipped_positions,
  position_embedding,
  token_types,
  embedding_norm,
  embedding_norm_bias,
  cls,
  cls_bias,
  cls_norm,
  cls_out,
  cls_out_bias,
  output_norm,
  output_norm_bias,
  output,
  output_bias,
  rope_divisors,
  rope_divisors_short,
  rope_divisors_long,
  // one per layer
  attn_norm,
  attn_norm_bias,
  attn_post_norm,
  attn_post_norm_bias,
  q,
  k,
  v,
  q_bias,
  k_bias,
  v_bias,
  q_norm,
  k_norm,
  sinks,
  attn_out,
  attn_out_bias,
  // latent attention
  q_down,
  q_down_norm,
  latent,
  latent_norm,
  latent_keys,
  latent_values,
  latent_both,
  // state space mixer
  ssm_in,
  ssm_conv,
  ssm_conv_bias,
  ssm_step_bias,
  ssm_decay,
  ssm_skip,
  ssm_norm,
  ssm_out,
  ffn_norm,
  ffn_norm_bias,
  ffn_post_norm,
  ffn_post_norm_bias,
  gate,
  gate_bias,
  up,
  up_bias,
  down,
  down_bias,
  router,
  router_bias,
  choice_bias,
  expert_gate,
  expert_gate_bias,
  expert_up,
  expert_up_bias,
  expert_down,
  expert_down_bias,
  shared_gate,
  shared_up,
  shared_down,
  shared_weight,
};
inline constexpr int kRoleCount = static_cast<int>(Role::shared_weight) + 1;
constexpr bool per_layer(Role role) {
  return role >= Role::attn_norm;
}

/// Whether its matrix multiplies (or is looked up): what conversion may round.
bool is_multiplied(Role role);

/// A length that follows from the description.
enum class Dim : std::uint8_t {
  none,
  hidden,
  vocab,
  positions,
  skipped_positions,
  token_types,
  labels,
  q_out,
  k_out,
  v_out,
  attn_in,
  head_dim,
  heads,
  kv_heads,
  rope_pairs,
  ffn,
  experts,
  expert_ffn,
  shared_ffn,
  // latent attention
  query_rank,
  latent_rank,
  latent_row,  // what the cache keeps
  plain_dim,
  head_values,
  query_out,
  head_values_out,
  head_both_out,
  // state space mixer
  ssm_projected,
  ssm_convolved,
  ssm_taps,
  ssm_heads,
  ssm_groups,
  ssm_inner,
};
std::int64_t dim_length(Dim dim, const ArchSpec& spec, const LayerSpec& layer);

enum class Presence : std::uint8_t {
  required,
  optional,  // absent means without: a bias, rope divisors
  tied,      // absent means that the embedding serves (output.weight)
};

/// What must happen to a tensor of a Hugging Face checkpoint to become what GGUF stores. GGUF needs nothing.
enum class Transform : std::uint8_t {
  none,
  pair_heads,           // in each head, rows i and i + d/2 become neighbours: rotary pairs lie side by side
  negative_exp,         // mamba: decays are stored as the logarithm of what they fall by
  add_one,              // gemma: norms are stored as their distance from 1
  transpose,            // gpt2: a matrix is stored [in, out]
  alternate,            // gpt-oss: the rows of two pieces, gate and up, take turns
  alternate_transpose,  // and the matrix is stored [in, out]
  latent_keys,          // deepseek: a head's rows of keys and then of values in one matrix; keys are turned
  latent_values,
  grouped_qkv,  // falcon, gpt-neox: rows go kv head by kv head, each with its queries, its key and its value
};

/// A number of a checkpoint as GGUF has it, and back.
float from_checkpoint(Transform transform, float value);
float to_checkpoint(Transform transform, float value);
constexpr bool changes_numbers(Transform transform) {
  return transform == Transform::add_one || transform == Transform::negative_exp;
}
/// Whether a checkpoint stores the matrix [in, out].
constexpr bool is_turned(Transform transform) {
  return transform == Transform::transpose || transform == Transform::alternate_transpose;
}
/// Whether the pieces of a tensor lie mixed in a checkpoint, instead of one after another.
constexpr bool is_mixed(Transform transform) {
  return transform == Transform::latent_keys || transform == Transform::latent_values ||
         transform == Transform::grouped_qkv || transform == Transform::alternate ||
         transform == Transform::alternate_transpose;
}

struct WeightEntry {
  Role role;
  std::string gguf;  // "{}" stands for the layer; empty: rows that GGUF leaves out, and zeros on the way back
  std::string hf;    // the same; "a|b": whichever is there; empty: not in such checkpoints
  Dim rows = Dim::none;  // Dim::none: a vector
  Dim cols = Dim::hidden;
  Presence presence = Presence::required;
  Transform transform = Transform::none;
  layers::ShardRole shard = layers::ShardRole::replicated;
  bool (*where)(const LayerSpec&) = nullptr;  // the layers that have it; null: all
  // So many such pieces, stacked in GGUF: one an expert or a head. Stacked in checkpoints too, or there with "{e}" for
  // the number of each.
  Dim stack = Dim::none;

  Dim folds = Dim::none;  // a vector that GGUF holds as a matrix of so many rows

  bool lies_in(const LayerSpec& layer) const { return where == nullptr || where(layer); }
  bool matrix() const { return rows != Dim::none; }
  bool stacked() const { return stack != Dim::none; }
};
using WeightTable = std::vector<WeightEntry>;

/// "blk.{}.attn_q.weight", 3 -> "blk.3.attn_q.weight".
std::string layer_name(std::string_view pattern, std::int64_t layer);
/// "{e}" replaced likewise.
std::string expert_name(std::string_view pattern, std::int64_t expert);

// Predicates for `where`.
bool is_dense(const LayerSpec& layer);
bool is_sparse(const LayerSpec& layer);
bool has_query_rank(const LayerSpec& layer);
bool attends(const LayerSpec& layer);
bool is_recurrent(const LayerSpec& layer);
bool has_shared_expert(const LayerSpec& layer);

/// Where a piece lies in the tensor of the given name: its offset and the whole, in rows of a matrix or elements of a
/// vector. `name` picks the side: &WeightEntry::gguf or &WeightEntry::hf.
struct Place {
  std::int64_t offset = 0, whole = 0;
};
Place place_of(const WeightTable& table, std::size_t entry, std::string WeightEntry::*name,
               const ArchSpec& spec, const LayerSpec& layer);

}  // namespace lithe::models
