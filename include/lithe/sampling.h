// How a token is chosen from a model's logits. Ranges are checked when a request is submitted; an error names
// the field, its value and its range.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace lithe {

/// The steps run in the order of the fields. Defaults suit a chat; `greedy()` picks the likeliest token each
/// time.
struct SamplingOptions {
  std::map<std::int32_t, float> logit_bias;  // token id -> [-100, 100], added first; at most 1024 entries
  float repetition_penalty = 1.0f;    // (0, 10]; divides positive logits of tokens seen in prompt and answer
  float presence_penalty = 0.0f;      // [-2, 2]; once for each token the answer holds
  float frequency_penalty = 0.0f;     // [-2, 2]; for each time the answer holds it
  int repeat_last_n = 64;             // penalties look at this many last tokens; -1 = all, 0 = none
  float temperature = 0.7f;           // [0, 100]; 0 = greedy
  int top_k = 40;                     // the k likeliest; 0 = off
  float top_p = 0.95f;                // (0, 1]; the likeliest that hold this much probability; 1 = off
  float min_p = 0.05f;                // [0, 1]; at least this share of the likeliest's probability; 0 = off
  float typical_p = 1.0f;             // (0, 1]; those nearest the expected surprise; 1 = off
  std::optional<std::uint64_t> seed;  // nothing: a fresh one, reported with the answer

  static SamplingOptions greedy() {
    SamplingOptions options;
    options.temperature = 0;
    return options;
  }
};

}  // namespace lithe
