// Work on a file behind whoever writes it, in a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "base/status.h"

namespace lithe::hub {

class Follower {
 public:
  /// Bytes [begin, end) of the file are final.
  using Job = std::function<Status(std::uint64_t begin, std::uint64_t end)>;

  /// Calls `job` for every `step` bytes in order, and for the rest. An error ends the work.
  Follower(std::uint64_t size, std::uint64_t step, Job job);
  ~Follower();  // stops after the step at hand
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  /// The first `bytes` of the file are final.
  void available(std::uint64_t bytes);
  /// All `size` bytes are: waits for the last step. Once.
  Status finish();

 private:
  void work();

  std::uint64_t size_, step_;
  Job job_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t available_ = 0, wanted_ = 0;  // with mutex_: wanted_ bytes wake the thread
  bool stop_ = false;
  Status status_;  // the thread's, until it has ended
  std::thread thread_;
};

}  // namespace lithe::hub
