#include "layers/mamba.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "layers/prepared.h"

namespace lithe::layers {
namespace {

constexpr int kMostTaps = 16;

// log(1 + exp(x)), as Transformers has it: beyond 20 it is x.
float softplus(float x) {
  return x > 20.0f ? x : std::log1p(std::exp(x));
}

}  // namespace

Mamba::Mixed Mamba::mix(ExecContext& context, const LinearInput& input,
                        std::span<const MambaRun> runs) const {
  LITHE_CHECK(spec.taps >= 1 && spec.taps <= kMostTaps);
  const std::int64_t heads = spec.heads, rows = input.rows;
  float* const projected = context.arena().take<float>(rows * spec.projected());
  float* const values = context.arena().take<float>(rows * spec.inner());
  const std::array first{Product{&in, projected, spec.projected()}};
  multiply(context, input, first);
  ScratchArena::Scope scope(context.arena());
  float* const convolved = context.arena().take<float>(rows * spec.convolved());
  float* const times = context.arena().take<float>(2 * rows * heads);
  convolve(context, runs, projected, convolved);
  const std::int64_t tasks = std::ssize(runs) * heads;
  context.pool().parallel_for(tasks + std::ssize(runs), [&](std::int64_t task, int) {
    if (task >= tasks) return remember(runs[static_cast<std::size_t>(task - tasks)], projected);
    const MambaRun& run = runs[static_cast<std::size_t>(task / heads)];
    const std::int64_t head = task % heads;
    scan(context, run, head, projected, convolved, times + 2 * (head * rows + run.begin), values);
  });
  return {projected, spec.projected(), values};
}

// Tap t of row r is t - (taps - 1) tokens ahead of it: a row of this batch, or one that the state remembers.
void Mamba::convolve(ExecContext& context, std::span<const MambaRun> runs, const float* projected,
                     float* convolved) const {
  const std::int64_t inner = spec.inner(), width = spec.convolved(), past = spec.taps - 1;
  const auto one = [&](std::int64_t row, int) {
    const MambaRun& run = *(std::ranges::upper_bound(runs, row, {}, &MambaRun::begin) - 1);
    std::array<const float*, kMostTaps> seen{};
    for (std::int64_t tap = 0; tap <= past; ++tap) {
      const std::int64_t at = row - run.begin + tap - past;
      seen[static_cast<std::size_t>(tap)] =
          at >= 0 ? projected + (run.begin + at) * spec.projected() + inner : run.state + (past + at) * width;
    }
    context.kernels().causal_conv(seen.data(), conv.data(), conv_bias.empty() ? nullptr : conv_bias.data(),
                                  spec.taps, width, convolved + row * width);
  };
  context.pool().parallel_for(runs.back().begin + runs.back().count, one);
}

// times: room for 2 * run.count.
void Mamba::scan(ExecContext& context, const MambaRun& run, std::int64_t head, const float* projected,
                 const float* convolved, float* times, float* values) const {
  const std::int64_t inner = spec.inner(), width = spec.convolved(),
                     group = head / (spec.heads / spec.groups);
  const auto at = static_cast<std::size_t>(head);
  float* const steps = times;
  float* const decays = times + run.count;
  for (std::int64_t i = 0; i < run.count; ++i) {
    const float raw = projected[(run.begin + i) * spec.projected() + inner + width + head];
    steps[i] = softplus(raw + step_bias[at]);
    decays[i] = std::exp(steps[i] * decay[at]);
  }
  const float* const from = convolved + run.begin * width;
  context.kernels().state_scan({.tokens = run.count,
                                .channels = spec.head_dim,
                                .n = spec.state,
                                .state = run.state + spec.history_floats() + head * spec.head_floats(),
                                .x = from + head * spec.head_dim,
                                .b = from + inner + group * spec.state,
                                .c = from + inner + (spec.groups + group) * spec.state,
                                .decay = decays,
                                .step = steps,
                                .skip = skip[at],
                                .y = values + run.begin * inner + head * spec.head_dim,
                                .x_stride = width,
                                .bc_stride = width,
                                .y_stride = inner});
}

// The newest rows before the convolution, for the next tokens.
void Mamba::remember(const MambaRun& run, const float* projected) const {
  const std::int64_t width = spec.convolved(), past = spec.taps - 1;
  for (std::int64_t i = 0; i < past; ++i) {
    const std::int64_t at = run.count - past + i;
    const float* const from = at >= 0 ? projected + (run.begin + at) * spec.projected() + spec.inner()
                                      : run.state + (past + at) * width;
    std::copy_n(from, width, run.state + i * width);
  }
}

void Mamba::project(ExecContext& context, const Mixed& mixed, std::span<const std::int64_t> rows, float* to,
                    std::int64_t to_stride, bool accumulate) const {
  const kernels::KernelTable& table = context.kernels();
  const std::int64_t inner = spec.inner(), part = inner / spec.groups;
  const auto gate = [&](std::int64_t index, float* gated) {
    const std::int64_t row = rows[static_cast<std::size_t>(index)];
    table.activate(kernels::Activation::silu, mixed.gate + row * mixed.gate_stride,
                   mixed.values + row * inner, inner, gated);
    for (std::int64_t begin = 0; begin < inner; begin += part)
      norm.apply_part(table, begin, part, gated + begin, gated + begin);
  };
  const FunctionRef<void(std::int64_t, float*)> make(gate);
  const std::array last{Product{&out, to, to_stride, accumulate}};
  multiply(context, {.rows = std::ssize(rows), .cols = inner, .make = &make}, last);
}

ScratchNeed Mamba::scratch(const kernels::KernelTable& table, std::int64_t rows) const {
  constexpr std::uint64_t kRounding = 8 * kCacheLine;
  const auto floats = [](std::int64_t count) { return static_cast<std::uint64_t>(count) * sizeof(float); };
  const std::uint64_t passing =
      std::max({floats(rows * (spec.convolved() + 2 * spec.heads)), prepared_bytes(table, rows, {&in}),
                prepared_bytes(table, rows, {&out})});
  return {kRounding + floats(rows * (spec.projected() + spec.inner())) + passing,
          floats(std::max<std::int64_t>(spec.inner(), in.in_features()))};
}

}  // namespace lithe::layers
