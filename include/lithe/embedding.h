// Texts as vectors, and documents in the order of their worth for a query: what encoders are for.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lithe/engine.h"

namespace lithe {

/// How the rows of a text's tokens become one vector. automatic: as the model's file says, else the mean, of a
/// decoder the last.
enum class EmbeddingPooling : std::uint8_t { automatic, none, mean, cls, last };

struct EmbedOptions {
  EmbeddingPooling pooling = EmbeddingPooling::automatic;
  int normalize = 2;  // the p of the norm that becomes 1; 0: largest magnitude to 32760; -1: as they are
  std::int64_t batch = 512;  // tokens in one pass; a longer text has a pass of its own
};

struct Embedding {
  std::vector<std::vector<float>> rows;  // one, or with pooling none one a token: [hidden] each
  std::int64_t tokens = 0;
};

/// One embedding for each text, the same bits whatever its neighbours. Called after each pass with the texts done so far;
/// false cancels. invalid_argument: a text that is longer than the model's context, by its number, or that has no token.
Result<std::vector<Embedding>> embed(Model& model, std::span<const std::string> texts,
                                     const EmbedOptions& options = {},
                                     const std::function<bool(std::size_t done)>& progress = {});

struct Ranked {
  std::size_t index = 0;  // of the document
  float score = 0;
};

/// Documents by the classifier's first label for (query, document), best first; of equals the earlier one.
/// unsupported: a model without a classification head.
Result<std::vector<Ranked>> rerank(Model& model, const std::string& query,
                                   std::span<const std::string> documents, std::int64_t* tokens = nullptr);

}  // namespace lithe
