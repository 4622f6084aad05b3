// The feed-forward layer: down(act(gate(x)) * up(x)), or down(act(up(x))).
#pragma once

#include <cstdint>

#include "layers/context.h"
#include "layers/linear.h"

namespace lithe::layers {

using kernels::Activation;
enum class FfnKind : std::uint8_t { gated, plain };

struct Ffn {
  FfnKind kind = FfnKind::gated;
  Activation activation = Activation::silu;
  Linear gate, up, down;  // plain: no gate

  /// out: [rows, out_stride] receives (or, with accumulate, is increased by) the result.
  void run(ExecContext& context, const LinearInput& input, float* out, std::int64_t out_stride,
           bool accumulate) const;
};

}  // namespace lithe::layers
