// What the dense decoder families (llama and its descendants) have in common; each family file says how it
// differs.
#pragma once

#include "base/status.h"
#include "models/arch_spec.h"
#include "models/parameters.h"
#include "models/weight_table.h"

namespace lithe::models {

/// The usual parameters: sizes, heads, rope, norm, window. Rope pairs are `rope`; layers are all alike.
Result<ArchSpec> describe_dense(const Parameters& parameters, RopeKind rope);

/// Embedding, norms, q, k, v, output projection, gated feed-forward, head. `qk` is the transform of q and k.
WeightTable dense_weights(Transform qk);

/// attn_{q,k,v}.bias, required or optional.
void add_qkv_biases(WeightTable& table, Presence presence, Transform qk);

}  // namespace lithe::models
