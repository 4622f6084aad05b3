#include "layers/prepared.h"

#include <algorithm>

#include "base/checked.h"

namespace lithe::layers {

using kernels::Activations;
using kernels::Arithmetic;

namespace {

// From so many rows on, making the input ready is worth a parallel region of its own.
constexpr std::int64_t kSerialPrepareRows = 2;
// Rows a worker makes ready at a time.
constexpr std::int64_t kPrepareRows = 8;

}  // namespace

PreparedInput prepare_input(ExecContext& context, const LinearInput& input,
                            std::span<const Arithmetic> wanted) {
  const kernels::KernelTable& table = context.kernels();
  PreparedInput prepared;
  std::array<std::byte*, std::tuple_size_v<decltype(prepared.forms)>> buffers{};
  for (const Arithmetic arithmetic : wanted) {
    const auto slot = static_cast<std::size_t>(arithmetic);
    if (buffers[slot] != nullptr) continue;
    const std::size_t row_bytes = table.activation_bytes(arithmetic, input.cols);
    buffers[slot] = context.arena().take_bytes(row_bytes * static_cast<std::size_t>(input.rows));
    prepared.forms[slot] = {arithmetic, input.rows, input.cols, buffers[slot], row_bytes};
  }

  const float* x = input.x;
  std::int64_t stride = input.stride;
  const bool keep_rows = input.make != nullptr && context.observer() != nullptr;
  float* made = nullptr;
  if (keep_rows) {
    made = context.arena().take<float>(input.rows * input.cols);
    x = made;
    stride = input.cols;
  }
  const auto prepare_rows = [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* source = x + row * stride;
      if (input.make != nullptr) {
        float* out =
            keep_rows ? made + row * stride : reinterpret_cast<float*>(context.worker_scratch(worker).data());
        (*input.make)(row, out);
        source = out;
      }
      for (std::size_t slot = 0; slot < buffers.size(); ++slot) {
        if (buffers[slot] == nullptr) continue;
        const Activations& form = prepared.forms[slot];
        table.prepare(form.arithmetic, source, stride, 1, input.cols,
                      buffers[slot] + static_cast<std::size_t>(row) * form.row_bytes);
      }
    }
  };
  context.reserve_worker_scratch(static_cast<std::size_t>(input.cols) * sizeof(float));
  if (input.rows <= kSerialPrepareRows) {
    prepare_rows(0, input.rows, 0);
  } else {
    context.pool().parallel_for(ceil_div(input.rows, kPrepareRows), [&](std::int64_t index, int worker) {
      const std::int64_t begin = index * kPrepareRows;
      prepare_rows(begin, std::min(begin + kPrepareRows, input.rows), worker);
    });
  }
  prepared.x = x;
  prepared.stride = stride;
  return prepared;
}

std::uint64_t prepared_bytes(const kernels::KernelTable& table, std::int64_t rows,
                             std::initializer_list<const Linear*> linears) {
  std::array<std::uint64_t, std::tuple_size_v<decltype(PreparedInput::forms)>> row_bytes{};
  for (const Linear* linear : linears) {
    if (!*linear) continue;
    row_bytes[static_cast<std::size_t>(linear->arithmetic())] =
        table.activation_bytes(linear->arithmetic(), linear->in_features());
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : row_bytes) sum += bytes * static_cast<std::uint64_t>(rows);
  return sum;
}

}  // namespace lithe::layers
