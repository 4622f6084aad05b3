// A matrix product for tests: random codes under sane scales, packed; random activations; the expected result.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "tensor/half.h"

namespace lithe::kernels {

/// 64-byte aligned bytes.
class Buffer {
 public:
  explicit Buffer(std::size_t size) : size_(size), data_(new(std::align_val_t(64)) std::byte[size + 64]) {}
  std::byte* data() { return data_.get(); }
  std::span<std::byte> span() { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { operator delete[](p, std::align_val_t(64)); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte[], Free> data_;
};

inline float random_float(Rng& rng) {
  return static_cast<float>(rng.normal());
}

/// Where a block keeps its f16 scales.
inline std::vector<int> f16_scales(DType dtype) {
  switch (dtype) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q6_k:
      return {208};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108};
    case DType::tq1_0:
      return {52};
    case DType::tq2_0:
      return {64};
    case DType::mxfp4:
      return {};
    default:
      return {0};
  }
}

/// Blocks of random bits whose f16 scales are ordinary numbers; float types: ordinary numbers.
inline std::vector<std::byte> random_weights(DType dtype, std::int64_t rows, std::int64_t cols, Rng& rng) {
  const BlockFormat& format = block_format(dtype);
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows) *
                               *row_bytes(dtype, static_cast<std::uint64_t>(cols)));
  if (!format.quantized()) {
    std::vector<float> values(static_cast<std::size_t>(rows * cols));
    for (auto& value : values) value = random_float(rng);
    format.encode(values.data(), rows * cols, bytes.data());
    return bytes;
  }
  for (auto& byte : bytes) byte = static_cast<std::byte>(rng.next_u64());
  for (std::size_t b = 0; b < bytes.size(); b += static_cast<std::size_t>(format.block_bytes)) {
    if (dtype == DType::mxfp4) bytes[b] = static_cast<std::byte>(118 + rng.next_u64() % 6);
    for (const int at : f16_scales(dtype)) {
      const std::uint16_t half = f32_to_f16(0.01f * random_float(rng));
      std::memcpy(bytes.data() + b + at, &half, 2);
    }
  }
  return bytes;
}

/// A packed random matrix.
struct PackedCase {
  PackedMatrix matrix;
  Buffer memory;

  PackedCase(DType dtype, std::int64_t rows, std::int64_t cols, Rng& rng)
      : memory(packed_panel_bytes(dtype, cols) * static_cast<std::size_t>((rows + 15) / 16)) {
    const auto source = random_weights(dtype, rows, cols, rng);
    const auto bytes = static_cast<std::size_t>(*row_bytes(dtype, static_cast<std::uint64_t>(cols)));
    matrix = {dtype, rows, cols, memory.data(), packed_panel_bytes(dtype, cols)};
    for (std::int64_t p = 0; p < matrix.panels(); ++p) {
      pack_panel(dtype, source.data() + static_cast<std::size_t>(p * kPanelRows) * bytes, bytes,
                 static_cast<int>(std::min<std::int64_t>(kPanelRows, rows - p * kPanelRows)), cols,
                 memory.data() + static_cast<std::size_t>(p) * matrix.panel_bytes);
    }
  }
};

/// Activations prepared by a table.
struct PreparedCase {
  Activations x;
  Buffer memory;

  PreparedCase(const KernelTable& table, Arithmetic arithmetic, const float* values, std::int64_t stride,
               std::int64_t rows, std::int64_t cols)
      : memory(table.activation_bytes(arithmetic, cols) * static_cast<std::size_t>(rows)) {
    x = {arithmetic, rows, cols, memory.data(), table.activation_bytes(arithmetic, cols)};
    table.prepare(arithmetic, values, stride, rows, cols, memory.data());
  }
};

inline bool legal(const KernelTable& table, DType dtype, Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::f32:
      return true;
    case Arithmetic::bf16:
      return dtype == DType::bf16 && table.runs_bf16;
    case Arithmetic::int8:
      return block_format(dtype).quantized();
  }
  return false;
}

inline std::string describe(const KernelTable& table, DType dtype, Arithmetic arithmetic, std::int64_t rows,
                            std::int64_t cols, std::int64_t m) {
  constexpr const char* kNames[] = {"f32", "bf16", "int8"};
  return std::string(table.name) + " " + std::string(block_format(dtype).name) + " x " +
         kNames[static_cast<int>(arithmetic)] + " " + std::to_string(rows) + "x" + std::to_string(cols) +
         " m " + std::to_string(m);
}

/// A job over everything; `scratch` must outlive it.
inline MatmulJob whole_job(const PackedMatrix& w, const Activations& x, float* out, std::int64_t out_stride,
                           Buffer& scratch) {
  MatmulJob job;
  job.weights = w;
  job.x = x;
  job.out = out;
  job.out_stride = out_stride;
  job.row_end = x.rows;
  job.panel_end = w.panels();
  job.scratch = scratch.span();
  return job;
}

}  // namespace lithe::kernels
