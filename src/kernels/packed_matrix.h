// How weights lie in memory for the kernels: one layout for every ISA.
//
// A matrix [rows, cols] is cut into panels of 16 rows. Inside a panel the 16 rows are interleaved, so that
// each SIMD lane owns one output row and walks the columns in order: an output's rounding depends on its row
// and its input alone, never on how many rows are computed together (promise 1). packed_layout.h says what lies where.
//
// Missing rows of the last panel are zero weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "tensor/block_format.h"

namespace lithe::kernels {

inline constexpr int kPanelRows = 16;
inline constexpr std::size_t kPanelAlign = 64;

/// Bytes of one panel (a multiple of kPanelAlign). cols must be a multiple of the format's block.
std::size_t packed_panel_bytes(DType dtype, std::int64_t cols);

/// A packed matrix somebody else owns. panel p lies at data + p * panel_bytes.
struct PackedMatrix {
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;  // [out_features, in_features]
  const std::byte* data = nullptr;  // aligned to kPanelAlign
  std::size_t panel_bytes = 0;

  std::int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  const std::byte* panel(std::int64_t p) const { return data + static_cast<std::size_t>(p) * panel_bytes; }
};

/// Packs up to 16 rows (row_count <= 16; each `row_bytes` apart, in the format's GGUF layout) into one panel.
void pack_panel(DType dtype, const std::byte* rows, std::size_t row_bytes, int row_count, std::int64_t cols,
                std::byte* panel);

/// The exact values of packed row `row`, for embeddings, tests and the reference kernels. out: [cols].
void unpack_row(const PackedMatrix& matrix, std::int64_t row, float* out);

}  // namespace lithe::kernels
