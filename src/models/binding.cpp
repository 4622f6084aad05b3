#include "models/binding.h"

#include <algorithm>

#include "base/checked.h"

namespace lithe::models {
namespace {

using formats::GgufTensor;

constexpr std::size_t kNamesShown = 6;

// "a, b, c and 17 more".
std::string list_names(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i)
    out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesShown) out += fmt::format(" and {} more", names.size() - kNamesShown);
  return out;
}

// rows 0: a vector, which may be folded into so many rows. stack 0: no stack.
Status check_shape(const GgufTensor& tensor, std::int64_t rows, std::int64_t cols, std::int64_t stack,
                   std::int64_t folds) {
  std::vector<std::uint64_t> expected{static_cast<std::uint64_t>(cols)};
  if (rows > 0) expected.push_back(static_cast<std::uint64_t>(rows));
  if (stack > 0) expected.push_back(static_cast<std::uint64_t>(stack));
  // Trailing dimensions of 1 say nothing.
  std::vector<std::uint64_t> dims = tensor.dims;
  while (dims.size() > expected.size() && dims.back() == 1) dims.pop_back();
  if (rows == 0 && dims.size() == 2 && static_cast<std::int64_t>(dims[1]) == folds &&
      static_cast<std::int64_t>(dims[0]) == cols / folds) {
    dims = expected;
  }
  if (dims != expected) {
    return corrupt("tensor {} has the shape {}, but the model's parameters ask for {}", tensor.name,
                   shape_text(tensor.dims), shape_text(expected));
  }
  if (tensor.format == nullptr) {
    return unsupported("tensor {} has the type {}, which Lithe does not run", tensor.name,
                       tensor.type().name);
  }
  const auto row = row_bytes(*tensor.format, static_cast<std::uint64_t>(cols));
  auto bytes = row;
  for (const std::int64_t count : {rows, stack}) {
    if (bytes && count > 0) bytes = checked_mul<std::uint64_t>(*bytes, static_cast<std::uint64_t>(count));
  }
  if (!bytes || *bytes != tensor.bytes()) {
    return corrupt("tensor {} of type {} and shape {} cannot have {} bytes", tensor.name, tensor.format->name,
                   shape_text(tensor.dims), tensor.bytes());
  }
  return {};
}

}  // namespace

std::string shape_text(std::span<const std::uint64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims.rbegin(), dims.rend(), ", "));
}

Status Binding::bind(const formats::ModelFile& file, const ArchSpec& spec, const WeightTable& table) {
  layers_.resize(spec.layers.size());
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const WeightEntry& entry = table[i];
    const std::size_t count = per_layer(entry.role) ? spec.layers.size() : 1;
    for (std::size_t layer = 0; layer < count; ++layer) {
      if (entry.gguf.empty() || !entry.lies_in(spec.layers[layer])) continue;
      const std::string name = layer_name(entry.gguf, static_cast<std::int64_t>(layer));
      const GgufTensor* tensor = file.find_tensor(name);
      if (tensor == nullptr) {
        if (entry.presence == Presence::required) missing.push_back(name);
        continue;
      }
      const LayerSpec& shape = spec.layers[layer];
      const Place place = place_of(table, i, &WeightEntry::gguf, spec, shape);
      const std::int64_t rows = entry.matrix() ? dim_length(entry.rows, spec, shape) : 1;
      const std::int64_t cols = dim_length(entry.cols, spec, shape);
      const std::int64_t stack = entry.stacked() ? dim_length(entry.stack, spec, shape) : 0;
      LITHE_RETURN_IF_ERROR(check_shape(*tensor, entry.matrix() ? place.whole : 0,
                                        entry.matrix() ? cols : place.whole, stack,
                                        dim_length(entry.folds, spec, shape)));
      Slots& slots = per_layer(entry.role) ? layers_[layer] : model_;
      slots[static_cast<std::size_t>(entry.role)] = {tensor, &entry, place.offset,
                                                     rows,   cols,   std::max<std::int64_t>(stack, 1)};
      used_.insert(tensor->name);
    }
  }
  std::ranges::sort(missing);
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());  // pieces of one tensor
  if (missing.empty()) return {};
  return corrupt("the file lacks {} of the tensors that its architecture '{}' with {} layers needs: {}",
                 missing.size(), spec.family, spec.layers.size(), list_names(missing));
}

std::string Binding::unused(const formats::ModelFile& file) const {
  std::vector<std::string> names;
  for (const GgufTensor& tensor : file.tensors()) {
    if (!used_.contains(tensor.name)) names.emplace_back(tensor.name);
  }
  if (names.empty()) return {};
  return fmt::format("{} tensors of the file are not used: {}", names.size(), list_names(names));
}

}  // namespace lithe::models
