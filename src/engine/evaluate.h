// Quality of a model on a text: perplexity, and its distance from a reference model's saved opinion.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "engine/loaded_model.h"
#include "engine/scoring.h"

namespace lithe::engine {

struct EvaluateOptions {
  Protocol protocol = Protocol::half;
  std::int64_t ctx = 512;
  std::int64_t max_windows = 0;  // 0: all
  std::string save_reference;    // writes what this model thinks
  std::string reference;         // compares with what another one thought
  std::string state;             // finished windows are kept here, and taken from here on the next run
};

struct Evaluation {
  std::int64_t windows = 0, resumed = 0;
  Moments nll;  // nats per scored token
  // Against the reference, when there is one:
  Moments delta;                // nll - reference's nll, token by token
  std::vector<float> kl;        // KL(reference || model) per token, in nats
  std::int64_t agreements = 0;  // the same likeliest token

  double perplexity() const;
  double kl_mean() const;
  double kl_quantile(double q) const;  // q in [0, 1]
};

/// Called after each window; false stops (cancelled), keeping the state file.
using OnWindow = FunctionRef<bool(const Evaluation& so_far, std::int64_t total)>;

/// One forward pass over the windows of `text`. A state file of another run is refused, not overwritten.
Result<Evaluation> evaluate(LoadedModel& model, std::string_view text, const EvaluateOptions& options,
                            OnWindow on_window);

/// Writes the logits of all positions as a NumPy array, [tokens, vocab] float32.
Status write_logits(LoadedModel& model, std::span<const std::int32_t> tokens, const std::string& path);

}  // namespace lithe::engine
