#include "layers/shares.h"

#include <algorithm>

#include "base/check.h"

namespace lithe::layers {
namespace {

std::uint64_t pack(std::uint64_t begin, std::uint64_t end) {
  return begin << 32 | end;
}
std::uint64_t begin_of(std::uint64_t range) {
  return range >> 32;
}
std::uint64_t end_of(std::uint64_t range) {
  return range & 0xffffffffu;
}

}  // namespace

void WorkShares::deal(std::int64_t count, std::int64_t most) {
  LITHE_CHECK(count >= 0 && count < std::int64_t{1} << 32);
  most_ = std::max<std::int64_t>(most, 1);
  const auto workers = std::ssize(shares_);
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    const auto begin = static_cast<std::uint64_t>(count * worker / workers);
    const auto end = static_cast<std::uint64_t>(count * (worker + 1) / workers);
    shares_[static_cast<std::size_t>(worker)].range.store(pack(begin, end), std::memory_order_relaxed);
  }
}

// A third of what is left: few hand-outs, and always something for others to take over.
UnitRange WorkShares::take_front(Share& share) const {
  std::uint64_t range = share.range.load(std::memory_order_relaxed);
  while (begin_of(range) < end_of(range)) {
    const std::uint64_t left = end_of(range) - begin_of(range);
    const std::uint64_t taken = std::min((left + 2) / 3, static_cast<std::uint64_t>(most_));
    const std::uint64_t rest = pack(begin_of(range) + taken, end_of(range));
    if (share.range.compare_exchange_weak(range, rest, std::memory_order_relaxed)) {
      return {static_cast<std::int64_t>(begin_of(range)), static_cast<std::int64_t>(begin_of(range) + taken)};
    }
  }
  return {};
}

UnitRange WorkShares::take_back(Share& share) {
  std::uint64_t range = share.range.load(std::memory_order_relaxed);
  while (begin_of(range) < end_of(range)) {
    const std::uint64_t rest = pack(begin_of(range), end_of(range) - 1);
    if (share.range.compare_exchange_weak(range, rest, std::memory_order_relaxed)) {
      return {static_cast<std::int64_t>(end_of(range)) - 1, static_cast<std::int64_t>(end_of(range))};
    }
  }
  return {};
}

UnitRange WorkShares::take(int worker) {
  const UnitRange own = take_front(shares_[static_cast<std::size_t>(worker)]);
  if (!own.empty()) return own;
  for (std::size_t step = 1; step < shares_.size(); ++step) {
    const UnitRange other = take_back(shares_[(static_cast<std::size_t>(worker) + step) % shares_.size()]);
    if (!other.empty()) return other;
  }
  return {};
}

}  // namespace lithe::layers
