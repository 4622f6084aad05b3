// The common input of some matrices, made ready once.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "kernels/kernel_table.h"
#include "layers/context.h"
#include "layers/linear.h"

namespace lithe::layers {

/// Kernels take panels in pairs: the unit of work.
inline constexpr std::int64_t kUnitPanels = 2;

/// In each arithmetic that some matrix wants.
struct PreparedInput {
  std::array<kernels::Activations, 3> forms;
  const float* x =
      nullptr;  // the rows as floats, [rows, stride]: with an observer always, else those of LinearInput::x
  std::int64_t stride = 0;

  const kernels::Activations& form(kernels::Arithmetic arithmetic) const {
    return forms[static_cast<std::size_t>(arithmetic)];
  }
};

/// Takes its memory of the context's arena.
PreparedInput prepare_input(ExecContext& context, const LinearInput& input,
                            std::span<const kernels::Arithmetic> wanted);

/// What that takes of the arena for `rows` rows that all of these matrices read: a form for each arithmetic among them.
/// Matrices that are not there count for nothing.
std::uint64_t prepared_bytes(const kernels::KernelTable& table, std::int64_t rows,
                             std::initializer_list<const Linear*> linears);

}  // namespace lithe::layers
