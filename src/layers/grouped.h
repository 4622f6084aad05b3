// Many matrices, each with rows of its own: experts. One parallel region covers them all.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "layers/linear.h"

namespace lithe::layers {

/// Rows [begin, end) of the input, and the matrices that they meet: one for each output. All groups' matrices of one
/// output have one shape; those of different outputs have equally many rows.
struct RowGroup {
  std::int64_t begin = 0, end = 0;
  std::array<const Linear*, 2> linears{};
};

/// [rows, stride]
struct GroupedOutput {
  float* out = nullptr;
  std::int64_t stride = 0;
};

/// outputs[i] rows [begin, end) = those of the input times group.linears[i]. Bits are those of multiply() with the group's
/// rows alone. The epilogue as there, rows counted over all groups.
void multiply_grouped(ExecContext& context, const LinearInput& input, std::span<const RowGroup> groups,
                      std::span<const GroupedOutput> outputs, const ProductEpilogue* epilogue = nullptr);

}  // namespace lithe::layers
