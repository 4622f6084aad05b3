#include "layers/linear.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "layers/prepared.h"
#include "layers/shares.h"

namespace lithe::layers {
namespace {

using kernels::Arithmetic;
using kernels::kPanelRows;
using kernels::MatmulJob;

constexpr std::size_t kMaxGroup = 4;

// Rows of a task. Kernels cut the columns so that as many rows stay in a core's second-level cache while panels of
// weights stream by: fewer rows would only unpack, and read, every weight more often.
constexpr std::int64_t kMostBlockRows = 512, kLeastBlockRows = 48;
// Tasks a thread should find at least, where there are rows to cut for it.
constexpr std::int64_t kUnitsPerThread = 4;
// Products of one task, so that an epilogue finds them in the second-level cache.
constexpr std::int64_t kTaskOutputBytes = std::int64_t{256} << 10;
// Of a stored matrix, packed at a time: bounds what is in memory twice.
constexpr std::size_t kPackBytes = std::size_t{1} << 20;

// How a group is cut: row blocks by pairs of panels. The cut never changes a bit of the result.
struct Cut {
  std::int64_t row_block = 0, row_blocks = 0;
  std::int64_t panels = 0, columns = 0;  // panels and units of all matrices in line, or of each side by side
  std::int64_t most = 0;                 // units a task

  std::int64_t units() const { return row_blocks * columns; }
};

Cut choose_cut(std::int64_t rows, std::int64_t panels, std::int64_t outputs, int threads) {
  Cut cut;
  cut.panels = panels;
  cut.columns = ceil_div(panels, kUnitPanels);
  const std::int64_t wanted = threads > 1 ? ceil_div(threads * kUnitsPerThread, cut.columns) : 1;
  cut.row_blocks =
      std::max(ceil_div(rows, kMostBlockRows), std::min(wanted, ceil_div(rows, kLeastBlockRows)));
  cut.row_block = ceil_div(rows, cut.row_blocks);
  cut.most =
      kTaskOutputBytes / (cut.row_block * kUnitPanels * kPanelRows * outputs * std::int64_t{sizeof(float)});
  return cut;
}

}  // namespace

Arithmetic choose_arithmetic(DType dtype, const kernels::KernelTable& kernels, bool full) {
  if (full) return Arithmetic::f32;
  if (block_format(dtype).quantized()) return Arithmetic::int8;
  return dtype == DType::bf16 && kernels.has_bf16 ? Arithmetic::bf16 : Arithmetic::f32;
}

std::size_t Linear::packed_bytes(DType dtype, std::int64_t rows, std::int64_t cols) {
  const std::size_t panels = static_cast<std::size_t>(ceil_div<std::int64_t>(rows, kPanelRows));
  return WeightMemory::padded(panels * kernels::packed_panel_bytes(dtype, cols));
}

namespace {

// `count` stored rows in the layout of the type they run as: as they are, or recoded in `recoded`.
std::span<const std::byte> rows_to_pack(const StoredMatrix& stored, std::int64_t first, int count,
                                        std::vector<std::byte>& recoded) {
  const BlockFormat& from = stored.format != nullptr ? *stored.format : block_format(stored.dtype);
  const BlockFormat& to = block_format(stored.dtype);
  const auto cols = static_cast<std::uint64_t>(stored.cols);
  const std::size_t stride = *row_bytes(from, cols), bytes = stride * static_cast<std::size_t>(count);
  const auto rows = stored.data.subspan(stride * static_cast<std::size_t>(first), bytes);
  if (&from == &to) return rows;
  std::vector<float> values(cols * static_cast<std::size_t>(count));
  from.decode(rows.data(), std::ssize(values), values.data());
  recoded.resize(*row_bytes(to, cols) * static_cast<std::size_t>(count));
  to.encode(values.data(), std::ssize(values), recoded.data());
  return recoded;
}

}  // namespace

Linear Linear::pack(const StoredMatrix& stored, Arithmetic arithmetic, WeightMemory& memory, ThreadPool& pool,
                    const PackedPart* packed) {
  const auto cols = static_cast<std::uint64_t>(stored.cols);
  const auto stride =
      stored.format != nullptr ? row_bytes(*stored.format, cols) : row_bytes(stored.dtype, cols);
  LITHE_CHECK(stride && stored.rows > 0 &&
              stored.data.size() == *stride * static_cast<std::size_t>(stored.rows));
  Linear linear;
  linear.arithmetic_ = arithmetic;
  linear.weights_ = {stored.dtype, stored.rows, stored.cols,
                     memory.take(packed_bytes(stored.dtype, stored.rows, stored.cols)),
                     kernels::packed_panel_bytes(stored.dtype, stored.cols)};
  auto* const out = const_cast<std::byte*>(linear.weights_.data);  // ours until we return
  const std::int64_t panels = linear.weights_.panels();
  const std::size_t panel_source = *stride * kPanelRows;
  const std::int64_t most = std::max<std::int64_t>(1, static_cast<std::int64_t>(kPackBytes / panel_source));
  const std::int64_t share = std::min(most, ceil_div<std::int64_t>(panels, 4 * pool.size()));
  pool.parallel_for(ceil_div(panels, share), [&](std::int64_t task, int) {
    const std::int64_t begin = task * share, end = std::min(begin + share, panels);
    std::vector<std::byte> recoded;
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t first = panel * kPanelRows;
      const auto count = static_cast<int>(std::min<std::int64_t>(kPanelRows, stored.rows - first));
      const auto rows = rows_to_pack(stored, first, count, recoded);
      kernels::pack_panel(stored.dtype, rows.data(), rows.size() / static_cast<std::size_t>(count), count,
                          stored.cols, out + static_cast<std::size_t>(panel) * linear.weights_.panel_bytes);
    }
    if (packed == nullptr || share < most) return;  // too little to be worth a system call
    const std::size_t from = static_cast<std::size_t>(begin) * panel_source;
    const std::size_t to = std::min(static_cast<std::size_t>(end) * panel_source, stored.data.size());
    (*packed)(stored.data.subspan(from, to - from));
  });
  return linear;
}

void Linear::set_bias(std::vector<float> bias) {
  LITHE_CHECK(static_cast<std::int64_t>(bias.size()) == out_features());
  bias_ = std::move(bias);
}

void Linear::describe(int id, std::string name, ShardRole role) {
  id_ = id;
  name_ = std::move(name);
  shard_role_ = role;
}

void multiply(ExecContext& context, const LinearInput& input, std::span<const Product> products,
              const ProductEpilogue* epilogue) {
  if (input.rows == 0) return;
  LITHE_CHECK(!products.empty() && products.size() <= kMaxGroup);
  const bool side_by_side = epilogue != nullptr;
  std::int64_t panels = 0;
  for (const Product& product : products) {
    LITHE_CHECK(product.linear->in_features() == input.cols);
    LITHE_CHECK(!side_by_side || product.linear->out_features() == products[0].linear->out_features());
    panels += product.linear->weights().panels();
  }
  if (side_by_side) panels = products[0].linear->weights().panels();

  ScratchArena::Scope scope(context.arena());
  const kernels::KernelTable& table = context.kernels();
  std::vector<Arithmetic> wanted;
  for (const Product& product : products) wanted.push_back(product.linear->arithmetic());
  const PreparedInput prepared = prepare_input(context, input, wanted);
  if (Observer* observer = context.observer()) {
    for (const Product& product : products) {
      observer->on_linear_input(product.linear->id(), prepared.x, input.rows, input.cols, prepared.stride);
    }
  }
  context.reserve_worker_scratch(table.matmul_scratch_bytes());
  const Cut cut = choose_cut(input.rows, panels, side_by_side ? std::ssize(products) : 1, context.threads());

  const auto run_product = [&](const Product& product, std::int64_t row_begin, std::int64_t row_end,
                               std::int64_t panel_begin, std::int64_t panel_end, int worker) {
    const Linear& linear = *product.linear;
    table.matmul(MatmulJob{.weights = linear.weights(),
                           .x = prepared.form(linear.arithmetic()),
                           .bias = linear.bias(),
                           .out = product.out,
                           .out_stride = product.out_stride,
                           .accumulate = product.accumulate,
                           .row_begin = row_begin,
                           .row_end = row_end,
                           .panel_begin = panel_begin,
                           .panel_end = panel_end,
                           .scratch = context.worker_scratch(worker)});
  };
  // Panels [begin, end) of one row block.
  const auto run_panels = [&](std::int64_t row_begin, std::int64_t begin, std::int64_t end, int worker) {
    const std::int64_t row_end = std::min(row_begin + cut.row_block, input.rows);
    if (side_by_side) {
      for (const Product& product : products) run_product(product, row_begin, row_end, begin, end, worker);
      (*epilogue)(row_begin, row_end, begin* kPanelRows,
                  std::min(end * kPanelRows, products[0].linear->out_features()));
      return;
    }
    std::int64_t first = 0;  // of this matrix among all panels in line
    for (const Product& product : products) {
      const std::int64_t count = product.linear->weights().panels();
      const std::int64_t from = std::max(begin, first), to = std::min(end, first + count);
      if (from < to) run_product(product, row_begin, row_end, from - first, to - first, worker);
      first += count;
    }
  };
  WorkShares& shares = context.shares();
  shares.deal(cut.units(), cut.most);
  context.pool().run([&](int worker) {
    for (UnitRange units = shares.take(worker); !units.empty(); units = shares.take(worker)) {
      while (!units.empty()) {
        const std::int64_t block = units.begin / cut.columns;
        const std::int64_t stop = std::min(units.end, (block + 1) * cut.columns);
        run_panels(block * cut.row_block, (units.begin - block * cut.columns) * kUnitPanels,
                   std::min((stop - block * cut.columns) * kUnitPanels, cut.panels), worker);
        units.begin = stop;
      }
    }
  });
}

}  // namespace lithe::layers
