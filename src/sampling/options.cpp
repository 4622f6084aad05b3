#include <cmath>

#include "sampling/sampler.h"

namespace lithe::sampling {
namespace {

constexpr std::size_t kMaxBiases = 1024;
constexpr float kMinRepetition = 0.01f;  // logits are divided by it: far below, they would overflow

Status in_range(const char* name, double value, bool inside, const char* range) {
  if (inside) return {};
  return invalid("{} is {}: it must lie in {}", name, value, range);
}

}  // namespace

// Each condition is written so that NaN fails it.
Status validate(const SamplingOptions& o, std::int64_t vocab) {
  LITHE_RETURN_IF_ERROR(
      in_range("temperature", o.temperature, o.temperature >= 0 && o.temperature <= 100, "[0, 100]"));
  LITHE_RETURN_IF_ERROR(in_range("top_k", o.top_k, o.top_k >= 0, "[0, vocabulary] (0 = off)"));
  LITHE_RETURN_IF_ERROR(in_range("top_p", o.top_p, o.top_p > 0 && o.top_p <= 1, "(0, 1]"));
  LITHE_RETURN_IF_ERROR(in_range("min_p", o.min_p, o.min_p >= 0 && o.min_p <= 1, "[0, 1]"));
  LITHE_RETURN_IF_ERROR(in_range("typical_p", o.typical_p, o.typical_p > 0 && o.typical_p <= 1, "(0, 1]"));
  LITHE_RETURN_IF_ERROR(in_range("repetition_penalty", o.repetition_penalty,
                                 o.repetition_penalty >= kMinRepetition && o.repetition_penalty <= 10,
                                 "[0.01, 10]"));
  LITHE_RETURN_IF_ERROR(in_range("presence_penalty", o.presence_penalty,
                                 o.presence_penalty >= -2 && o.presence_penalty <= 2, "[-2, 2]"));
  LITHE_RETURN_IF_ERROR(in_range("frequency_penalty", o.frequency_penalty,
                                 o.frequency_penalty >= -2 && o.frequency_penalty <= 2, "[-2, 2]"));
  LITHE_RETURN_IF_ERROR(
      in_range("repeat_last_n", o.repeat_last_n, o.repeat_last_n >= -1, "[-1, context] (-1 = all)"));
  if (o.logit_bias.size() > kMaxBiases) {
    return invalid("logit_bias has {} entries: at most {} are allowed", o.logit_bias.size(), kMaxBiases);
  }
  for (const auto& [id, bias] : o.logit_bias) {
    if (id < 0 || id >= vocab) return invalid("logit_bias names token {}: ids lie in [0, {})", id, vocab);
    if (!(bias >= -100 && bias <= 100)) {
      return invalid("logit_bias of token {} is {}: it must lie in [-100, 100]", id, bias);
    }
  }
  return {};
}

}  // namespace lithe::sampling
