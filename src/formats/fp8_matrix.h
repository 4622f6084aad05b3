// Matrices of 8-bit floats in checkpoints: codes, and the scales that lie beside them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "formats/hf_directory.h"

namespace lithe::formats {

class Fp8Matrix {
 public:
  /// F8_E4M3 or F8_E5M2.
  static bool holds(const SafetensorsTensor& tensor);

  /// The scales are the tensor NAME_scale_inv or NAME_scale (both multiply, whatever the first is called): one number, one
  /// a row, or one a block of config.json's quantization_config.weight_block_size (128 x 128 without it). No such tensor:
  /// the codes are the values. corrupt: scales of another shape, or not finite; unsupported: of another type.
  /// Borrows `codes`.
  static Result<Fp8Matrix> find(const HfDirectory& directory, const SafetensorsTensor& codes);

  std::uint64_t rows() const { return rows_; }
  std::uint64_t cols() const { return cols_; }
  const SafetensorsTensor* scale() const { return scale_; }  // nullptr: none
  /// values: [cols], exact products of code and scale, rounded once to f32.
  void decode_row(std::uint64_t row, float* values) const;

 private:
  const SafetensorsTensor* codes_ = nullptr;
  const SafetensorsTensor* scale_ = nullptr;
  const float* table_ = nullptr;  // [256]
  std::uint64_t rows_ = 1, cols_ = 1, block_rows_ = 1, block_cols_ = 1, scale_cols_ = 1;
  std::vector<float> scales_;  // [ceil(rows / block_rows), scale_cols]
};

}  // namespace lithe::formats
