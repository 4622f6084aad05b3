// Stop strings in a stream of text: nothing that is, or may yet become, part of one is let through (field case 10).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lithe::engine {

inline constexpr std::size_t kMaxStops = 64;
inline constexpr std::size_t kMaxStopBytes = 1024;

/// invalid_argument: too many, an empty or a very long one.
Status validate_stops(const std::vector<std::string>& stops);

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// More of the answer; returns what can no longer belong to a stop string. The stop string that is complete first
  /// wins, the longest of those that end together: as if the text came byte by byte, so that the cut depends on the
  /// text alone and not on how tokens divide it. After a match nothing more comes out.
  std::string push(std::string_view text);
  /// The answer is over without a stop string: what was held back.
  std::string finish();
  bool matched() const { return matched_; }

 private:
  std::size_t held_from() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace lithe::engine
