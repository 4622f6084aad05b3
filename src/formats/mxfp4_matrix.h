// Stacks of matrices in MXFP4 as gpt-oss's checkpoints hold them: NAME_blocks, 16 bytes of two codes each for 32 values, the
// even value's code in the low half, and NAME_scales, an exponent for each block. GGUF's blocks are the same numbers with the
// exponent in front and the codes of values i and i + 16 in one byte.
// Source: OCP Microscaling Formats 1.0.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "formats/hf_directory.h"
#include "formats/safetensors.h"

namespace lithe::formats {

class Mxfp4Matrix {
 public:
  /// The blocks of such a tensor, by their name.
  static bool holds(const SafetensorsTensor& tensor);
  /// corrupt: no scales, or shapes that contradict each other. Borrows both tensors.
  static Result<Mxfp4Matrix> find(const HfDirectory& directory, const SafetensorsTensor& blocks);

  const std::vector<std::uint64_t>& shape() const { return shape_; }  // of the values: [..., rows, cols]
  const SafetensorsTensor& scales() const { return *scales_; }
  /// Row `row` of all matrices of the stack, as GGUF's blocks: cols / 32 * 17 bytes.
  void repack_row(std::uint64_t row, std::byte* out) const;

 private:
  const SafetensorsTensor* blocks_ = nullptr;
  const SafetensorsTensor* scales_ = nullptr;
  std::vector<std::uint64_t> shape_;
};

}  // namespace lithe::formats
