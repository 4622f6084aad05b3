// The engine's heart: requests in, batches through a model, text out. Knows a model only as a function from a batch to
// logits, so that tests run it against a model of ten lines.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "kernels/kernel_table.h"
#include "models/batch.h"

namespace lithe::engine {

/// Stores and commits the batch's keys and values; logits: [batch.logit_rows.size(), CoreModel::logits].
using Forward = std::function<Status(const models::Batch& batch, std::span<float> logits)>;

struct CoreModel {
  Forward forward;
  std::int64_t logits = 0;                          // a row's length: rows of the embedding
  const tokenizer::Tokenizer* tokenizer = nullptr;  // ids from tokenizer->size() on are padding, never chosen
  const kernels::KernelTable* kernels = nullptr;
  kvcache::PagePool* pool = nullptr;
};

struct CoreOptions {
  SchedulerOptions scheduler;
  std::int64_t max_model_len = 0;
  bool kv_cache = true;
};

class Core {
 public:
  Core(CoreModel model, const CoreOptions& options);

  /// Prices the request before any work. tokens: the prompt. Everything else as in lithe::Engine.
  Result<RequestId> submit(std::vector<std::int32_t> tokens, const Request& request, OnText on_text,
                           OnDone on_done);
  /// What submit() would allow.
  Result<Limits> price(std::span<const std::int32_t> tokens, const Request& request) const;
  void step();
  bool idle() const { return scheduler_.idle(); }
  void cancel(RequestId id);
  EngineStats stats() const;

 private:
  void retire();
  models::Batch build_batch(std::span<const Chunk> plan) const;
  void advance(Sequence& sequence, std::span<float> logits);
  void ban(const Limits& limits, std::int64_t answered, std::span<float> logits) const;
  bool emit(Sequence& sequence, const std::string& text);
  void finish(Sequence& sequence, FinishReason reason, Status status = {});

  CoreModel model_;
  CoreOptions options_;
  std::int64_t choosable_;  // ids below it may be sampled
  Scheduler scheduler_;
  RequestId next_id_ = 1;
  std::vector<float> logits_;
  EngineStats stats_;
  std::mutex cancel_mutex_;
  std::set<RequestId> cancelled_;  // guarded by cancel_mutex_
};

}  // namespace lithe::engine
