// What every layer needs to run: threads, kernels, scratch, and the one hook that looks inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/kernel_table.h"
#include "layers/memory.h"
#include "layers/shares.h"

namespace lithe::layers {

/// Sees activations as they pass: calibration (GPTQ, AWQ), expert statistics, sparsity, profiling. All views
/// are borrowed for the call, which comes from the thread that runs forward(), outside any parallel region.
class Observer {
 public:
  virtual ~Observer() = default;
  /// x: [rows, cols], rows `stride` floats apart: what the matrix `linear_id` (Linear::id()) is about to
  /// multiply.
  virtual void on_linear_input(int /*linear_id*/, const float* /*x*/, std::int64_t /*rows*/,
                               std::int64_t /*cols*/, std::int64_t /*stride*/) {}
  /// logits: [rows, experts], before the choice.
  virtual void on_router(int /*layer*/, const float* /*logits*/, std::int64_t /*rows*/,
                         std::int64_t /*experts*/) {}
  /// x: [rows, hidden]: the residual stream after `layer`.
  virtual void on_layer_output(int /*layer*/, const float* /*x*/, std::int64_t /*rows*/,
                               std::int64_t /*hidden*/) {}
};

/// Bytes of scratch that a pass takes at most.
struct ScratchNeed {
  std::uint64_t arena = 0;       // shared
  std::uint64_t per_worker = 0;  // of each thread
};

/// One per model; used by one forward pass at a time. The pool must outlive it.
class ExecContext {
 public:
  static constexpr std::size_t kLeastWorkerScratch = std::size_t{256} << 10;

  ExecContext(ThreadPool& pool, const kernels::KernelTable& kernels);

  ThreadPool& pool() const { return *pool_; }
  int threads() const { return pool_->size(); }
  const kernels::KernelTable& kernels() const { return *kernels_; }
  ScratchArena& arena() { return arena_; }

  /// Each worker's own scratch for the next parallel region, at least `bytes` big, 64-byte aligned. Call
  /// reserve outside of regions; contents do not survive it. std::bad_alloc, as operator new.
  void reserve_worker_scratch(std::size_t bytes);
  /// Both kinds of scratch at once, before a run: its passes then take none on their way. resource_exhausted.
  Status reserve(const ScratchNeed& need);
  std::span<std::byte> worker_scratch(int worker) {
    const PageBuffer& buffer = worker_scratch_[static_cast<std::size_t>(worker)];
    return {buffer.data(), buffer.size()};
  }

  /// Hands out the units of the next region; see WorkShares::deal().
  WorkShares& shares() { return shares_; }

  Observer* observer() const { return observer_; }  // null: nobody looks
  void set_observer(Observer* observer) { observer_ = observer; }

  /// What passes took of the arena at most, and what the workers hold.
  std::uint64_t peak_scratch_bytes() const {
    return arena_.high_water() + worker_bytes_ * worker_scratch_.size();
  }
  /// The largest scratch that attention took in one call, for `bench` and `inspect`.
  std::uint64_t peak_attention_bytes() const { return peak_attention_bytes_; }
  void note_attention_bytes(std::uint64_t bytes) {
    if (bytes > peak_attention_bytes_) peak_attention_bytes_ = bytes;
  }
  void reset_peak_attention_bytes() { peak_attention_bytes_ = 0; }

 private:
  Status grow_worker_scratch(std::size_t bytes);

  ThreadPool* pool_;
  const kernels::KernelTable* kernels_;
  ScratchArena arena_;
  WorkShares shares_;
  std::vector<PageBuffer> worker_scratch_;  // [threads]
  std::size_t worker_bytes_ = 0;
  Observer* observer_ = nullptr;
  std::uint64_t peak_attention_bytes_ = 0;
};

}  // namespace lithe::layers
