#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "base/checked.h"
#include "base/text.h"
#include "formats/safetensors.h"

namespace lithe::formats {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kHeaderAlignment = 8;

std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// UTF-8 is checked by writing: an invalid name would otherwise be replaced silently.
bool is_utf8(const std::string& text) {
  try {
    return !Json(text).dump().empty();
  } catch (const Json::exception&) {
    return false;
  }
}

Result<std::uint64_t> bytes_of(const std::string& name, const SafetensorsType& type,
                               const std::vector<std::uint64_t>& shape) {
  if (name.empty() || name == kMetadataKey || !is_utf8(name))
    return invalid("{} cannot be the name of a tensor", in_quotes(name));
  std::optional<std::uint64_t> bits = type.bits;
  for (const std::uint64_t dim : shape) {
    if (bits) bits = checked_mul(*bits, dim);
  }
  if (!bits) return invalid("the size of tensor {} overflows", in_quotes(name));
  if (*bits % 8 != 0) return invalid("tensor {} takes no whole number of bytes", in_quotes(name));
  return *bits / 8;
}

}  // namespace

void SafetensorsWriter::add_metadata(std::string key, std::string value) {
  metadata_[std::move(key)] = std::move(value);
}

void SafetensorsWriter::add_tensor(std::string name, const SafetensorsType& type,
                                   std::vector<std::uint64_t> shape) {
  LITHE_CHECK(!begun_);
  tensors_.push_back({std::move(name), &type, std::move(shape)});
}

// Sizes, and which tensor goes into which file.
Status SafetensorsWriter::plan(std::uint64_t shard_bytes, std::vector<std::vector<Tensor*>>& shards) {
  std::set<std::string_view> names;
  std::uint64_t in_shard = 0;
  shards.emplace_back();
  for (Tensor& tensor : tensors_) {
    LITHE_ASSIGN_OR_RETURN(tensor.bytes, bytes_of(tensor.name, *tensor.type, tensor.shape));
    if (!names.insert(tensor.name).second)
      return invalid("tensor {} is declared twice", in_quotes(tensor.name));
    const auto sum = checked_add(data_bytes_, tensor.bytes);
    if (!sum) return invalid("the size of all tensors overflows");
    data_bytes_ = *sum;
    if (!shards.back().empty() && in_shard + tensor.bytes > shard_bytes) {
      shards.emplace_back();
      in_shard = 0;
    }
    in_shard += tensor.bytes;
    tensor.shard = shards.size() - 1;
    shards.back().push_back(&tensor);
  }
  return {};
}

// The header of one file. Wider types come first, so that every tensor is aligned to its type: readers map the data.
std::string SafetensorsWriter::place(const std::vector<Tensor*>& tensors) const {
  std::vector<Tensor*> order = tensors;
  std::stable_sort(order.begin(), order.end(),
                   [](const Tensor* a, const Tensor* b) { return a->type->bits > b->type->bits; });
  Json header = Json::object();
  header[std::string(kMetadataKey)] = metadata_;
  // Not by header[name], which looks through all names for each.
  auto& members = header.get_ref<Json::object_t&>();
  std::uint64_t offset = 0;
  for (Tensor* tensor : order) {
    tensor->offset = offset;
    offset += tensor->bytes;
    Json entry = {
        {"dtype", tensor->type->name}, {"shape", tensor->shape}, {"data_offsets", {tensor->offset, offset}}};
    members.push_back({tensor->name, std::move(entry)});
  }
  std::string text = dump(header);
  text.resize(round_up(text.size(), kHeaderAlignment), ' ');
  const std::uint64_t length = text.size();
  char raw[sizeof length];
  std::memcpy(raw, &length, sizeof length);
  for (Tensor* tensor : order) tensor->offset += sizeof length + length;
  return std::string(raw, sizeof raw) + text;
}

Status SafetensorsWriter::begin(const std::filesystem::path& folder, std::uint64_t shard_bytes) {
  LITHE_CHECK(!begun_);
  begun_ = true;
  folder_ = folder;
  std::vector<std::vector<Tensor*>> shards;
  LITHE_RETURN_IF_ERROR(plan(shard_bytes, shards));
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shards.size() == 1
                                 ? "model.safetensors"
                                 : fmt::format("model-{:05d}-of-{:05d}.safetensors", i + 1, shards.size());
    LITHE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(folder / name));
    LITHE_RETURN_IF_ERROR(file.write(place(shards[i])));
    shards_.push_back({name, std::move(file)});
  }
  skip_empty();
  return {};
}

// Tensors without a byte need no call of write_tensor().
void SafetensorsWriter::skip_empty() {
  while (next_tensor_ < tensors_.size() && tensors_[next_tensor_].bytes == 0) ++next_tensor_;
}

Status SafetensorsWriter::write_tensor(std::span<const std::byte> data) {
  LITHE_CHECK(begun_ && next_tensor_ < tensors_.size());
  const Tensor& tensor = tensors_[next_tensor_];
  LITHE_CHECK(data.size() <= tensor.bytes - written_);
  LITHE_RETURN_IF_ERROR(shards_[tensor.shard].file.write_at(tensor.offset + written_, data));
  written_ += data.size();
  if (written_ < tensor.bytes) return {};
  ++next_tensor_;
  written_ = 0;
  skip_empty();
  return {};
}

Status SafetensorsWriter::write_index(const std::filesystem::path& path) const {
  nlohmann::json places = nlohmann::json::object();
  for (const Tensor& tensor : tensors_) places[tensor.name] = shards_[tensor.shard].name;
  const nlohmann::json index = {{"metadata", {{"total_size", data_bytes_}}},
                                {"weight_map", std::move(places)}};
  LITHE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  LITHE_RETURN_IF_ERROR(file.write(index.dump(2) + "\n"));
  return file.commit();
}

Status SafetensorsWriter::commit() {
  LITHE_CHECK(begun_ && next_tensor_ == tensors_.size());
  for (Shard& shard : shards_) LITHE_RETURN_IF_ERROR(shard.file.commit());
  if (shards_.size() == 1) return {};
  return write_index(folder_ / "model.safetensors.index.json");
}

}  // namespace lithe::formats
