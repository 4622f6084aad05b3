#include "base/thread_pool.h"

#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"

namespace lithe {
namespace {

// About 50 microseconds: longer than the serial gaps between the steps of one token, shorter than anything
// a person or a power meter would notice.
constexpr int kSpins = 4000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins, then sleeps, until `value` differs from `old`.
template <typename T>
void wait_change(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

struct ThreadPool::Shared {
  alignas(64) std::atomic<std::uint32_t> epoch{0};  // bumped once per run()
  alignas(64) std::atomic<int> running{0};          // helpers still inside the current task
  alignas(64) std::atomic<std::int64_t> next{0};    // parallel_for's counter
  alignas(64) const FunctionRef<void(int)>* task = nullptr;
  bool stop = false;
  std::vector<std::thread> threads;
};

ThreadPool::ThreadPool(int threads) : size_(threads), shared_(std::make_unique<Shared>()) {
  LITHE_CHECK(threads >= 1);
  const auto work = [shared = shared_.get()](int worker) {
    std::uint32_t seen = 0;
    while (true) {
      wait_change(shared->epoch, seen);
      seen = shared->epoch.load(std::memory_order_acquire);
      if (shared->stop) return;
      (*shared->task)(worker);
      if (shared->running.fetch_sub(1, std::memory_order_acq_rel) == 1) shared->running.notify_one();
    }
  };
  try {
    shared_->threads.reserve(static_cast<std::size_t>(threads - 1));
    for (int worker = 1; worker < threads; ++worker) shared_->threads.emplace_back(work, worker);
  } catch (...) {
    stop();  // those that did start
    throw;
  }
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int threads) {
  try {
    return std::make_unique<ThreadPool>(threads);
  } catch (const std::system_error& error) {
    return exhausted("the system does not grant {} threads ({}): take fewer (-t, --threads)", threads,
                     error.code().message());
  } catch (const std::bad_alloc&) {
    return exhausted("no memory for {} threads: take fewer (-t, --threads)", threads);
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  shared_->stop = true;
  shared_->epoch.fetch_add(1, std::memory_order_release);
  shared_->epoch.notify_all();
  for (auto& thread : shared_->threads) thread.join();
}

void ThreadPool::run(FunctionRef<void(int)> task) {
  if (size_ == 1) return task(0);
  Shared& shared = *shared_;
  shared.task = &task;
  shared.running.store(size_ - 1, std::memory_order_relaxed);
  shared.epoch.fetch_add(1, std::memory_order_release);
  shared.epoch.notify_all();
  task(0);
  for (int left = shared.running.load(std::memory_order_acquire); left != 0;
       left = shared.running.load(std::memory_order_acquire)) {
    wait_change(shared.running, left);
  }
}

void ThreadPool::parallel_for(std::int64_t count, FunctionRef<void(std::int64_t, int)> task) {
  if (size_ == 1 || count <= 1) {
    for (std::int64_t index = 0; index < count; ++index) task(index, 0);
    return;
  }
  Shared& shared = *shared_;
  shared.next.store(0, std::memory_order_relaxed);
  run([&](int worker) {
    for (std::int64_t index = shared.next.fetch_add(1, std::memory_order_relaxed); index < count;
         index = shared.next.fetch_add(1, std::memory_order_relaxed)) {
      task(index, worker);
    }
  });
}

}  // namespace lithe
