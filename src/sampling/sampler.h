// From logits to a token: a chain of plain steps, each one function. One sampler per request; its random
// numbers are counted, so a request's text depends on its seed and its own tokens alone.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "kernels/kernel_table.h"

namespace lithe::sampling {

struct SamplerOptions {
  float temperature = 0.8f;         // 0 = greedy
  int top_k = 40;                   // 0 = off
  float top_p = 0.95f;              // 1 = off
  float min_p = 0.05f;              // 0 = off
  float typical_p = 1.0f;           // 1 = off
  float repetition_penalty = 1.0f;  // > 0; over repeat_last_n tokens
  float presence_penalty = 0.0f, frequency_penalty = 0.0f;
  int repeat_last_n = 64;  // -1 = all
  std::map<std::int32_t, float> logit_bias;
  std::uint64_t seed = 0;
};

/// invalid_argument naming the option and its range.
Status validate(const SamplerOptions& options, std::int64_t vocab);

class Sampler {
 public:
  Sampler(SamplerOptions options, const kernels::KernelTable& kernels);
  /// logits: [vocab], overwritten. history: prompt and answer so far. banned: ids never chosen (padded rows).
  /// internal: the logits hold no finite value (the request fails, its neighbours do not).
  Result<std::int32_t> sample(std::span<float> logits, std::span<const std::int32_t> history);

 private:
  SamplerOptions options_;
  const kernels::KernelTable* kernels_;
  Rng rng_;
  std::vector<std::int32_t> candidates_;  // reused between calls
};

}  // namespace lithe::sampling
