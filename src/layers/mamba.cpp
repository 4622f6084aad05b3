#include "layers/mamba.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace lithe::layers {
namespace {

constexpr int kMostTaps = 16;

// log(1 + exp(x)), as Transformers has it: beyond 20 it is x.
float softplus(float x) {
  return x > 20.0f ? x : std::log1p(std::exp(x));
}

}  // namespace

void Mamba::run(ExecContext& context, const LinearInput& input, std::span<const MambaRun> runs, float* to,
                std::int64_t to_stride, bool accumulate) const {
  LITHE_CHECK(spec.taps >= 1 && spec.taps <= kMostTaps);
  ScratchArena::Scope scope(context.arena());
  const kernels::KernelTable& table = context.kernels();
  const std::int64_t inner = spec.inner(), width = spec.convolved(), past = spec.taps - 1;
  const std::int64_t stride = spec.projected(), rows = input.rows;
  float* const projected = context.arena().take<float>(rows * stride);
  float* const convolved = context.arena().take<float>(rows * width);
  float* const mixed = context.arena().take<float>(rows * inner);
  const std::array first{Product{&in, projected, stride}};
  multiply(context, input, first);

  // Tap t of row r is t - (taps - 1) tokens ahead of it: a row of this batch, or one that the state remembers.
  for (const MambaRun& run : runs) {
    context.pool().parallel_for(run.count, [&](std::int64_t row, int) {
      std::array<const float*, kMostTaps> seen{};
      for (std::int64_t tap = 0; tap <= past; ++tap) {
        const std::int64_t at = row + tap - past;
        seen[static_cast<std::size_t>(tap)] =
            at >= 0 ? projected + (run.begin + at) * stride + inner : run.state + (past + at) * width;
      }
      table.causal_conv(seen.data(), conv.data(), conv_bias.empty() ? nullptr : conv_bias.data(), spec.taps,
                        width, convolved + (run.begin + row) * width);
    });
  }
  const std::int64_t heads = spec.heads, heads_of_group = heads / spec.groups;
  context.pool().parallel_for(std::ssize(runs) * heads, [&](std::int64_t task, int worker) {
    const MambaRun& run = runs[static_cast<std::size_t>(task / heads)];
    const std::int64_t head = task % heads, group = head / heads_of_group;
    const auto at = static_cast<std::size_t>(head);
    float* const state = run.state + past * width + head * spec.head_dim * spec.state;
    auto* const x = reinterpret_cast<float*>(context.worker_scratch(worker).data());
    for (std::int64_t row = run.begin; row < run.begin + run.count; ++row) {
      const float* const values = convolved + row * width;
      const float step = softplus(projected[row * stride + inner + width + head] + step_bias[at]);
      float* const y = mixed + row * inner + head * spec.head_dim;
      for (int i = 0; i < spec.head_dim; ++i) x[i] = step * values[head * spec.head_dim + i];
      table.state_step(state, x, values + inner + group * spec.state,
                       values + inner + (spec.groups + group) * spec.state, std::exp(step * decay[at]),
                       spec.head_dim, spec.state, y);
      for (int i = 0; i < spec.head_dim; ++i) y[i] += skip[at] * values[head * spec.head_dim + i];
    }
  });
  for (const MambaRun& run : runs) {  // the newest rows before the convolution, for the next tokens
    for (std::int64_t i = 0; i < past; ++i) {
      const std::int64_t at = run.count - past + i;
      const float* const from =
          at >= 0 ? projected + (run.begin + at) * stride + inner : run.state + (past + at) * width;
      std::copy_n(from, width, run.state + i * width);
    }
  }

  const auto gate = [&](std::int64_t row, float* gated) {
    table.activate(kernels::Activation::silu, projected + row * stride, mixed + row * inner, inner, gated);
    const std::int64_t part = inner / spec.groups;
    for (std::int64_t begin = 0; begin < inner; begin += part)
      norm.apply_part(table, begin, part, gated + begin, gated + begin);
  };
  const FunctionRef<void(std::int64_t, float*)> make(gate);
  const std::array last{Product{&out, to, to_stride, accumulate}};
  multiply(context, {.rows = rows, .cols = inner, .make = &make}, last);
}

ScratchNeed Mamba::scratch(const kernels::KernelTable& table, std::int64_t rows) const {
  constexpr std::uint64_t kRounding = 8 * kCacheLine;
  const auto floats = [](std::int64_t count) { return static_cast<std::uint64_t>(count) * sizeof(float); };
  const auto prepared = [&](const Linear& linear) {
    return static_cast<std::uint64_t>(rows) *
           table.activation_bytes(linear.arithmetic(), linear.in_features());
  };
  return {kRounding + floats(rows * (spec.projected() + spec.convolved() + spec.inner())) +
              std::max(prepared(in), prepared(out)),
          floats(std::max<std::int64_t>(spec.inner(), in.in_features()))};
}

}  // namespace lithe::layers
