#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace lithe {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST_P(ThreadPoolTest, RunReachesEveryWorkerOnce) {
  ThreadPool pool(GetParam());
  std::vector<int> hits(static_cast<std::size_t>(pool.size()), 0);
  for (int round = 0; round < 2000; ++round)
    pool.run([&](int worker) { ++hits[static_cast<std::size_t>(worker)]; });
  for (const int count : hits) EXPECT_EQ(count, 2000);
}

TEST_P(ThreadPoolTest, ParallelForVisitsEachIndexOnce) {
  ThreadPool pool(GetParam());
  for (std::int64_t count : {0, 1, 2, 7, 100}) {
    std::vector<int> hits(static_cast<std::size_t>(count), 0);
    pool.parallel_for(count, [&](std::int64_t index, int) { ++hits[static_cast<std::size_t>(index)]; });
    EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), 0), count);
  }
}

TEST_P(ThreadPoolTest, WakesAfterSleeping) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::vector<int> hits(static_cast<std::size_t>(pool.size()), 0);
    pool.run([&](int worker) { hits[static_cast<std::size_t>(worker)] = 1; });
    for (const int hit : hits) EXPECT_EQ(hit, 1);
  }
}

}  // namespace
}  // namespace lithe
