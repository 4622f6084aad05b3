#include "layers/attention.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <tuple>

#include "base/checked.h"

namespace lithe::layers {
namespace {

using kernels::AttentionJob;
using kernels::kKeyBlock;

// Rows x heads of one task: enough to share the conversion of a key block, few enough to balance.
constexpr std::int64_t kTileLines = 192;
constexpr std::int64_t kLeastTileLines = 24;
// Tasks per thread that we cut for.
constexpr std::int64_t kTasksPerThread = 6;
// Partial results of one split task are held in memory: at most this many rows x heads.
constexpr std::int64_t kSplitLines = 64;

// A row tile of one kv head, perhaps cut at key blocks.
struct Tile {
  const AttentionJob* job;
  int kv_head;
  std::int64_t row_begin, row_end;
  std::int64_t block_begin, block_end;        // that hold a visible key
  std::int64_t step = 0;                      // blocks per task
  float* partials = nullptr;                  // null: one task does all
  std::atomic<std::int64_t>* left = nullptr;  // blocks not yet computed

  std::int64_t blocks() const { return block_end - block_begin; }
};
struct Task {
  const Tile* tile;
  std::int64_t block_begin, block_end;
  std::int64_t cost;
};

std::int64_t lines(const Tile& tile) {
  return (tile.row_end - tile.row_begin) * (tile.job->q_heads / tile.job->kv.shape.kv_heads);
}

// In cycles or so: a key costs its way from memory, and arithmetic for every row and head that looks at it.
std::int64_t block_cost(const Tile& tile) {
  const std::int64_t dims = tile.job->kv.shape.key_dim + tile.job->kv.shape.value_dim;
  return kKeyBlock * dims * (6 + lines(tile)) / 32;
}

std::int64_t partial_floats(const Tile& tile) {
  return lines(tile) * (tile.job->kv.shape.value_dim + 2);
}

std::int64_t tile_rows(std::span<const AttentionJob> jobs, const AttentionJob& job, int threads) {
  const std::int64_t group = job.q_heads / job.kv.shape.kv_heads;
  std::int64_t all = 0;
  for (const AttentionJob& other : jobs) all += other.rows * other.kv.shape.kv_heads;
  const std::int64_t wanted = threads > 1 ? all / (threads * kTasksPerThread) : all;
  const std::int64_t most = std::max<std::int64_t>(1, kTileLines / group);
  const std::int64_t least = std::min(most, ceil_div(kLeastTileLines, group));
  return std::clamp(wanted, least, most);
}

// Calls emit(tile) for every row tile of every kv head of every job.
template <typename F>
void cut_rows(std::span<const AttentionJob> jobs, int threads, F emit) {
  for (const AttentionJob& job : jobs) {
    if (job.rows == 0) continue;
    const std::int64_t step = tile_rows(jobs, job, threads);
    for (std::int64_t row = 0; row < job.rows; row += step) {
      const std::int64_t end = std::min(job.rows, row + step);
      const std::int64_t first = kernels::visible_keys(job, row).begin;
      const std::int64_t last = kernels::visible_keys(job, end - 1).end;
      for (int head = 0; head < job.kv.shape.kv_heads; ++head) {
        emit(Tile{&job, head, row, end, first / kKeyBlock,
                  std::max(first / kKeyBlock, ceil_div<std::int64_t>(last, kKeyBlock))});
      }
    }
  }
}

void run_task(const ExecContext& context, const Task& task, std::span<std::byte> scratch) {
  const kernels::AttentionKernels& attention = context.kernels().attention;
  const Tile& tile = *task.tile;
  if (tile.partials == nullptr) {
    attention.flash(*tile.job, tile.kv_head, tile.row_begin, tile.row_end, scratch);
    return;
  }
  const std::int64_t stride = partial_floats(tile);
  for (std::int64_t block = task.block_begin; block < task.block_end; ++block) {
    attention.partial(*tile.job, tile.kv_head, tile.row_begin, tile.row_end, block,
                      tile.partials + (block - tile.block_begin) * stride, scratch);
  }
  const std::int64_t done = task.block_end - task.block_begin;
  if (tile.left->fetch_sub(done, std::memory_order_acq_rel) != done) return;
  attention.merge(*tile.job, tile.kv_head, tile.row_begin, tile.row_end, tile.blocks(), tile.partials,
                  stride);
}

// Blocks per task: all, unless the tile is so heavy that it would leave other threads waiting.
std::int64_t blocks_per_task(const Tile& tile, std::int64_t target_cost, int threads) {
  const std::int64_t blocks = std::max<std::int64_t>(1, tile.blocks());
  if (threads == 1 || lines(tile) > kSplitLines) return blocks;
  return std::clamp<std::int64_t>(target_cost / block_cost(tile), 1, blocks);
}

// The tasks of a batch, heavy ones first; memory from the arena.
std::span<Task> plan(std::span<const AttentionJob> jobs, int threads, ScratchArena& arena) {
  std::int64_t tile_count = 0, total_cost = 0, task_count = 0;
  cut_rows(jobs, threads, [&](const Tile& tile) {
    ++tile_count;
    total_cost += tile.blocks() * block_cost(tile);
  });
  Tile* const tiles = arena.take<Tile>(tile_count);
  const std::int64_t target = std::max<std::int64_t>(1, total_cost / (threads * kTasksPerThread));
  Tile* last = tiles;
  cut_rows(jobs, threads, [&](Tile tile) {
    tile.step = blocks_per_task(tile, target, threads);
    if (tile.step < tile.blocks()) {
      tile.partials = arena.take<float>(tile.blocks() * partial_floats(tile));
      tile.left = new (arena.take_bytes(sizeof(*tile.left))) std::atomic<std::int64_t>(tile.blocks());
    }
    task_count += std::max<std::int64_t>(1, ceil_div(tile.blocks(), tile.step));
    new (last++) Tile(tile);
  });

  Task* const tasks = arena.take<Task>(task_count);
  Task* end = tasks;
  for (const Tile* tile = tiles; tile != last; ++tile) {
    std::int64_t block = tile->block_begin;
    do {
      const std::int64_t stop = std::min(tile->block_end, block + tile->step);
      new (end++) Task{tile, block, stop, (stop - block) * block_cost(*tile)};
      block = stop;
    } while (block < tile->block_end);
  }
  // Among equals neighbours in memory run after each other.
  std::sort(tasks, end, [](const Task& a, const Task& b) {
    return std::tuple(-a.cost, a.tile, a.block_begin) < std::tuple(-b.cost, b.tile, b.block_begin);
  });
  return {tasks, end};
}

void flash(ExecContext& context, std::span<const AttentionJob> jobs) {
  ScratchArena& arena = context.arena();
  const ScratchArena::Scope scope(arena);
  const std::size_t before = arena.used();
  std::size_t scratch = 0;
  for (const AttentionJob& job : jobs) {
    scratch = std::max(scratch, context.kernels().attention.scratch_bytes(job.kv.shape, job.q_heads));
  }
  const std::span<Task> tasks = plan(jobs, context.threads(), arena);
  context.reserve_worker_scratch(scratch);
  context.note_attention_bytes(arena.used() - before + scratch * static_cast<std::size_t>(context.threads()));
  context.pool().parallel_for(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t index, int worker) {
    run_task(context, tasks[static_cast<std::size_t>(index)], context.worker_scratch(worker));
  });
}

// naive and chunked: one task per query head of every job.
void by_head(ExecContext& context, AttentionMode mode, std::span<const AttentionJob> jobs) {
  const kernels::AttentionKernels& attention = context.kernels().attention;
  const auto bytes =
      mode == AttentionMode::naive ? attention.naive_scratch_bytes : attention.chunked_scratch_bytes;
  const auto kernel = mode == AttentionMode::naive ? attention.naive : attention.chunked;
  std::size_t scratch = 0;
  std::int64_t tasks = 0;
  for (const AttentionJob& job : jobs) {
    scratch = std::max(scratch, bytes(job));
    tasks += job.q_heads;
  }
  context.reserve_worker_scratch(scratch);
  context.note_attention_bytes(scratch * static_cast<std::size_t>(context.threads()));
  context.pool().parallel_for(tasks, [&](std::int64_t index, int worker) {
    const AttentionJob* job = jobs.data();
    for (; index >= job->q_heads; ++job) index -= job->q_heads;
    if (job->rows > 0) kernel(*job, static_cast<int>(index), context.worker_scratch(worker));
  });
}

}  // namespace

ScratchNeed attention_scratch(const ExecContext& context, AttentionMode mode, const AttentionJob& job) {
  const kernels::AttentionKernels& attention = context.kernels().attention;
  if (mode == AttentionMode::naive) return {0, attention.naive_scratch_bytes(job)};
  if (mode == AttentionMode::chunked) return {0, attention.chunked_scratch_bytes(job)};
  // A tile holds a row and a head at least. One is split when it is heavier than a task should be, so there are no more
  // of those than tasks wanted.
  const std::int64_t tiles = job.rows * job.kv.shape.kv_heads;
  const std::int64_t split = std::min<std::int64_t>(tiles, context.threads() * kTasksPerThread);
  const std::int64_t blocks = ceil_div<std::int64_t>(job.key_count, kKeyBlock) + 1;
  const std::int64_t lines = std::min(job.rows * job.q_heads, split * kSplitLines);
  const std::int64_t floats = context.threads() > 1 ? lines * blocks * (job.kv.shape.value_dim + 2) : 0;
  const auto bytes =
      static_cast<std::size_t>(floats) * sizeof(float) +
      static_cast<std::size_t>(tiles) * (sizeof(Tile) + sizeof(Task)) +
      static_cast<std::size_t>(split) * (static_cast<std::size_t>(blocks) * sizeof(Task) + 2 * kCacheLine);
  return {bytes + 2 * kCacheLine, attention.scratch_bytes(job.kv.shape, job.q_heads)};
}

void attention(ExecContext& context, AttentionMode mode, std::span<const kernels::AttentionJob> jobs) {
  if (mode == AttentionMode::flash) return flash(context, jobs);
  by_head(context, mode, jobs);
}

}  // namespace lithe::layers
