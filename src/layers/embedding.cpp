#include "layers/embedding.h"

namespace lithe::layers {

void embed(ExecContext& context, const Linear& table, std::span<const std::int32_t> tokens, float scale,
           float* out) {
  const std::int64_t cols = table.in_features();
  context.pool().parallel_for(static_cast<std::int64_t>(tokens.size()), [&](std::int64_t row, int) {
    float* const values = out + row * cols;
    kernels::unpack_row(table.weights(), tokens[static_cast<std::size_t>(row)], values);
    if (scale != 1.0f) context.kernels().scale(values, scale, cols);
  });
}

}  // namespace lithe::layers
