// SentencePiece's scores and the merges that say the same.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lithe::models {

/// Every split of every normal token (types[id] 1) into two tokens, the best token first: "left right".
std::vector<std::string> merges_of_scores(std::span<const std::string_view> tokens,
                                          std::span<const std::int32_t> types,
                                          std::span<const double> scores);

/// Scores under which the merges come in their order, minus the place of a token's first merge. True if scores can say
/// all: every split of a token into tokens is a merge, and the merges of one token stand together.
bool scores_of_merges(std::span<const std::string> tokens, std::span<const std::int32_t> types,
                      std::span<const std::string> merges, std::vector<float>& scores);

}  // namespace lithe::models
