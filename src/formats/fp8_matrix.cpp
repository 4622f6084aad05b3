#include "formats/fp8_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/checked.h"
#include "base/text.h"
#include "tensor/fp8.h"

namespace lithe::formats {
namespace {

constexpr std::uint64_t kUsualBlock = 128;

using Table = std::array<float, 256>;

Table make_table(float (*decode)(std::uint8_t)) {
  Table table;
  for (std::size_t code = 0; code < table.size(); ++code)
    table[code] = decode(static_cast<std::uint8_t>(code));
  return table;
}

const float* table_of(std::string_view type) {
  static const Table kE4M3 = make_table(f8_e4m3_to_f32), kE5M2 = make_table(f8_e5m2_to_f32);
  return type == "F8_E4M3" ? kE4M3.data() : kE5M2.data();
}

struct Block {
  std::uint64_t rows = kUsualBlock, cols = kUsualBlock;
};

Result<Block> stated_block(const Json& config) {
  Block out;
  const Json* quantization = find_member(config, "quantization_config");
  const Json* size = quantization == nullptr ? nullptr : find_member(*quantization, "weight_block_size");
  if (size == nullptr || size->is_null()) return out;
  const auto good = [](const Json& item) {
    return item.is_number_unsigned() && item.get<std::uint64_t>() > 0;
  };
  if (!size->is_array() || size->size() != 2 || !good((*size)[0]) || !good((*size)[1]))
    return corrupt("config.json: weight_block_size is {}, expected two numbers", printable(size->dump(), 60));
  return Block{(*size)[0].get<std::uint64_t>(), (*size)[1].get<std::uint64_t>()};
}

}  // namespace

bool Fp8Matrix::holds(const SafetensorsTensor& tensor) {
  return tensor.type_name == "F8_E4M3" || tensor.type_name == "F8_E5M2";
}

Result<Fp8Matrix> Fp8Matrix::find(const HfDirectory& directory, const SafetensorsTensor& codes) {
  LITHE_CHECK(holds(codes));
  Fp8Matrix out;
  out.codes_ = &codes;
  out.table_ = table_of(codes.type_name);
  if (!codes.shape.empty()) out.cols_ = codes.shape.back();
  out.rows_ = out.cols_ == 0 ? 0 : codes.elements() / out.cols_;
  out.block_rows_ = std::max<std::uint64_t>(out.rows_, 1);
  out.block_cols_ = std::max<std::uint64_t>(out.cols_, 1);
  out.scales_ = {1.0f};
  for (const char* ending : {"_scale_inv", "_scale"}) {
    if (out.scale_ == nullptr) out.scale_ = directory.find_tensor(codes.name + ending);
  }
  if (out.scale_ == nullptr) return out;

  const SafetensorsTensor& scale = *out.scale_;
  if (scale.type == nullptr || !scale.type->dtype)
    return unsupported("the scales {} have the type {}", in_quotes(scale.name), printable(scale.type_name));
  LITHE_ASSIGN_OR_RETURN(const Block block, stated_block(directory.config()));
  const std::uint64_t scale_rows = scale.shape.empty() ? 1 : scale.shape.front();
  const std::uint64_t blocks_down = out.rows_ / block.rows + (out.rows_ % block.rows != 0 ? 1 : 0);
  const std::uint64_t blocks_across = out.cols_ / block.cols + (out.cols_ % block.cols != 0 ? 1 : 0);
  const std::uint64_t count = scale.elements();
  if (count == out.rows_ && scale_rows == out.rows_ && count != 1) {
    out.block_rows_ = 1;
  } else if (scale.shape.size() == 2 && scale_rows == blocks_down && scale.shape[1] == blocks_across) {
    out.block_rows_ = block.rows;
    out.block_cols_ = block.cols;
    out.scale_cols_ = blocks_across;
  } else if (count != 1) {
    return corrupt("the scales {} of shape [{}] do not suit the shape [{}] in blocks of {} x {}",
                   in_quotes(scale.name), fmt::join(scale.shape, ", "), fmt::join(codes.shape, ", "),
                   block.rows, block.cols);
  }
  out.scales_.resize(static_cast<std::size_t>(count));
  block_format(*scale.type->dtype)
      .decode(scale.data.data(), static_cast<std::int64_t>(count), out.scales_.data());
  if (!std::all_of(out.scales_.begin(), out.scales_.end(), [](float value) { return std::isfinite(value); }))
    return corrupt("the scales {} hold a number that is not finite", in_quotes(scale.name));
  return out;
}

void Fp8Matrix::decode_row(std::uint64_t row, float* values) const {
  LITHE_CHECK(row < rows_);
  const std::byte* codes = codes_->data.data() + row * cols_;
  const float* scales = scales_.data() + row / block_rows_ * scale_cols_;
  for (std::uint64_t begin = 0; begin < cols_; begin += block_cols_) {
    const float scale = *scales++;
    const std::uint64_t end = std::min(cols_, begin + block_cols_);
    for (std::uint64_t i = begin; i < end; ++i)
      values[i] = table_[std::to_integer<std::size_t>(codes[i])] * scale;
  }
}

}  // namespace lithe::formats
