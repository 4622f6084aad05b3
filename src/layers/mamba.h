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
  /// Of one sequence: the last taps - 1 rows before the convolution, filled up to a cache line, then each head's
  /// kernels::StateScan::state. A multiple of a cache line.
  std::int64_t history_floats() const { return kernels::StateScan::state_stride((taps - 1) * convolved()); }
  std::int64_t head_floats() const { return state * kernels::StateScan::state_stride(head_dim); }
  std::int64_t state_floats() const { return history_floats() + heads * head_floats(); }

  bool operator==(const MambaSpec&) const = default;
};

/// Rows [begin, begin + count) of the input are tokens of one sequence, which this state has seen the past of.
struct MambaRun {
  std::int64_t begin = 0, count = 0;
  float* state = nullptr;  // [state_floats()]
};

struct Mamba {
  MambaSpec spec;
  Linear in, out;                // [projected, hidden]: gate, convolved part, steps; [hidden, inner]
  std::vector<float> conv;       // [taps, convolved]
  std::vector<float> conv_bias;  // [convolved], or empty
  std::vector<float> decay, skip, step_bias;  // [heads]; decay: below 0
  Norm norm;                                  // [inner], a group at a time

  explicit operator bool() const { return static_cast<bool>(in); }

  /// What the heads made of the rows, in the arena; before the gate.
  struct Mixed {
    const float* gate = nullptr;  // [rows, gate_stride]
    std::int64_t gate_stride = 0;
    const float* values = nullptr;  // [rows, inner]
  };
  /// Moves the states on. The runs cover the input's rows, in their order.
  Mixed mix(ExecContext& context, const LinearInput& input, std::span<const MambaRun> runs) const;
  /// out: [rows.size(), out_stride] receives (or, with accumulate, is increased by) the result for some of the rows.
  void project(ExecContext& context, const Mixed& mixed, std::span<const std::int64_t> rows, float* to,
               std::int64_t to_stride, bool accumulate) const;

  /// What both take of the arena and of each worker at most, with Mixed still there.
  ScratchNeed scratch(const kernels::KernelTable& table, std::int64_t rows) const;

 private:
  void convolve(ExecContext& context, std::span<const MambaRun> runs, const float* projected,
                float* convolved) const;
  void scan(ExecContext& context, const MambaRun& run, std::int64_t head, const float* projected,
            const float* convolved, float* times, float* values) const;
  void remember(const MambaRun& run, const float* projected) const;
};

}  // namespace lithe::layers
