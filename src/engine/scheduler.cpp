#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace lithe::engine {

const std::vector<Chunk>& Scheduler::plan() {
  plan_.clear();
  budget_ = options_.max_num_batched_tokens;
  // A preempted sequence leaves running_ from the back, so an index stays good.
  for (std::size_t i = 0; i < running_.size() && budget_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.remaining() == 1 && make_room(sequence, 1)) schedule(sequence);
  }
  for (std::size_t i = 0; i < running_.size() && budget_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (!planned(sequence) && make_room(sequence, sequence.remaining())) schedule(sequence);
  }
  while (budget_ > 0 && admit_one()) schedule(*running_.back());
  return plan_;
}

void Scheduler::schedule(Sequence& sequence) {
  plan_.push_back({&sequence, std::min(sequence.remaining(), budget_)});
  budget_ -= plan_.back().count;
}

bool Scheduler::planned(const Sequence& sequence) const {
  return std::any_of(plan_.begin(), plan_.end(),
                     [&](const Chunk& chunk) { return chunk.sequence == &sequence; });
}

/// Room for `count` more tokens, at the cost of warm prefixes and then of younger requests. False when the sequence
/// itself was the youngest, and waits again.
bool Scheduler::make_room(Sequence& sequence, std::int64_t count) {
  while (!reserve_dropping_warm(sequence, count)) {
    const bool itself = running_.back().get() == &sequence;
    preempt_youngest();
    if (itself) return false;
  }
  return true;
}

bool Scheduler::reserve_dropping_warm(Sequence& sequence, std::int64_t count) {
  while (!sequence.cache.reserve(count).ok()) {
    if (warm_.empty()) return false;
    warm_.pop_back();
  }
  return true;
}

bool Scheduler::admit_one() {
  if (waiting_.empty() || running_.size() >= static_cast<std::size_t>(options_.max_num_seqs)) return false;
  Sequence& sequence = *waiting_.front();
  use_warm_prefix(sequence);
  if (!reserve_dropping_warm(sequence, sequence.remaining())) {
    sequence.cache.truncate(0);
    return false;
  }
  running_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  return true;
}

/// Shares the pages of the longest common beginning; the last token is always computed, since its logits are wanted. A
/// recurrent state cannot go back to where two texts part: it serves those that go on from all it has seen.
void Scheduler::use_warm_prefix(Sequence& sequence) {
  if (sequence.answered() == 0) sequence.result.usage.cached_tokens = 0;  // of an earlier, failed admission
  auto best = warm_.end();
  std::int64_t longest = 0;
  for (auto it = warm_.begin(); it != warm_.end(); ++it) {
    const auto& known = it->tokens;
    const auto [a, b] =
        std::mismatch(known.begin(), known.end(), sequence.tokens.begin(), sequence.tokens.end() - 1);
    const auto common = static_cast<std::int64_t>(a - known.begin());
    if (pool_->state_floats() > 0 && a != known.end()) continue;
    if (common > longest) longest = common, best = it;
  }
  if (best == warm_.end()) return;
  sequence.cache = best->cache.fork();
  sequence.cache.truncate(longest);
  if (sequence.answered() == 0) sequence.result.usage.cached_tokens = sequence.cache.length();
  warm_.splice(warm_.begin(), warm_, best);
}

void Scheduler::preempt_youngest() {
  LITHE_CHECK(!running_.empty());
  auto victim = std::move(running_.back());
  running_.pop_back();
  std::erase_if(plan_, [&](const Chunk& chunk) {
    if (chunk.sequence != victim.get()) return false;
    budget_ += chunk.count;
    return true;
  });
  victim->cache.truncate(0);
  ++victim->result.usage.preemptions;
  ++preemptions_;
  waiting_.push_front(std::move(victim));
}

std::unique_ptr<Sequence> Scheduler::remove(const Sequence& sequence, bool keep_warm) {
  std::unique_ptr<Sequence> out;
  const auto same = [&](const auto& other) { return other.get() == &sequence; };
  if (const auto it = std::find_if(running_.begin(), running_.end(), same); it != running_.end()) {
    out = std::move(*it);
    running_.erase(it);
  } else if (const auto at = std::find_if(waiting_.begin(), waiting_.end(), same); at != waiting_.end()) {
    out = std::move(*at);
    waiting_.erase(at);
  }
  LITHE_CHECK(out != nullptr);
  const std::int64_t length = out->cache.length();
  if (keep_warm && options_.warm_prefixes > 0 && length > 0) {
    std::vector<std::int32_t> tokens(out->tokens.begin(), out->tokens.begin() + length);
    std::erase_if(warm_, [&](const Warm& warm) {  // what the new one covers
      return warm.tokens.size() <= tokens.size() &&
             std::equal(warm.tokens.begin(), warm.tokens.end(), tokens.begin());
    });
    warm_.push_front({std::move(tokens), std::move(out->cache)});
    out->cache = kvcache::SequenceCache(*pool_);
    while (warm_.size() > options_.warm_prefixes) warm_.pop_back();
  } else {
    out->cache.truncate(0);
  }
  return out;
}

}  // namespace lithe::engine
