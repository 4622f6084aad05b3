// Every numeric kernel behind one table of function pointers, one table per instruction set.
// Kernels see plain views: never a model, a file or the owner of a cache. All are single-threaded and
// thread-safe; layers/ cuts the work. Whatever the cut, an output has the same bits (promise 1): its
// reduction order is fixed by its own row and columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "kernels/attention.h"
#include "kernels/packed_matrix.h"

namespace lithe::kernels {

/// portable = the SIMD source compiled for the baseline (SSE4.2 or NEON); reference = plain scalar loops.
enum class Isa : std::uint8_t { reference, portable, avx2, avx512 };

/// What a feed-forward layer does to its gate (or, without one, to its values).
/// gelu_tanh and gelu_erf: the approximation and the exact form of 1606.08415. swiglu_oai: gpt-oss's, with gate and up
/// clamped to 7, 1.702 in the sigmoid and 1 added to up.
enum class Activation : std::uint8_t { silu, gelu_tanh, gelu_erf, relu, relu_squared, swiglu_oai };

/// What a matrix product turns its activations into. int8: blocks of 32 with an f32 scale each (symmetric).
enum class Arithmetic : std::uint8_t { f32, bf16, int8 };

/// Rows of activations in the form a table's matmul wants; filled by its prepare().
struct Activations {
  Arithmetic arithmetic = Arithmetic::f32;
  std::int64_t rows = 0, cols = 0;
  const std::byte* data = nullptr;  // rows * activation_bytes(arithmetic, cols), 64-byte aligned
  std::size_t row_bytes = 0;
};

/// out[r, o] = sum over k of x[r, k] * w[o, k]  (+ bias[o]) (+ out[r, o] if accumulate), for rows
/// [row_begin, row_end) of x and panels [panel_begin, panel_end) of w.
struct MatmulJob {
  PackedMatrix weights;
  Activations x;
  const float* bias = nullptr;  // [out_features] or null
  float* out = nullptr;         // [x.rows, out_stride], column 0 = weight row 0
  std::int64_t out_stride = 0;
  bool accumulate = false;  // adds to what is there: out = out + (product + bias)
  std::int64_t row_begin = 0, row_end = 0;
  std::int64_t panel_begin = 0, panel_end = 0;
  std::span<std::byte> scratch;  // of this worker, at least matmul_scratch_bytes() big, 64-byte aligned
};

/// Tokens of one state space head (Mamba-2, 2405.21060), one after another:
///   state[j, i] = decay[t] * state[j, i] + step[t] * x[t, i] * b[t, j]
///   y[t, i] = sum over j of state[j, i] * c[t, j], j ascending, + skip * x[t, i]
/// Channels i lie side by side, so that each is a lane of its own and no sum crosses lanes.
struct StateScan {
  std::int64_t tokens = 0, channels = 0, n = 0;
  float* state = nullptr;    // [n, state_stride(channels)]; what lies behind a row's channels is 0
  const float* x = nullptr;  // [tokens, x_stride]
  const float *b = nullptr, *c = nullptr;         // [tokens, bc_stride], n of each used
  const float *decay = nullptr, *step = nullptr;  // [tokens]
  float skip = 0;
  float* y = nullptr;  // [tokens, y_stride]
  std::int64_t x_stride = 0, bc_stride = 0, y_stride = 0;

  static constexpr std::int64_t kStateLanes = 16;  // of the widest vector
  static constexpr std::int64_t state_stride(std::int64_t channels) {
    return (channels + kStateLanes - 1) / kStateLanes * kStateLanes;
  }
};

struct KernelTable {
  Isa isa = Isa::reference;
  std::string_view name;   // "avx512-vnni-bf16"
  bool runs_bf16 = false;  // bf16 weights with bf16 activations are legal here
  bool has_bf16 = false;   // ... and faster than with f32: the ones to choose

  // --- matrix products
  // -------------------------------------------------------------------------------------------
  std::size_t (*activation_bytes)(Arithmetic, std::int64_t cols);
  /// x: [rows, stride] floats -> out: rows * activation_bytes. int8: cols multiple of 32.
  void (*prepare)(Arithmetic, const float* x, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                  std::byte* out);
  std::size_t (*matmul_scratch_bytes)();
  /// Legal pairs: any dtype with f32; bf16 with bf16 if runs_bf16; every quantised dtype with int8.
  void (*matmul)(const MatmulJob&);
  /// c[m, n] (+)= a[m, k] * b[k, n], plain row-major floats: the product that calibration needs.
  void (*sgemm)(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda,
                const float* b, std::int64_t ldb, float* c, std::int64_t ldc, bool accumulate,
                std::span<std::byte> scratch);

  // --- rows
  // --------------------------------------------------------------------------------------------------------
  /// out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]. x, weight, out: [n]; out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, std::int64_t n, float* out);
  /// out[i] = (x[i] - mean) / sqrt(var + eps) * weight[i] + bias[i]; bias may be null.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, std::int64_t n,
                     float* out);
  /// Rotates `heads` heads of one token in place, x: [heads, head_dim]. cos, sin: [rotary_dim / 2] for its
  /// position. interleaved: pairs (2i, 2i+1); otherwise (i, i + rotary_dim/2). Channels from rotary_dim on
  /// stay.
  void (*rope)(float* x, std::int64_t heads, std::int64_t head_dim, std::int64_t rotary_dim, const float* cos,
               const float* sin, bool interleaved);
  /// out[i] = act(gate[i]) * up[i], all [n]; out may be gate. up may be null: ones.
  void (*activate)(Activation, const float* gate, const float* up, std::int64_t n, float* out);
  /// x[i] = cap * tanh(x[i] / cap)
  void (*soft_cap)(float* x, float cap, std::int64_t n);
  /// x[i] += y[i], x[i] *= s
  void (*add)(float* x, const float* y, std::int64_t n);
  void (*scale)(float* x, float s, std::int64_t n);

  // --- recurrences
  /// out[c] = silu(bias[c] + sum over t of weights[t, c] * rows[t][c]), t ascending: the last `taps` tokens, the newest last.
  /// weights: [taps, n]; bias: [n] or null.
  void (*causal_conv)(const float* const* rows, const float* weights, const float* bias, std::int64_t taps,
                      std::int64_t n, float* out);
  /// See StateScan. However many tokens come in one call, the bits are the same.
  void (*state_scan)(const StateScan&);

  // --- sampling reductions
  // ---------------------------------------------------------------------------------------------
  /// The lowest index of the largest value; NaN is never chosen unless all are NaN (then -1).
  std::int64_t (*argmax)(const float* x, std::int64_t n);
  float (*max)(const float* x, std::int64_t n);
  /// x[i] = exp(x[i] - max); returns the sum, in a fixed order.
  double (*exp_sum)(float* x, float max, std::int64_t n);

  AttentionKernels attention;
};

/// The table of one ISA, or an error that names what this CPU lacks.
Result<const KernelTable*> kernel_table(Isa isa);
/// The best this CPU has, or the one LITHE_ISA names (reference, portable, avx2, avx512).
Result<const KernelTable*> default_kernel_table();
/// All that run here, best last: what tests loop over.
std::span<const Isa> available_isas();
std::string_view isa_name(Isa isa);

}  // namespace lithe::kernels
