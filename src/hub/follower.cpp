#include "hub/follower.h"

#include <algorithm>
#include <utility>

namespace lithe::hub {

Follower::Follower(std::uint64_t size, std::uint64_t step, Job job)
    : size_(size), step_(step), job_(std::move(job)), thread_([this] { work(); }) {}

Follower::~Follower() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Follower::available(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    available_ = bytes;
    if (available_ < wanted_) return;
  }
  changed_.notify_all();
}

Status Follower::finish() {
  available(size_);
  thread_.join();
  return status_;
}

void Follower::work() {
  for (std::uint64_t done = 0; done < size_;) {
    const std::uint64_t end = std::min(size_, done + step_);
    {
      std::unique_lock lock(mutex_);
      wanted_ = end;
      changed_.wait(lock, [&] { return stop_ || available_ >= end; });
      if (stop_) return;
    }
    status_ = job_(done, end);
    if (!status_.ok()) return;
    done = end;
  }
}

}  // namespace lithe::hub
