// From logits to a token: a chain of plain steps in the order of lithe::SamplingOptions. One sampler per
// request; its random numbers are counted, one draw a token, so a request's text depends on its seed and its
// own tokens alone.
//
// No step sorts the vocabulary. A filter computes a cut-off (a heap for top-k, a quickselect over probability
// mass for top-p and typical) and keeps the candidates on its good side, in the order of their ids; equal
// logits rank by id. Sources: top-p: Holtzman et al. (1904.09751); typical: Meister et al. (2202.00666)
// section 4; repetition penalty: Keskar et al. (1909.05858) section 4.1; min-p: Nguyen et al. (2407.01082).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "kernels/kernel_table.h"
#include "lithe/sampling.h"

namespace lithe::sampling {

/// invalid_argument naming the field, its value and its range. vocab: ids below it may be chosen.
Status validate(const SamplingOptions& options, std::int64_t vocab);

/// What was said so far: `tokens` is the prompt, `prompt` tokens long, and then the answer.
struct History {
  std::span<const std::int32_t> tokens;
  std::size_t prompt = 0;
};

/// A token that may still be chosen; weight is proportional to its probability (the likeliest has 1).
struct Candidate {
  float logit = 0;
  std::int32_t id = 0;
  double weight = 0;
};

/// A candidate's place in a filter's order: the lowest key is the best, then the lowest id.
struct Ranked {
  std::uint32_t key = 0;
  std::int32_t id = 0;
  double weight = 0;
  bool before(const Ranked& other) const { return key != other.key ? key < other.key : id < other.id; }
};

class Sampler {
 public:
  /// options must have passed validate(). The table must outlive the sampler.
  Sampler(SamplingOptions options, std::uint64_t seed, const kernels::KernelTable& kernels);

  /// logits: [vocab], overwritten; minus infinity bans a token.
  /// internal: a NaN or plus infinity among them, or nothing to choose from (the request fails, its
  /// neighbours do not).
  Result<std::int32_t> sample(std::span<float> logits, const History& history);

  /// The candidates that the filters leave, ascending ids: what sample() draws from. Valid until the next
  /// call.
  Result<std::span<const Candidate>> distribution(std::span<float> logits, const History& history);

 private:
  void penalize(std::span<float> logits, const History& history);
  void top_k(std::span<const float> logits, float max);
  void everything(std::span<const float> logits, float max);
  template <typename Rank>
  void keep_mass(Rank rank, double target);
  void top_p();
  void typical();

  SamplingOptions options_;
  const kernels::KernelTable* kernels_;
  Rng rng_;
  std::vector<Candidate> candidates_;  // reused between calls, as are the others
  std::vector<Candidate> selection_;
  std::vector<Ranked> ranking_;
  std::vector<float> weights_;
  std::vector<std::int32_t> seen_;
  double total_ = 0;  // weight of what top_p takes its share of
};

}  // namespace lithe::sampling
