// What the dense decoder families (llama and its descendants) have in common; each family file says how it
// differs.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "models/arch_spec.h"
#include "models/hf/config.h"
#include "models/parameters.h"
#include "models/weight_table.h"

namespace lithe::models {

/// What every model states: its name, its sizes, the epsilon of its norms, and how many layers, which are empty yet.
Result<ArchSpec> describe_frame(const Parameters& parameters);
/// The usual parameters: sizes, heads, rope, norm, window. Rope pairs are `rope`; layers are all alike.
Result<ArchSpec> describe_dense(const Parameters& parameters, RopeKind rope);
/// The rotary embedding under "rope." or another prefix.
Result<RopeSpec> describe_rope(const Parameters& parameters, RopeKind kind, int head_dim,
                               std::string_view prefix = "rope.");

/// Embedding, norms, q, k, v, output projection, gated feed-forward, head, by the names of llama's checkpoints. `qk` is
/// the transform of q and k.
WeightTable dense_weights(Transform qk);
/// The row of a role, to be changed. A programmer's fault if there is none.
WeightEntry& entry_of(WeightTable& table, Role role);

/// Layers without a window: every `period`-th, unless the file has a pattern of its own.
Status describe_windows(const Parameters& parameters, std::int64_t period, ArchSpec& spec);
/// Layer norms with biases instead of RMS norms.
void describe_layer_norms(ArchSpec& spec);

/// attn_{q,k,v}.bias, required or optional.
void add_qkv_biases(WeightTable& table, Presence presence, Transform qk);
/// A bias beside each weight: ".bias" where its names end in ".weight", as long as the weight has rows.
void add_biases(WeightTable& table, std::initializer_list<Role> weights, Presence presence);
/// post_attention_norm and post_ffw_norm, by their names within a layer of a checkpoint.
void add_post_norms(WeightTable& table, std::string_view hf_attention, std::string_view hf_ffn);
/// attn_q_norm and attn_k_norm, so long.
void add_qk_norms(WeightTable& table, Dim q, Dim k);
/// The pieces share one tensor, in this order.
void fuse(WeightTable& table, std::initializer_list<Role> roles, std::string_view gguf, std::string_view hf);
void remove(WeightTable& table, std::initializer_list<Role> roles);
/// Other names in checkpoints.
void rename(WeightTable& table, std::initializer_list<std::pair<Role, std::string_view>> names);

/// The parameters that every dense config.json states, with its usual names.
KeyTable dense_keys();
/// The same, with the name of a layer norm's epsilon.
KeyTable layer_norm_keys(std::string_view epsilon);
/// What Transformers assumes where config.json is silent, by the first of a key's names there.
void assume(KeyTable& keys, std::initializer_list<std::pair<std::string_view, std::string_view>> values);

}  // namespace lithe::models
