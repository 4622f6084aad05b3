#include "layers/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace lithe::layers {
namespace {

constexpr std::int64_t kGrowth = 512;

// Long waves are stretched by the factor, short ones stay, those between are blended by how many times they
// turn within the original context.
double llama3_frequency(const RopeSpec& spec, double frequency) {
  const double turns = static_cast<double>(spec.original_context) * frequency / (2 * std::numbers::pi);
  if (turns < spec.low_freq_factor) return frequency / spec.factor;
  if (turns > spec.high_freq_factor) return frequency;
  const double share = (turns - spec.low_freq_factor) / (spec.high_freq_factor - spec.low_freq_factor);
  return (1 - share) * frequency / spec.factor + share * frequency;
}

// Where in the channels a wave turns `turns` times within the original context.
double turning_channel(const RopeSpec& spec, double turns) {
  return spec.dim * std::log(static_cast<double>(spec.original_context) / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(spec.theta));
}

// As llama3, but blended by the channel's place between two that turn beta_fast and beta_slow times.
double yarn_frequency(const RopeSpec& spec, std::size_t pair, double frequency) {
  double low = turning_channel(spec, spec.beta_fast), high = turning_channel(spec, spec.beta_slow);
  if (spec.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, spec.dim - 1.0);
  if (high == low) high += 0.001;
  const double stretched = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  return stretched * frequency / spec.factor + (1 - stretched) * frequency;
}

// Positions beyond the original context stretch the base, so that all of `context` fits.
double dynamic_theta(const RopeSpec& spec, std::int64_t context) {
  if (context <= spec.original_context) return spec.theta;
  const double stretch =
      spec.factor * static_cast<double>(context) / static_cast<double>(spec.original_context);
  return spec.theta * std::pow(stretch - (spec.factor - 1), spec.dim / (spec.dim - 2.0));
}

}  // namespace

std::vector<float> rope_frequencies(const RopeSpec& spec, std::int64_t context) {
  if (spec.kind == RopeKind::none) return {};
  LITHE_CHECK(spec.dim > 0 && spec.dim % 2 == 0);
  const double theta = spec.scaling == RopeScaling::dynamic ? dynamic_theta(spec, context) : spec.theta;
  std::vector<float> frequencies(static_cast<std::size_t>(spec.dim / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / spec.dim);
    if (spec.scaling == RopeScaling::linear) frequency /= spec.factor;
    if (spec.scaling == RopeScaling::llama3) frequency = llama3_frequency(spec, frequency);
    if (spec.scaling == RopeScaling::yarn) frequency = yarn_frequency(spec, i, frequency);
    if (!spec.freq_divisors.empty()) frequency /= static_cast<double>(spec.freq_divisors[i]);
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

RopeTable::RopeTable(const RopeSpec& spec, std::int64_t context)
    : kind_(spec.kind), frequencies_(rope_frequencies(spec, context)), magnitude_(spec.magnitude) {}

void RopeTable::extend(std::int64_t count) {
  if (!enabled() || count <= positions_) return;
  const std::int64_t end = (count + kGrowth - 1) / kGrowth * kGrowth;
  cos_.resize(static_cast<std::size_t>(end * half()));
  sin_.resize(static_cast<std::size_t>(end * half()));
  for (std::int64_t position = positions_; position < end; ++position) {
    for (std::int64_t i = 0; i < half(); ++i) {
      // The angle is rounded to float as in the models' training code: at long positions that is part of the
      // model.
      const float angle = static_cast<float>(position) * frequencies_[static_cast<std::size_t>(i)];
      const auto at = static_cast<std::size_t>(position * half() + i);
      cos_[at] = static_cast<float>(magnitude_ * std::cos(static_cast<double>(angle)));
      sin_[at] = static_cast<float>(magnitude_ * std::sin(static_cast<double>(angle)));
    }
  }
  positions_ = end;
}

}  // namespace lithe::layers
