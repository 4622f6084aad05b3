// A few threads that wait by spinning: a decoded token crosses some 200 barriers of a microsecond or less,
// which a sleeping thread would turn into milliseconds. After a short idle time they do sleep.
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.h"
#include "base/status.h"

namespace lithe {

/// run() and parallel_for() may be called from one thread at a time, and not from inside a task.
/// The caller is worker 0; a pool of one thread runs everything inline.
class ThreadPool {
 public:
  /// resource_exhausted: the system grants no so many threads (their stacks count against `ulimit -v`).
  static Result<std::unique_ptr<ThreadPool>> create(int threads);
  /// For a number that surely works; throws std::system_error otherwise.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  /// task(worker) once on every worker, 0 <= worker < size(). Returns when all have returned.
  void run(FunctionRef<void(int worker)> task);

  /// task(index, worker) once for each index in [0, count), handed out in ascending order to whichever worker
  /// is free. Which worker runs an index may differ from call to call: results must not depend on it.
  void parallel_for(std::int64_t count, FunctionRef<void(std::int64_t index, int worker)> task);

 private:
  void stop();
  struct Shared;
  int size_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace lithe
