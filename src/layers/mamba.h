// The Mamba-2 mixer: a short convolution over the last tokens, then a state space head by head, in place of attention.
// What it knows of the past is a state of fixed size.
// Source: Transformers are SSMs (2405.21060), section 7. Its chunked form is not used: token after token the sums have one
// order, whatever piece of a prompt comes at a time (promise 1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layers/linear.h"
#include "layers/norm.h"

namespace lithe::layers {

struct MambaSpec {
  int heads = 0, head_dim = 0;  // heads 0: none of this
  int state = 0;                // numbers a channel of a head
  int groups = 1;               // heads of a group share what they write and read with
  int taps = 0;                 // tokens that the convolution sees

  std::int64_t inner() const { return std::int64_t{heads} * head_dim; }
  std::int64_t convolved() const { return inner() + 2 * std::int64_t{groups} * state; }
  std::int64_t projected() const { return inner() + convolved() + heads; }
  /// Of one sequence: the last taps - 1 rows before the convolution, then [heads, head_dim, state].
  std::int64_t state_floats() const { return (taps - 1) * convolved() + inner() * state; }

  bool operator==(const MambaSpec&) const = default;
};

/// Rows [begin, begin + count) of the input are tokens of one sequence, which this state has seen the past of.
struct MambaRun {
  std::int64_t begin = 0, count = 0;
  float* state = nullptr;
};

struct Mamba {
  MambaSpec spec;
  Linear in, out;                // [projected, hidden]: gate, convolved part, steps; [hidden, inner]
  std::vector<float> conv;       // [taps, convolved]
  std::vector<float> conv_bias;  // [convolved], or empty
  std::vector<float> decay, skip, step_bias;  // [heads]; decay: below 0
  Norm norm;                                  // [inner], a group at a time

  explicit operator bool() const { return static_cast<bool>(in); }

  /// out: [rows, out_stride] receives (or, with accumulate, is increased by) the result; states move on.
  void run(ExecContext& context, const LinearInput& input, std::span<const MambaRun> runs, float* out,
           std::int64_t out_stride, bool accumulate) const;
  ScratchNeed scratch(const kernels::KernelTable& table, std::int64_t rows) const;
};

}  // namespace lithe::layers
