#include <algorithm>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/checked.h"
#include "base/text.h"
#include "formats/gguf.h"
#include "formats/gguf_wire.h"

namespace lithe::formats {
namespace {

using namespace wire;

template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void append_string(std::string& out, std::string_view text) {
  append<std::uint64_t>(out, text.size());
  out += text;
}

Result<std::uint64_t> tensor_bytes(const std::string& name, const GgufType& type,
                                   const std::vector<std::uint64_t>& dims) {
  if (name.empty()) return invalid("a tensor has no name");
  if (dims.size() > kMaxDims) return invalid("tensor {} has {} dimensions", in_quotes(name), dims.size());
  const std::uint64_t columns = dims.empty() ? 1 : dims[0];
  if (columns % type.block_elems != 0) {
    return invalid("tensor {}: rows of {} values do not divide into {} blocks of {}", in_quotes(name),
                   columns, type.name, type.block_elems);
  }
  auto bytes = checked_mul<std::uint64_t>(columns / type.block_elems, type.block_bytes);
  for (std::size_t i = 1; i < dims.size() && bytes; ++i) bytes = checked_mul(*bytes, dims[i]);
  if (!bytes || *bytes == 0) return invalid("tensor {} is empty or its size overflows", in_quotes(name));
  return *bytes;
}

}  // namespace

void GgufWriter::add_tensor(std::string name, DType dtype, std::vector<std::uint64_t> dims) {
  add_tensor(std::move(name), *find_gguf_type(block_format(dtype).gguf_id), std::move(dims));
}

void GgufWriter::add_tensor(std::string name, const GgufType& type, std::vector<std::uint64_t> dims) {
  LITHE_CHECK(!file_);
  tensors_.push_back({std::move(name), type.id, std::move(dims), 0});
}

Status GgufWriter::begin(const std::filesystem::path& path) {
  std::string head(kMagic);
  append<std::uint32_t>(head, kMaxVersion);
  append<std::uint64_t>(head, tensors_.size());
  append<std::uint64_t>(head, metadata_.size());
  LITHE_RETURN_IF_ERROR(metadata_.append_to(head));
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (Tensor& tensor : tensors_) {
    if (!names.insert(tensor.name).second)
      return invalid("tensor {} is declared twice", in_quotes(tensor.name));
    LITHE_ASSIGN_OR_RETURN(tensor.bytes,
                           tensor_bytes(tensor.name, *find_gguf_type(tensor.type), tensor.dims));
    append_string(head, tensor.name);
    append<std::uint32_t>(head, static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::uint64_t dim : tensor.dims) append<std::uint64_t>(head, dim);
    append<std::uint32_t>(head, tensor.type);
    append<std::uint64_t>(head, offset);
    const auto end = checked_add(offset, tensor.bytes);
    const auto next = end ? checked_round_up(*end, kAlignment) : std::nullopt;
    if (!next) return invalid("the size of the file overflows");
    offset = *next;
  }
  head.resize(round_up<std::size_t>(head.size(), kAlignment), '\0');
  LITHE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  LITHE_RETURN_IF_ERROR(file.write(head));
  file_.emplace(std::move(file));
  return {};
}

Status GgufWriter::write_tensor(std::span<const std::byte> data) {
  LITHE_CHECK(file_ && next_tensor_ < tensors_.size());
  const Tensor& tensor = tensors_[next_tensor_];
  LITHE_CHECK(data.size() <= tensor.bytes - written_);
  LITHE_RETURN_IF_ERROR(file_->write(data));
  written_ += data.size();
  if (written_ < tensor.bytes) return {};
  constexpr std::byte kZeros[kAlignment] = {};
  const auto padding = static_cast<std::size_t>(round_up(tensor.bytes, kAlignment) - tensor.bytes);
  ++next_tensor_;
  written_ = 0;
  return file_->write(std::span(kZeros, padding));
}

Status GgufWriter::commit() {
  LITHE_CHECK(file_ && next_tensor_ == tensors_.size());
  return file_->commit();
}

}  // namespace lithe::formats
