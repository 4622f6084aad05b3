// A file's tensors by role and layer: every one found, shaped as the description says, and accounted for.
#pragma once

#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/model_file.h"
#include "models/arch_spec.h"
#include "models/weight_table.h"

namespace lithe::models {

/// A piece of a tensor: rows [offset, offset + rows) of a matrix, or elements of a vector (rows = 1).
struct BoundWeight {
  const formats::GgufTensor* tensor = nullptr;
  const WeightEntry* entry = nullptr;
  std::int64_t offset = 0;
  std::int64_t rows = 0, cols = 0;
  std::int64_t stack = 1;  // so many of them, in the tensor's slices

  explicit operator bool() const { return tensor != nullptr; }
};

class Binding {
 public:
  /// The table must outlive the binding. corrupt: tensors that are missing, or whose shape or size contradicts the
  /// description; unsupported: a type that does not run. Both name them.
  Status bind(const formats::ModelFile& file, const ArchSpec& spec, const WeightTable& table);

  const BoundWeight& find(Role role, std::size_t layer = 0) const {
    return per_layer(role) ? layers_[layer][static_cast<std::size_t>(role)]
                           : model_[static_cast<std::size_t>(role)];
  }

  /// One line that names the tensors which no row of the table claims; empty if there are none.
  std::string unused(const formats::ModelFile& file) const;

 private:
  using Slots = std::array<BoundWeight, kRoleCount>;
  Slots model_{};
  std::vector<Slots> layers_;
  std::set<std::string_view> used_;
};

/// "[32, 64]", the contiguous axis last.
std::string shape_text(std::span<const std::uint64_t> dims);

}  // namespace lithe::models
