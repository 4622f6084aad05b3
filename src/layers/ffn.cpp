#include "layers/ffn.h"

#include <algorithm>
#include <array>

namespace lithe::layers {

void Ffn::run(ExecContext& context, const LinearInput& input, float* out, std::int64_t out_stride,
              bool accumulate) const {
  ScratchArena::Scope scope(context.arena());
  const kernels::KernelTable& table = context.kernels();
  const std::int64_t width = up.out_features();
  float* const hidden = context.arena().take<float>(input.rows * width);

  if (kind == FfnKind::gated) {
    float* const raised = context.arena().take<float>(input.rows * width);
    // The gate is applied by the worker that made both halves, while they are in its cache. Columns begin at
    // whole panels, so an element meets the same vector lane whatever the cut.
    const auto apply_gate = [&](std::int64_t row_begin, std::int64_t row_end, std::int64_t begin,
                                std::int64_t end) {
      for (std::int64_t row = row_begin; row < row_end; ++row) {
        float* const gated = hidden + row * width + begin;
        table.activate(activation, gated, raised + row * width + begin, end - begin, gated);
      }
    };
    const std::array products{Product{&gate, hidden, width}, Product{&up, raised, width}};
    const ProductEpilogue epilogue(apply_gate);
    multiply(context, input, products, &epilogue);
  } else {
    const auto apply = [&](std::int64_t row_begin, std::int64_t row_end, std::int64_t begin,
                           std::int64_t end) {
      for (std::int64_t row = row_begin; row < row_end; ++row) {
        float* const values = hidden + row * width + begin;
        table.activate(activation, values, nullptr, end - begin, values);
      }
    };
    const std::array products{Product{&up, hidden, width}};
    const ProductEpilogue epilogue(apply);
    multiply(context, input, products, &epilogue);
  }
  const std::array products{Product{&down, out, out_stride, accumulate}};
  multiply(context, {.x = hidden, .stride = width, .rows = input.rows, .cols = width}, products);
}

}  // namespace lithe::layers
