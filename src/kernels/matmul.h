// The matrix products of one target, each in its own file; matmul.cpp chooses between them.
#pragma once

#include <hwy/highway.h>

#include <cstddef>

#include "kernels/kernel_table.h"

namespace lithe::kernels {

/// Rows of activations taken together: a chunk of their columns stays in L2 while kGroupPanels panels pass by.
inline constexpr std::int64_t kMaxBlockRows = 516;
inline constexpr int kGroupPanels = 8;
/// Partial sums of such a block between two chunks of columns: exact, so the cut leaves no trace.
inline constexpr std::int64_t kSumsStride = kGroupPanels * kPanelRows;
inline constexpr std::size_t kSumsScratch = kMaxBlockRows * kSumsStride * sizeof(float);

/// `count` cut into nearly equal parts of at most `most`.
constexpr std::int64_t even_part(std::int64_t count, std::int64_t most) {
  const std::int64_t parts = (count + most - 1) / most;
  return parts == 0 ? 1 : (count + parts - 1) / parts;
}

}  // namespace lithe::kernels
