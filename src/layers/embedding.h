// The embedding: rows of a packed matrix. A tied head reads the same bytes, so they are decoded from the
// panels.
#pragma once

#include <cstdint>
#include <span>

#include "layers/context.h"
#include "layers/linear.h"

namespace lithe::layers {

/// out[r] = table row of tokens[r], times `scale`. out: [tokens.size(), table.in_features()]. Ids must be in
/// range.
void embed(ExecContext& context, const Linear& table, std::span<const std::int32_t> tokens, float scale,
           float* out);

}  // namespace lithe::layers
