#include "engine/stop_matcher.h"

#include <algorithm>

namespace lithe::engine {

Status validate_stops(const std::vector<std::string>& stops) {
  if (stops.size() > kMaxStops) {
    return invalid("stop has {} strings: at most {} are allowed", stops.size(), kMaxStops);
  }
  for (const std::string& stop : stops) {
    if (stop.empty()) return invalid("stop holds an empty string");
    if (stop.size() > kMaxStopBytes) {
      return invalid("stop holds a string of {} bytes: at most {} are allowed", stop.size(), kMaxStopBytes);
    }
  }
  return {};
}

std::string StopMatcher::push(std::string_view text) {
  if (matched_) return {};
  if (stops_.empty()) return std::string(text);
  held_ += text;
  std::size_t end = std::string::npos, begin = 0;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t stop_end = at + stop.size();
    if (stop_end < end || (stop_end == end && at < begin)) begin = at, end = stop_end;
  }
  if (end != std::string::npos) {
    matched_ = true;
    held_.resize(begin);
    return std::move(held_);
  }
  const std::size_t from = held_from();
  std::string out = held_.substr(0, from);
  held_.erase(0, from);
  return out;
}

/// The first position from which the held text is the beginning of a stop string.
std::size_t StopMatcher::held_from() const {
  std::size_t from = held_.size();
  for (const std::string& stop : stops_) {
    const std::size_t longest = std::min(stop.size() - 1, held_.size());
    for (std::size_t length = longest; length > held_.size() - from; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) {
        from = held_.size() - length;
        break;
      }
    }
  }
  return from;
}

std::string StopMatcher::finish() {
  return matched_ ? std::string() : std::exchange(held_, {});
}

}  // namespace lithe::engine
