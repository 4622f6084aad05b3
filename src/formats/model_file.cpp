#include "formats/model_file.h"

namespace lithe::formats {

std::uint64_t GgufTensor::elements() const {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : dims) count *= dim;
  return count;
}

std::uint64_t GgufTensor::bytes() const {
  return elements() / type().block_elems * type().block_bytes;
}

std::uint64_t GgufTensor::slices() const {
  std::uint64_t count = 1;
  for (std::size_t i = 2; i < dims.size(); ++i) count *= dims[i];
  return count;
}

const GgufTensor* ModelFile::find_tensor(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

const GgufTensor* ModelFile::index_tensors() {
  by_name_.reserve(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!by_name_.emplace(tensors_[i].name, i).second) return &tensors_[i];
  }
  return nullptr;
}

}  // namespace lithe::formats
