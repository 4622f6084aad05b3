#include "layers/moe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "base/checked.h"
#include "layers/grouped.h"
#include "layers/prepared.h"

namespace lithe::layers {
namespace {

// Rows that a worker finds experts for at a time.
constexpr std::int64_t kRouteRows = 32;

// Where each choice lies, experts one after another and rows ascending in each.
void place(const RouterRule& rule, Routing& routing) {
  routing.begin.assign(static_cast<std::size_t>(rule.experts) + 1, 0);
  for (const ExpertChoice& choice : routing.choices)
    ++routing.begin[static_cast<std::size_t>(choice.expert) + 1];
  std::partial_sum(routing.begin.begin(), routing.begin.end(), routing.begin.begin());
  std::vector<std::int64_t> next(routing.begin.begin(), routing.begin.end() - 1);
  routing.row_of.resize(routing.choices.size());
  routing.slot_of.resize(routing.choices.size());
  for (std::size_t i = 0; i < routing.choices.size(); ++i) {
    const std::int64_t slot = next[static_cast<std::size_t>(routing.choices[i].expert)]++;
    routing.slot_of[i] = slot;
    routing.row_of[static_cast<std::size_t>(slot)] = static_cast<std::int64_t>(i) / rule.used;
  }
}

// The experts that have tokens, with their slots.
std::vector<RowGroup> groups_of(const Routing& routing, std::span<const Linear> first,
                                std::span<const Linear> second) {
  std::vector<RowGroup> groups;
  for (std::size_t i = 0; i + 1 < routing.begin.size(); ++i) {
    if (routing.begin[i] == routing.begin[i + 1]) continue;
    groups.push_back(
        {routing.begin[i], routing.begin[i + 1], {&first[i], second.empty() ? nullptr : &second[i]}});
  }
  return groups;
}

}  // namespace

Routing Moe::route(ExecContext& context, int layer, const LinearInput& input) const {
  ScratchArena::Scope scope(context.arena());
  const std::int64_t rows = input.rows, experts = rule.experts, used = rule.used;
  float* const logits = context.arena().take<float>(rows * experts);
  const std::array routed{Product{&router, logits, experts}};
  multiply(context, input, routed);
  if (Observer* observer = context.observer()) observer->on_router(layer, logits, rows, experts);
  Routing routing;
  routing.choices.resize(static_cast<std::size_t>(rows * used));
  const auto choose = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      choose_experts(rule, {logits + row * experts, static_cast<std::size_t>(experts)}, choice_bias,
                     std::span(routing.choices)
                         .subspan(static_cast<std::size_t>(row * used), static_cast<std::size_t>(used)));
    }
  };
  if (rows <= kRouteRows) {
    choose(0, rows);
  } else {
    context.pool().parallel_for(ceil_div(rows, kRouteRows), [&](std::int64_t part, int) {
      choose(part * kRouteRows, std::min((part + 1) * kRouteRows, rows));
    });
  }
  place(rule, routing);
  return routing;
}

void Moe::run(ExecContext& context, int layer, const LinearInput& input, float* out, std::int64_t out_stride,
              bool accumulate) const {
  ScratchArena::Scope scope(context.arena());
  const kernels::KernelTable& table = context.kernels();
  const std::int64_t hidden = input.cols, rows = input.rows, width = up.front().out_features();
  const std::int64_t slots = rows * rule.used;

  // The input is read by the router, by each expert and by the shared one: made once.
  float* const x = context.arena().take<float>(rows * hidden);
  context.pool().parallel_for(rows, [&](std::int64_t row, int) {
    if (input.make != nullptr) {
      (*input.make)(row, x + row * hidden);
    } else {
      std::copy_n(input.x + row * input.stride, hidden, x + row * hidden);
    }
  });
  const LinearInput made{.x = x, .stride = hidden, .rows = rows, .cols = hidden};

  const Routing routing = route(context, layer, made);

  float* const gated = context.arena().take<float>(slots * width);
  float* const raised = context.arena().take<float>(slots * width);
  float* const given = context.arena().take<float>(slots * hidden);
  const auto gather = [&](std::int64_t slot, float* to) {
    std::copy_n(x + routing.row_of[static_cast<std::size_t>(slot)] * hidden, hidden, to);
  };
  const auto apply_gate = [&](std::int64_t row_begin, std::int64_t row_end, std::int64_t begin,
                              std::int64_t end) {
    for (std::int64_t row = row_begin; row < row_end; ++row) {
      float* const values = gated + row * width + begin;
      table.activate(activation, values, raised + row * width + begin, end - begin, values);
    }
  };
  const FunctionRef<void(std::int64_t, float*)> make(gather);
  const ProductEpilogue epilogue(apply_gate);
  const std::array inner{GroupedOutput{gated, width}, GroupedOutput{raised, width}};
  multiply_grouped(context, {.rows = slots, .cols = hidden, .make = &make}, groups_of(routing, gate, up),
                   inner, &epilogue);
  const std::array outer{GroupedOutput{given, hidden}};
  multiply_grouped(context, {.x = gated, .stride = width, .rows = slots, .cols = width},
                   groups_of(routing, down, {}), outer);

  float* const common = shared.up ? context.arena().take<float>(rows * hidden) : nullptr;
  float* const weight = shared_gate ? context.arena().take<float>(rows) : nullptr;
  if (common != nullptr) shared.run(context, made, common, hidden, false);
  if (weight != nullptr) {
    const std::array weighed{Product{&shared_gate, weight, 1}};
    multiply(context, made, weighed);
  }
  context.pool().parallel_for(rows, [&](std::int64_t row, int) {
    float* const to = out + row * out_stride;
    if (!accumulate) std::fill_n(to, hidden, 0.0f);
    for (std::int64_t i = row * rule.used; i < (row + 1) * rule.used; ++i) {
      float* const from = given + routing.slot_of[static_cast<std::size_t>(i)] * hidden;
      table.scale(from, routing.choices[static_cast<std::size_t>(i)].weight, hidden);
      table.add(to, from, hidden);
    }
    if (common == nullptr) return;
    float* const from = common + row * hidden;
    if (weight != nullptr) table.scale(from, 1.0f / (1.0f + std::exp(-weight[row])), hidden);
    table.add(to, from, hidden);
  });
}

ScratchNeed Moe::scratch(const kernels::KernelTable& table, std::int64_t rows) const {
  constexpr std::uint64_t kRounding = 16 * kCacheLine;
  const auto floats = [](std::int64_t count) { return static_cast<std::uint64_t>(count) * sizeof(float); };
  const std::int64_t hidden = router.in_features(), width = up.front().out_features(),
                     slots = rows * rule.used;
  ScratchNeed need{kRounding, floats(std::max(hidden, width))};
  const std::uint64_t kept = floats(rows * (hidden + rule.experts) + slots * (2 * width + hidden));
  std::uint64_t passing = std::max({prepared_bytes(table, rows, {&router}),
                                    prepared_bytes(table, slots, {&gate.front(), &up.front()}),
                                    prepared_bytes(table, slots, {&down.front()})});
  std::uint64_t common = 0;
  if (shared.up) {
    common = floats(rows * (hidden + 1));
    const std::int64_t wide = shared.up.out_features();
    passing =
        std::max({passing,
                  floats(2 * rows * wide) + std::max(prepared_bytes(table, rows, {&shared.gate, &shared.up}),
                                                     prepared_bytes(table, rows, {&shared.down})),
                  prepared_bytes(table, rows, {&shared_gate})});
    need.per_worker = std::max(need.per_worker, floats(wide));
  }
  need.arena += kept + common + passing;
  return need;
}

}  // namespace lithe::layers
