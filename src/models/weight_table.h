// Which tensors a model consists of: role -> names, shape, presence, transform, parallel role. One table per
// family; every tensor of a file is either in the table or reported as unused.
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
  output_norm,
  output,
  rope_divisors,
  // one per layer
  attn_norm,
  q,
  k,
  v,
  q_bias,
  k_bias,
  v_bias,
  q_norm,
  k_norm,
  attn_out,
  attn_out_bias,
  ffn_norm,
  gate,
  up,
  down,
};
inline constexpr int kRoleCount = static_cast<int>(Role::down) + 1;
constexpr bool per_layer(Role role) {
  return role >= Role::attn_norm;
}

/// A length that follows from the description.
enum class Dim : std::uint8_t {
  none,
  hidden,
  vocab,
  q_out,
  k_out,
  v_out,
  attn_in,
  head_dim,
  rope_pairs,
  ffn
};
std::int64_t dim_length(Dim dim, const ArchSpec& spec, const LayerSpec& layer);

enum class Presence : std::uint8_t {
  required,
  optional,  // absent means without: a bias, rope divisors
  tied,      // absent means that the embedding serves (output.weight)
};

/// What must happen to the rows of a Hugging Face checkpoint to become what GGUF stores. GGUF needs nothing.
enum class Transform : std::uint8_t {
  none,
  pair_heads,  // in each head, rows i and i + d/2 become neighbours: rotary pairs lie side by side
};

struct WeightEntry {
  Role role;
  std::string_view gguf;  // "{}" stands for the layer
  std::string_view hf;    // the same; empty: not in such checkpoints
  Dim rows = Dim::none;   // Dim::none: a vector
  Dim cols = Dim::hidden;
  Presence presence = Presence::required;
  Transform transform = Transform::none;
  layers::ShardRole shard = layers::ShardRole::replicated;
};
using WeightTable = std::vector<WeightEntry>;

/// "blk.{}.attn_q.weight", 3 -> "blk.3.attn_q.weight".
std::string layer_name(std::string_view pattern, std::int64_t layer);

}  // namespace lithe::models
