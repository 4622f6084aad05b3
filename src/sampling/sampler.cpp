#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace lithe::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kHeapLimit = 1024;  // a larger top-k is cheaper by quickselect
constexpr std::size_t kSkipBlock = 32;    // logits looked at together while nothing beats the heap

bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// True if no logit is NaN or plus infinity. Branch-free, so that the compiler vectorises it.
bool sane(std::span<const float> logits) {
  unsigned bad = 0;
  for (const float x : logits) bad |= static_cast<unsigned>(!(x < kInfinity));
  return bad == 0;
}

/// The k likeliest of logits, in no order, k <= kHeapLimit: one pass, almost all of it a comparison with the
/// heap's least.
void best_by_heap(std::span<const float> logits, std::size_t k, std::vector<Candidate>& heap) {
  heap.clear();
  for (std::size_t i = 0; i < k; ++i) heap.push_back({logits[i], static_cast<std::int32_t>(i), 0});
  std::make_heap(heap.begin(), heap.end(), likelier);  // the least likely on top
  std::size_t i = k;
  const auto offer = [&](std::size_t index) {
    if (!(logits[index] > heap.front().logit)) return;  // an equal logit with a higher id ranks lower
    std::pop_heap(heap.begin(), heap.end(), likelier);
    heap.back() = {logits[index], static_cast<std::int32_t>(index), 0};
    std::push_heap(heap.begin(), heap.end(), likelier);
  };
  for (; i + kSkipBlock <= logits.size(); i += kSkipBlock) {
    const float least = heap.front().logit;
    unsigned any = 0;
    for (std::size_t j = 0; j < kSkipBlock; ++j) any |= static_cast<unsigned>(logits[i + j] > least);
    if (any == 0) continue;
    for (std::size_t j = 0; j < kSkipBlock; ++j) offer(i + j);
  }
  for (; i < logits.size(); ++i) offer(i);
}

/// Bits that rank floats as the floats themselves rank.
std::uint32_t ordered_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// The last of the smallest set of best entries (lowest key, then lowest id) whose weights reach `target`: a
/// radix descent that sums the weights per leading bits of the key and follows the bucket where the running
/// mass crosses the target. One pass over everything, then over a bucket. Destroys `set`, which must not be
/// empty.
Ranked cutoff_by_mass(std::vector<Ranked>& set, double target) {
  constexpr int kBits = 11;
  std::array<double, 1 << kBits> mass;
  double before = 0;  // weight of all entries known to rank before `set`
  for (int shift = 32 - kBits; set.size() > 64; shift -= kBits) {
    const int from = std::max(shift, 0);
    mass.fill(0);
    const auto bucket = [&](const Ranked& r) { return (r.key >> from) & ((1u << kBits) - 1); };
    for (const Ranked& r : set) mass[bucket(r)] += r.weight;
    std::uint32_t crossing = 0, last = 0;
    for (std::uint32_t i = 0; i < mass.size(); ++i) {
      if (mass[i] > 0) last = i;
    }
    for (; crossing < last && before + mass[crossing] < target; ++crossing) before += mass[crossing];
    std::erase_if(set, [&](const Ranked& r) { return bucket(r) != crossing; });
    if (from == 0) break;  // only equal keys are left
  }
  std::sort(set.begin(), set.end(), [](const Ranked& a, const Ranked& b) { return a.before(b); });
  for (const Ranked& r : set) {
    before += r.weight;
    if (before >= target) return r;
  }
  return set.back();
}

double total_weight(std::span<const Candidate> candidates) {
  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  return total;
}

}  // namespace

Sampler::Sampler(SamplingOptions options, std::uint64_t seed, const kernels::KernelTable& kernels)
    : options_(std::move(options)), kernels_(&kernels), rng_(seed) {}

void Sampler::penalize(std::span<float> logits, const History& history) {
  const auto& o = options_;
  const bool active = o.repetition_penalty != 1 || o.presence_penalty != 0 || o.frequency_penalty != 0;
  if (!active || o.repeat_last_n == 0) return;
  std::size_t begin = 0;
  if (o.repeat_last_n > 0) {
    begin =
        history.tokens.size() - std::min(history.tokens.size(), static_cast<std::size_t>(o.repeat_last_n));
  }
  // Twice the id, plus one where the answer holds it: sorted, a token's prompt and answer counts lie side by
  // side.
  seen_.clear();
  for (std::size_t i = begin; i < history.tokens.size(); ++i) {
    const std::int32_t id = history.tokens[i];
    if (id < 0 || static_cast<std::size_t>(id) >= logits.size()) continue;
    seen_.push_back(2 * id + (i >= history.prompt ? 1 : 0));
  }
  std::sort(seen_.begin(), seen_.end());
  for (std::size_t i = 0; i < seen_.size();) {
    const std::int32_t id = seen_[i] / 2;
    int answered = 0;
    for (; i < seen_.size() && seen_[i] / 2 == id; ++i) answered += seen_[i] & 1;
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / o.repetition_penalty : logit * o.repetition_penalty;
    if (answered > 0) logit -= o.presence_penalty + o.frequency_penalty * static_cast<float>(answered);
  }
}

void Sampler::top_k(std::span<const float> logits, float max) {
  const auto k = static_cast<std::size_t>(options_.top_k);
  if (k <= kHeapLimit) {
    best_by_heap(logits, k, selection_);
  } else {
    selection_.clear();
    for (std::size_t i = 0; i < logits.size(); ++i) {
      selection_.push_back({logits[i], static_cast<std::int32_t>(i), 0});
    }
    const auto kth = selection_.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(selection_.begin(), kth, selection_.end(), likelier);
    selection_.resize(k);
  }
  const double inverse = 1.0 / static_cast<double>(options_.temperature);
  candidates_.clear();
  for (const Candidate& c : selection_) {
    if (c.logit == -kInfinity) continue;
    candidates_.push_back({c.logit, c.id, std::exp((static_cast<double>(c.logit) - max) * inverse)});
  }
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  total_ = total_weight(candidates_);
}

/// All of the vocabulary whose weight a float can hold.
void Sampler::everything(std::span<const float> logits, float max) {
  const double inverse = 1.0 / static_cast<double>(options_.temperature);
  weights_.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    weights_[i] = static_cast<float>(std::max((static_cast<double>(logits[i]) - max) * inverse, -1e4));
  }
  total_ = kernels_->exp_sum(weights_.data(), 0.0f, static_cast<std::int64_t>(weights_.size()));
  float floor = std::numeric_limits<float>::min();
  if (options_.top_p >= 1) floor = std::max(floor, options_.min_p);  // the next filter, known beforehand
  candidates_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] < floor) continue;
    candidates_.push_back({logits[i], static_cast<std::int32_t>(i), static_cast<double>(weights_[i])});
  }
}

/// Keeps the first of the ranking whose weights reach `target`.
template <typename Rank>
void Sampler::keep_mass(Rank rank, double target) {
  ranking_.clear();
  for (const Candidate& c : candidates_) ranking_.push_back(rank(c));
  const Ranked last = cutoff_by_mass(ranking_, target);
  std::erase_if(candidates_, [&](const Candidate& c) { return last.before(rank(c)); });
}

void Sampler::top_p() {
  if (options_.top_p >= 1) return;
  const auto rank = [](const Candidate& c) { return Ranked{~ordered_bits(c.logit), c.id, c.weight}; };
  keep_mass(rank, static_cast<double>(options_.top_p) * total_);  // of all, or of the k that top_k left
}

void Sampler::typical() {
  if (options_.typical_p >= 1) return;
  const double total = total_weight(candidates_);
  double entropy = 0;
  for (const Candidate& c : candidates_) {
    const double p = c.weight / total;
    if (p > 0) entropy -= p * std::log(p);
  }
  const auto rank = [&](const Candidate& c) {  // by the distance of its surprise from the entropy
    const double distance = std::abs(-std::log(c.weight / total) - entropy);
    return Ranked{ordered_bits(static_cast<float>(distance)), c.id, c.weight};
  };
  keep_mass(rank, static_cast<double>(options_.typical_p) * total);
}

Result<std::span<const Candidate>> Sampler::distribution(std::span<float> logits, const History& history) {
  if (!sane(logits)) return internal("the model's logits hold a NaN or an infinity");
  for (const auto& [id, bias] : options_.logit_bias) logits[static_cast<std::size_t>(id)] += bias;
  penalize(logits, history);
  const auto n = static_cast<std::int64_t>(logits.size());
  const float max = n > 0 ? kernels_->max(logits.data(), n) : -kInfinity;
  if (!(max > -kInfinity)) return internal("the model's logits leave no token to choose");
  if (!(max < kInfinity)) return internal("bias and penalties make a logit infinite");

  candidates_.clear();
  if (options_.temperature == 0) {
    const std::int64_t best = kernels_->argmax(logits.data(), n);
    candidates_.push_back({logits[static_cast<std::size_t>(best)], static_cast<std::int32_t>(best), 1.0});
    return std::span<const Candidate>(candidates_);
  }
  if (options_.top_k > 0 && static_cast<std::size_t>(options_.top_k) < logits.size()) {
    top_k(logits, max);
  } else {
    everything(logits, max);
  }
  top_p();
  if (options_.min_p > 0) {
    std::erase_if(candidates_,
                  [&](const Candidate& c) { return c.weight < static_cast<double>(options_.min_p); });
  }
  typical();
  return std::span<const Candidate>(candidates_);
}

Result<std::int32_t> Sampler::sample(std::span<float> logits, const History& history) {
  LITHE_ASSIGN_OR_RETURN(const auto candidates, distribution(logits, history));
  LITHE_CHECK(!candidates.empty());                             // every filter keeps at least one
  const double at = rng_.uniform() * total_weight(candidates);  // drawn for greedy too: one draw a token
  double below = 0;
  for (const Candidate& c : candidates) {
    below += c.weight;
    if (at < below) return c.id;
  }
  return candidates.back().id;
}

}  // namespace lithe::sampling
