// How convert and inspect show tensors: layers folded together, columns aligned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/gguf.h"

namespace lithe::app {

struct TensorRow {
  std::string name;
  std::vector<std::uint64_t> dims;
  const formats::GgufType* type = nullptr;
  std::uint64_t bytes = 0;  // of all tensors of the row
  std::string note;
  std::uint64_t count = 1;
};

/// Folds rows that differ in their layer alone: "blk.{0-29}.attn_q.weight", 30 tensors. A layer is the first number between dots. Order of first appearance.
std::vector<TensorRow> group_layers(std::vector<TensorRow> rows);

/// name, count, shape, type, bits a weight, bytes, note: one line a row, indented by two.
std::string tensor_table(const std::vector<TensorRow>& rows);

struct TypeRow {
  std::string name;
  std::uint64_t tensors = 0, elements = 0, bytes = 0;
};

/// The types of a file, most bytes first, and their sum: tensors, weights, bytes, true bits a weight.
std::string type_table(std::vector<TypeRow> rows);

/// "0-3,7,9-11"
std::string number_ranges(std::vector<std::uint64_t> numbers);

}  // namespace lithe::app
