// Handing out a region's work: everybody begins with an equal share of neighbouring units, and who is done first takes
// from the end of somebody else's. Undisturbed, each worker walks its own stretch of memory and all end together;
// when a core is taken away for a moment, the others do its work.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace lithe::layers {

/// Units [begin, end).
struct UnitRange {
  std::int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

/// Units [0, count), count < 2^32, for a fixed number of workers. One parallel region at a time.
class WorkShares {
 public:
  explicit WorkShares(int workers) : shares_(static_cast<std::size_t>(workers)) {}

  /// Before a region: deals out [0, count); at most `most` units are taken at a time.
  void deal(std::int64_t count, std::int64_t most);

  /// The next units for `worker`; empty when nothing is left anywhere.
  UnitRange take(int worker);

 private:
  // One word, so that both ends move together: begin in the upper half, end in the lower.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> range{0};
  };
  UnitRange take_front(Share& share) const;
  static UnitRange take_back(Share& share);

  std::vector<Share> shares_;  // [workers]
  std::int64_t most_ = 1;
};

}  // namespace lithe::layers
