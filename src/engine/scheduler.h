// Who computes what in the next step: continuous batching with chunked prefill.
//
// Every running decode gets its token; what is left of the step's budget goes to prompts, oldest first; a waiting
// request is admitted when pages for all its tokens are free. When a decode finds no page, warm prefixes are dropped,
// then the youngest request is sent back to the queue and recomputed later: the oldest always moves on, and since a
// request that could not fit the whole pool was refused at the door, nothing deadlocks.
// Sources: Orca (OSDI 2022); Sarathi-Serve (2403.02310); PagedAttention (2309.06180) section 4.5.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "engine/sequence.h"
#include "kvcache/kv_pool.h"

namespace lithe::engine {

struct SchedulerOptions {
  int max_num_seqs = 16;
  std::int64_t max_num_batched_tokens = 512;  // at least max_num_seqs
  std::size_t warm_prefixes = 0;
};

/// The next `count` tokens of a sequence; room is reserved.
struct Chunk {
  Sequence* sequence = nullptr;
  std::int64_t count = 0;
};

class Scheduler {
 public:
  Scheduler(kvcache::PagePool& pool, const SchedulerOptions& options) : pool_(&pool), options_(options) {}

  void add(std::unique_ptr<Sequence> sequence) { waiting_.push_back(std::move(sequence)); }
  /// At most max_num_batched_tokens tokens. Empty only when idle.
  const std::vector<Chunk>& plan();
  /// Takes a sequence out, wherever it is; its pages go back, or stay as a warm prefix if keep_warm.
  std::unique_ptr<Sequence> remove(const Sequence& sequence, bool keep_warm);

  bool idle() const { return running_.empty() && waiting_.empty(); }
  const std::vector<std::unique_ptr<Sequence>>& running() const { return running_; }
  const std::deque<std::unique_ptr<Sequence>>& waiting() const { return waiting_; }
  std::int64_t preemptions() const { return preemptions_; }
  std::size_t warm() const { return warm_.size(); }

 private:
  struct Warm {
    std::vector<std::int32_t> tokens;
    kvcache::SequenceCache cache;
  };

  void schedule(Sequence& sequence);
  bool planned(const Sequence& sequence) const;
  bool make_room(Sequence& sequence, std::int64_t count);
  bool reserve_dropping_warm(Sequence& sequence, std::int64_t count);
  bool admit_one();
  void use_warm_prefix(Sequence& sequence);
  void preempt_youngest();

  kvcache::PagePool* pool_;
  SchedulerOptions options_;
  std::deque<std::unique_ptr<Sequence>> waiting_;   // oldest first
  std::vector<std::unique_ptr<Sequence>> running_;  // by admission, oldest first
  std::list<Warm> warm_;                            // most recently used first
  std::int64_t preemptions_ = 0;
  std::vector<Chunk> plan_;  // of the step being planned
  std::int64_t budget_ = 0;  // tokens it may still take
};

}  // namespace lithe::engine
