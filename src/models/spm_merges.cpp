#include "models/spm_merges.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace lithe::models {
namespace {

constexpr std::int32_t kNormal = 1, kUserDefined = 4;
constexpr std::size_t kLongest =
    1024;  // bytes: longer tokens have too many splits, and are not built by merging

bool is_cut(std::string_view token, std::size_t at) {
  return (token[at] & 0xC0) != 0x80;
}

}  // namespace

std::vector<std::string> merges_of_scores(std::span<const std::string_view> tokens,
                                          std::span<const std::int32_t> types,
                                          std::span<const double> scores) {
  std::unordered_set<std::string_view> known;
  const auto is_normal = [&](std::size_t id) { return types.empty() || types[id] == kNormal; };
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (is_normal(id)) known.insert(tokens[id]);
  }
  std::vector<std::tuple<double, std::size_t, std::size_t>>
      found;  // minus the score, token, where it is split
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    if (!is_normal(id) || token.size() > kLongest) continue;
    for (std::size_t at = 1; at < token.size(); ++at) {
      if (is_cut(token, at) && known.contains(token.substr(0, at)) && known.contains(token.substr(at)))
        found.emplace_back(-scores[id], id, at);
    }
  }
  std::ranges::sort(found);
  std::vector<std::string> merges;
  merges.reserve(found.size());
  for (const auto& [score, id, at] : found)
    merges.push_back(std::string(tokens[id].substr(0, at)) + ' ' + std::string(tokens[id].substr(at)));
  return merges;
}

bool scores_of_merges(std::span<const std::string> tokens, std::span<const std::int32_t> types,
                      std::span<const std::string> merges, std::vector<float>& scores) {
  scores.assign(tokens.size(), 0.0f);
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] == kNormal || types[id] == kUserDefined) ids.emplace(tokens[id], id);
  }
  std::vector<bool> seen(tokens.size(), false);
  std::size_t last = tokens.size();
  bool together = true;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const std::size_t blank = merge.find(' ', 1);
    std::string whole(merge.substr(0, blank));
    if (blank != std::string_view::npos) whole += merge.substr(blank + 1);
    const auto found = ids.find(whole);
    if (found == ids.end()) return false;
    if (!seen[found->second]) scores[found->second] = -static_cast<float>(rank);
    together &= !seen[found->second] || last == found->second;
    seen[found->second] = true;
    last = found->second;
  }
  std::size_t splits = 0;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    if (types[id] != kNormal || token.size() > kLongest) continue;
    if (!seen[id]) scores[id] = -static_cast<float>(merges.size());
    for (std::size_t at = 1; at < token.size(); ++at)
      splits += is_cut(token, at) && ids.contains(token.substr(0, at)) && ids.contains(token.substr(at));
  }
  // Beyond 2^24 a float no longer counts.
  return together && splits == merges.size() && merges.size() < (std::size_t{1} << 24);
}

}  // namespace lithe::models
