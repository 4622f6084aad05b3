// A mixture of experts: a router sends each token to a few feed-forward layers of many. Rows are gathered by expert, so that
// each matrix is read once for all its tokens, and all experts share one parallel region.
#pragma once

#include <cstdint>
#include <vector>

#include "layers/ffn.h"
#include "layers/linear.h"
#include "layers/router.h"

namespace lithe::layers {

/// A batch's tokens in the order of their experts: slot s holds row `row_of[s]`; choice j of row r lies in slot
/// `slot_of[r * used + j]`.
struct Routing {
  std::vector<ExpertChoice> choices;  // [rows * used]
  std::vector<std::int64_t> row_of, slot_of;
  std::vector<std::int64_t> begin;  // [experts + 1], slots of each expert
};

struct Moe {
  RouterRule rule;
  Activation activation = Activation::silu;
  Linear router;                       // [experts, hidden]
  std::vector<float> choice_bias;      // [experts], or empty
  std::vector<Linear> gate, up, down;  // [experts]
  Ffn shared;                          // every token passes through it too; without matrices: none
  Linear shared_gate;  // [1, hidden]: the sigmoid of its output weighs the shared expert; or none

  explicit operator bool() const { return static_cast<bool>(router); }

  /// out: [rows, out_stride] receives (or, with accumulate, is increased by) the result. A token's experts are added in
  /// the order of its choice, whatever the other tokens choose (promise 1). `layer` is what an Observer hears.
  void run(ExecContext& context, int layer, const LinearInput& input, float* out, std::int64_t out_stride,
           bool accumulate) const;

  /// What run() does first: who goes where.
  Routing route(ExecContext& context, int layer, const LinearInput& input) const;

  /// What run() takes of the arena and of each worker at most.
  ScratchNeed scratch(const kernels::KernelTable& table, std::int64_t rows) const;
};

}  // namespace lithe::layers
