#include "formats/mxfp4_matrix.h"

#include "base/check.h"
#include "base/checked.h"

namespace lithe::formats {
namespace {

constexpr std::string_view kBlocks = "_blocks";
constexpr std::uint64_t kValues = 32, kBytes = 16;  // of a block

}  // namespace

bool Mxfp4Matrix::holds(const SafetensorsTensor& tensor) {
  return tensor.name.ends_with(kBlocks) && tensor.type_name == "U8";
}

Result<Mxfp4Matrix> Mxfp4Matrix::find(const HfDirectory& directory, const SafetensorsTensor& blocks) {
  LITHE_CHECK(holds(blocks));
  const std::string name = blocks.name.substr(0, blocks.name.size() - kBlocks.size()) + "_scales";
  Mxfp4Matrix out;
  out.blocks_ = &blocks;
  out.scales_ = directory.find_tensor(name);
  if (out.scales_ == nullptr) return corrupt("the checkpoint lacks the tensor {}", name);
  std::vector<std::uint64_t> shape = blocks.shape;  // [..., rows, blocks of a row, 16]
  if (shape.size() < 3 || shape.back() != kBytes)
    return corrupt("tensor {} holds no blocks of {} bytes", blocks.name, kBytes);
  shape.pop_back();
  if (out.scales_->shape != shape || out.scales_->type_name != "U8")
    return corrupt("tensor {} does not have one byte for each block of {}", name, blocks.name);
  const auto cols = checked_mul(shape.back(), kValues);
  if (!cols) return corrupt("the size of tensor {} overflows", blocks.name);
  shape.back() = *cols;
  out.shape_ = std::move(shape);
  return out;
}

void Mxfp4Matrix::repack_row(std::uint64_t row, std::byte* out) const {
  const std::uint64_t count = shape_.back() / kValues;
  const std::byte* codes = blocks_->data.data() + row * count * kBytes;
  const std::byte* scales = scales_->data.data() + row * count;
  for (std::uint64_t block = 0; block < count; ++block, codes += kBytes, out += 1 + kBytes) {
    out[0] = scales[block];
    // Value i is in byte i / 2; it goes to byte i % 16, the upper half of the block into the high half of the byte.
    for (std::uint64_t i = 0; i < kBytes; i += 2) {
      const std::byte low = codes[i / 2], high = codes[i / 2 + kBytes / 2];
      out[1 + i] = (low & std::byte{0x0F}) | (high << 4);
      out[2 + i] = (low >> 4) | (high & std::byte{0xF0});
    }
  }
}

}  // namespace lithe::formats
