#include "layers/router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace lithe::layers {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

void softmax(std::span<float> values) {
  const float largest = *std::ranges::max_element(values);
  float sum = 0;
  for (float& value : values) sum += value = std::exp(value - largest);
  for (float& value : values) value /= sum;
}

// The indices of the `count` largest, the best first, of equals the lowest.
std::vector<std::int32_t> largest(std::span<const float> values, int count) {
  std::vector<std::int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = values[static_cast<std::size_t>(a)], y = values[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

// Excludes the experts of all but the best groups.
void keep_best_groups(const RouterRule& rule, std::span<float> ranks) {
  const std::size_t size = ranks.size() / static_cast<std::size_t>(rule.groups);
  std::vector<float> goodness;
  for (std::size_t group = 0; group < static_cast<std::size_t>(rule.groups); ++group) {
    const auto members = ranks.subspan(group * size, size);
    float sum = 0;
    for (const std::int32_t best : largest(members, std::min<int>(rule.group_best, static_cast<int>(size)))) {
      sum += members[static_cast<std::size_t>(best)];
    }
    goodness.push_back(sum);
  }
  std::vector<bool> kept(goodness.size());
  for (const std::int32_t group : largest(goodness, rule.groups_used))
    kept[static_cast<std::size_t>(group)] = true;
  for (std::size_t expert = 0; expert < ranks.size(); ++expert) {
    if (!kept[expert / size]) ranks[expert] = kExcluded;
  }
}

}  // namespace

void choose_experts(const RouterRule& rule, std::span<const float> logits, std::span<const float> bias,
                    std::span<ExpertChoice> chosen) {
  LITHE_CHECK(std::ssize(logits) == rule.experts && std::ssize(chosen) == rule.used &&
              rule.used <= rule.experts);
  const bool finite = std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); });
  std::vector<float> scores(logits.size(), 0.0f);
  if (finite) std::ranges::copy(logits, scores.begin());
  if (rule.score == RouterScore::softmax) softmax(scores);
  if (rule.score == RouterScore::sigmoid) {
    for (float& score : scores) score = 1.0f / (1.0f + std::exp(-score));
  }
  std::vector<float> ranks = scores;
  for (std::size_t i = 0; i < bias.size(); ++i) ranks[i] += bias[i];
  if (rule.groups > 1) keep_best_groups(rule, ranks);
  const std::vector<std::int32_t> best = largest(ranks, rule.used);
  std::vector<float> weights;
  weights.reserve(best.size());
  for (const std::int32_t expert : best) weights.push_back(scores[static_cast<std::size_t>(expert)]);
  if (rule.score == RouterScore::softmax_of_chosen) softmax(weights);
  float factor = rule.scale;
  if (rule.normalise) factor /= std::accumulate(weights.begin(), weights.end(), 0.0f) + 1e-20f;
  if (!finite) factor = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t i = 0; i < best.size(); ++i) chosen[i] = {best[i], weights[i] * factor};
}

}  // namespace lithe::layers
