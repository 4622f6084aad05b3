// The matrix products of one target, each in its own file; matmul.cpp chooses between them.
#pragma once

#include <hwy/highway.h>

#include <cstddef>

#include "kernels/kernel_table.h"

namespace lithe::kernels {

/// Rows of activations that stay in L2 while all panels pass by: bounded by bytes, and by kMaxBlockRows.
inline constexpr std::size_t kRowBlockBytes = std::size_t{768} << 10;
inline constexpr std::int64_t kMaxBlockRows = 480, kMinBlockRows = 48;

constexpr std::int64_t block_rows(std::size_t row_bytes) {
  const auto fit = static_cast<std::int64_t>(kRowBlockBytes / row_bytes) / 12 * 12;
  return fit < kMinBlockRows ? kMinBlockRows : fit > kMaxBlockRows ? kMaxBlockRows : fit;
}

}  // namespace lithe::kernels
