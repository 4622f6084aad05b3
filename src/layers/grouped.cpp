#include "layers/grouped.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "layers/prepared.h"

namespace lithe::layers {
namespace {

// Rows of a task: as many as stay in a core's second-level cache while weights stream by.
constexpr std::int64_t kBlockRows = 256;

// A group's rows in blocks that fit.
struct Block {
  const RowGroup* group = nullptr;
  std::int64_t begin = 0, end = 0;
};

std::vector<Block> cut(std::span<const RowGroup> groups) {
  std::vector<Block> blocks;
  for (const RowGroup& group : groups) {
    for (std::int64_t begin = group.begin; begin < group.end; begin += kBlockRows) {
      blocks.push_back({&group, begin, std::min(begin + kBlockRows, group.end)});
    }
  }
  return blocks;
}

void tell(Observer& observer, const PreparedInput& prepared, std::int64_t cols,
          std::span<const RowGroup> groups, std::size_t outputs) {
  for (const RowGroup& group : groups) {
    if (group.begin == group.end) continue;
    for (std::size_t i = 0; i < outputs; ++i) {
      observer.on_linear_input(group.linears[i]->id(), prepared.x + group.begin * prepared.stride,
                               group.end - group.begin, cols, prepared.stride);
    }
  }
}

}  // namespace

void multiply_grouped(ExecContext& context, const LinearInput& input, std::span<const RowGroup> groups,
                      std::span<const GroupedOutput> outputs, const ProductEpilogue* epilogue) {
  if (input.rows == 0) return;
  LITHE_CHECK(!groups.empty() && !outputs.empty() && outputs.size() <= RowGroup{}.linears.size());
  ScratchArena::Scope scope(context.arena());
  const kernels::KernelTable& table = context.kernels();
  std::vector<kernels::Arithmetic> wanted;
  for (const RowGroup& group : groups) {
    for (std::size_t i = 0; i < outputs.size(); ++i) wanted.push_back(group.linears[i]->arithmetic());
  }
  const PreparedInput prepared = prepare_input(context, input, wanted);
  if (Observer* observer = context.observer()) tell(*observer, prepared, input.cols, groups, outputs.size());
  context.reserve_worker_scratch(table.matmul_scratch_bytes());

  const std::vector<Block> blocks = cut(groups);
  const std::int64_t rows = groups.front().linears[0]->out_features();
  const std::int64_t panels = groups.front().linears[0]->weights().panels();
  const std::int64_t columns = ceil_div(panels, kUnitPanels);
  // Panels [begin, end) of one block.
  const auto run = [&](const Block& block, std::int64_t begin, std::int64_t end, int worker) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Linear& linear = *block.group->linears[i];
      table.matmul(kernels::MatmulJob{.weights = linear.weights(),
                                      .x = prepared.form(linear.arithmetic()),
                                      .bias = linear.bias(),
                                      .out = outputs[i].out,
                                      .out_stride = outputs[i].stride,
                                      .row_begin = block.begin,
                                      .row_end = block.end,
                                      .panel_begin = begin,
                                      .panel_end = end,
                                      .scratch = context.worker_scratch(worker)});
    }
    if (epilogue != nullptr) {
      (*epilogue)(block.begin, block.end, begin* kernels::kPanelRows,
                  std::min(end * kernels::kPanelRows, rows));
    }
  };
  WorkShares& shares = context.shares();
  shares.deal(std::ssize(blocks) * columns, columns);
  context.pool().run([&](int worker) {
    for (UnitRange units = shares.take(worker); !units.empty(); units = shares.take(worker)) {
      while (!units.empty()) {
        const std::int64_t block = units.begin / columns;
        const std::int64_t stop = std::min(units.end, (block + 1) * columns);
        run(blocks[static_cast<std::size_t>(block)], (units.begin - block * columns) * kUnitPanels,
            std::min((stop - block * columns) * kUnitPanels, panels), worker);
        units.begin = stop;
      }
    }
  });
}

}  // namespace lithe::layers
