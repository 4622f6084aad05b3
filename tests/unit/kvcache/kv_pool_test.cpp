#include "kvcache/kv_pool.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <list>
#include <vector>

#include "base/rng.h"

namespace lithe::kvcache {
namespace {

constexpr std::size_t kPageBytes = 256;

PagePool make_pool(std::int64_t pages, int tokens = 4) {
  auto pool = PagePool::create(kPageBytes, pages, tokens);
  EXPECT_TRUE(pool.ok()) << pool.status().message();
  return std::move(pool).value();
}

TEST(PagePoolTest, RefusesImpossibleSizes) {
  EXPECT_EQ(PagePool::create(0, 4, 4).status().code(), Code::invalid_argument);
  EXPECT_EQ(PagePool::create(100, 4, 4).status().code(), Code::invalid_argument);
  EXPECT_EQ(PagePool::create(64, 0, 4).status().code(), Code::invalid_argument);
  EXPECT_EQ(PagePool::create(64, -1, 4).status().code(), Code::invalid_argument);
  EXPECT_EQ(PagePool::create(64, std::int64_t{1} << 40, 4).status().code(), Code::invalid_argument);
  EXPECT_EQ(PagePool::create(64, 4, 0).status().code(), Code::invalid_argument);
  EXPECT_EQ(PagePool::create(std::size_t{1} << 60, 64, 4).status().code(), Code::resource_exhausted);
  EXPECT_EQ(PagePool::create(std::size_t{1} << 50, 8, 4).status().code(), Code::resource_exhausted);
}

TEST(PagePoolTest, PagesAreZeroAtFirstUseAndRunOut) {
  PagePool pool = make_pool(3);
  std::vector<PageId> pages;
  for (int i = 0; i < 3; ++i) {
    auto page = pool.allocate();
    ASSERT_TRUE(page.ok());
    pages.push_back(*page);
    EXPECT_EQ(pool.data(*page), pool.base() + static_cast<std::size_t>(*page) * kPageBytes);
    for (std::size_t byte = 0; byte < kPageBytes; ++byte) ASSERT_EQ(pool.data(*page)[byte], std::byte{0});
    std::memset(pool.data(*page), 0xab, kPageBytes);
  }
  EXPECT_EQ(pool.free(), 0);
  EXPECT_EQ(pool.allocate().status().code(), Code::resource_exhausted);
  pool.retain(pages[1]);
  pool.release(pages[1]);
  EXPECT_EQ(pool.free(), 0);
  pool.release(pages[1]);
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(pool.peak_used(), 3);
  EXPECT_TRUE(pool.check_integrity().ok());
}

TEST(PagePoolDeathTest, ProgrammersFaultsAreCaught) {
  PagePool pool = make_pool(2);
  EXPECT_DEATH(pool.release(0), "count");
  EXPECT_DEATH(pool.retain(0), "count");
  EXPECT_DEATH(pool.release(2), "page");
  EXPECT_DEATH(pool.release(-1), "page");
  SequenceCache cache(pool);
  EXPECT_DEATH(cache.commit(1), "commit|length");
  EXPECT_DEATH(cache.truncate(1), "length");
}

TEST(SequenceCacheTest, GrowsByPagesAndGivesThemBack) {
  PagePool pool = make_pool(4);
  {
    SequenceCache cache(pool);
    ASSERT_TRUE(cache.reserve(4).ok());
    EXPECT_EQ(cache.pages().size(), 1u);
    cache.commit(4);
    ASSERT_TRUE(cache.reserve(1).ok());
    EXPECT_EQ(cache.pages().size(), 2u);
    ASSERT_TRUE(cache.reserve(1).ok());  // the same room again
    EXPECT_EQ(cache.pages().size(), 2u);
    cache.commit(1);
    cache.truncate(4);
    EXPECT_EQ(cache.pages().size(), 1u);
    EXPECT_EQ(cache.length(), 4);
    ASSERT_TRUE(cache.reserve(12).ok());
    cache.commit(12);
    const Status full = cache.reserve(1);
    EXPECT_EQ(full.code(), Code::resource_exhausted);
    EXPECT_EQ(cache.pages().size(), 4u);
    EXPECT_EQ(cache.reserve(INT64_MAX).code(), Code::resource_exhausted);
    SequenceCache moved = std::move(cache);
    EXPECT_EQ(moved.length(), 16);
    EXPECT_EQ(pool.free(), 0);
  }
  EXPECT_EQ(pool.free(), 4);
  EXPECT_TRUE(pool.check_integrity().ok());
}

TEST(SequenceCacheTest, ForkSharesCommittedTokensOnly) {
  PagePool pool = make_pool(8);
  SequenceCache parent(pool);
  ASSERT_TRUE(parent.reserve(12).ok());
  parent.commit(4);
  SequenceCache child = parent.fork();
  EXPECT_EQ(child.pages().size(), 1u);
  EXPECT_EQ(child.length(), 4);
  parent.commit(4);  // the second page was never shared, and a full first page is never written
  ASSERT_TRUE(child.reserve(1).ok());
  EXPECT_NE(child.pages()[1], parent.pages()[1]);
  EXPECT_EQ(pool.references(child.pages()[0]), 2);
}

TEST(SequenceCacheTest, CopyOnWriteIsAllOrNothing) {
  PagePool pool = make_pool(2);
  SequenceCache parent(pool);
  ASSERT_TRUE(parent.reserve(6).ok());
  parent.commit(6);
  SequenceCache child = parent.fork();
  const std::vector<PageId> before(child.pages().begin(), child.pages().end());
  EXPECT_EQ(child.reserve(1).code(), Code::resource_exhausted);  // needs a copy of page 1, none is free
  EXPECT_EQ(before, std::vector<PageId>(child.pages().begin(), child.pages().end()));
  parent.truncate(4);
  EXPECT_TRUE(child.reserve(1).ok());  // now the only owner: no copy
  EXPECT_EQ(before, std::vector<PageId>(child.pages().begin(), child.pages().end()));
}

// Random allocate, append, fork, truncate and free against an oracle that keeps every token in a plain
// vector.
class Oracle {
 public:
  Oracle(std::uint64_t seed, std::int64_t pages, int tokens)
      : rng_(seed), tokens_(tokens), pool_(make_pool(pages, tokens)) {}

  void step() {
    ++steps;
    const auto dice = below(100);
    if (sequences_.empty() || dice < 8) {
      sequences_.push_back({SequenceCache(pool_), {}});
    } else if (dice < 55) {
      append(pick());
    } else if (dice < 72 && sequences_.size() < 12) {
      const auto it = pick();
      sequences_.push_back({it->cache.fork(), it->tokens});
      ++forks;
    } else if (dice < 88) {
      const auto it = pick();
      it->tokens.resize(below(it->tokens.size() + 1));
      it->cache.truncate(static_cast<std::int64_t>(it->tokens.size()));
    } else {
      sequences_.erase(pick());
    }
  }

  void verify() {
    ASSERT_TRUE(pool_.check_integrity().ok()) << pool_.check_integrity().message();
    std::vector<int> references(static_cast<std::size_t>(pool_.total()), 0);
    for (auto& sequence : sequences_) {
      ASSERT_EQ(sequence.cache.length(), static_cast<std::int64_t>(sequence.tokens.size()));
      for (const PageId page : sequence.cache.pages()) ++references[static_cast<std::size_t>(page)];
      for (std::size_t t = 0; t < sequence.tokens.size(); ++t) {
        ASSERT_EQ(slot(sequence.cache, t), sequence.tokens[t]) << "token " << t;
        ++compared;
      }
    }
    std::int64_t used = 0;
    for (std::size_t page = 0; page < references.size(); ++page) {
      ASSERT_EQ(references[page], pool_.references(static_cast<PageId>(page))) << "page " << page;
      used += references[page] > 0;
    }
    ASSERT_EQ(used + pool_.free(), pool_.total());
  }

  void clear() {
    sequences_.clear();
    ASSERT_EQ(pool_.free(), pool_.total());
    ASSERT_TRUE(pool_.check_integrity().ok());
  }

  std::int64_t steps = 0, forks = 0, copies = 0, refused = 0, compared = 0;

 private:
  struct Sequence {
    SequenceCache cache;
    std::vector<std::uint32_t> tokens;
  };

  std::uint64_t below(std::uint64_t n) { return rng_.next_u64() % n; }
  std::list<Sequence>::iterator pick() {
    return std::next(sequences_.begin(), static_cast<std::ptrdiff_t>(below(sequences_.size())));
  }
  std::uint32_t& slot(SequenceCache& cache, std::size_t t) {
    const PageId page = cache.pages()[t / static_cast<std::size_t>(tokens_)];
    return reinterpret_cast<std::uint32_t*>(pool_.data(page))[t % static_cast<std::size_t>(tokens_)];
  }

  void append(std::list<Sequence>::iterator it) {
    const auto count = static_cast<std::int64_t>(1 + below(10));
    const std::vector<PageId> before(it->cache.pages().begin(), it->cache.pages().end());
    if (!it->cache.reserve(count).ok()) {
      ++refused;
      ASSERT_EQ(before, std::vector<PageId>(it->cache.pages().begin(), it->cache.pages().end()));
      return;
    }
    for (std::size_t page = 0; page < before.size(); ++page)
      copies += before[page] != it->cache.pages()[page];
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t t = it->tokens.size();
      ASSERT_EQ(pool_.references(it->cache.pages()[t / static_cast<std::size_t>(tokens_)]), 1)
          << "a shared page would be written";
      const auto token = static_cast<std::uint32_t>(rng_.next_u64());
      slot(it->cache, t) = token;
      it->tokens.push_back(token);
    }
    it->cache.commit(count);
  }

  Rng rng_;
  int tokens_;
  PagePool pool_;
  std::list<Sequence> sequences_;  // after the pool: destroyed first
};

TEST(SequenceCacheTest, RandomHistoriesMatchAnOracle) {
  std::int64_t steps = 0, forks = 0, copies = 0, refused = 0, compared = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Oracle oracle(seed, seed % 2 == 0 ? 24 : 80, seed % 3 == 0 ? 1 : 4);
    for (int i = 0; i < 1500 && !testing::Test::HasFatalFailure(); ++i) {
      oracle.step();
      oracle.verify();
    }
    oracle.clear();
    steps += oracle.steps, forks += oracle.forks, copies += oracle.copies;
    refused += oracle.refused, compared += oracle.compared;
  }
  std::printf(
      "[ counts ] %lld steps, %lld forks, %lld pages copied on write, %lld refusals, %lld tokens equal\n",
      static_cast<long long>(steps), static_cast<long long>(forks), static_cast<long long>(copies),
      static_cast<long long>(refused), static_cast<long long>(compared));
  EXPECT_GT(copies, 100);
  EXPECT_GT(refused, 100);
}

// A state is a sequence's own: copied by fork(), gone with whatever is taken back.
TEST(SequenceCacheTest, StatesAreOfOneSequence) {
  PagePool pool = PagePool::create(64, 8, 4, 5).value();
  SequenceCache a(pool);
  EXPECT_TRUE(a.state().empty());
  ASSERT_TRUE(a.reserve(3).ok());
  ASSERT_EQ(a.state().size(), 5u);
  for (float& value : a.state()) EXPECT_EQ(value, 0.0f);
  a.state()[2] = 7;
  a.commit(3);
  SequenceCache b = a.fork();
  EXPECT_EQ(b.state()[2], 7.0f);
  b.state()[2] = 8;
  EXPECT_EQ(a.state()[2], 7.0f);
  a.truncate(3);  // all of it
  EXPECT_EQ(a.length(), 3);
  EXPECT_EQ(a.state()[2], 7.0f);
  a.truncate(2);  // no way back
  EXPECT_EQ(a.length(), 0);
  EXPECT_TRUE(a.pages().empty());
  EXPECT_TRUE(a.state().empty());  // its memory too is given back
  EXPECT_TRUE(a.fork().state().empty());
  ASSERT_TRUE(a.reserve(1).ok());
  for (const float value : a.state()) EXPECT_EQ(value, 0.0f);
  a.state()[2] = 9;  // a pass that failed before anything was committed
  a.truncate(0);
  ASSERT_TRUE(a.reserve(1).ok());
  EXPECT_EQ(a.state()[2], 0.0f);
  EXPECT_EQ(b.length(), 3);
  SequenceCache c(std::move(b));
  EXPECT_EQ(c.state()[2], 8.0f);
  a = std::move(c);
  EXPECT_EQ(a.state()[2], 8.0f);
  EXPECT_TRUE(pool.check_integrity().ok());
}

}  // namespace
}  // namespace lithe::kvcache
