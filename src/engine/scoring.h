// Text scored by a model: the two usual perplexity protocols, and the logits of given tokens.
//
//   half  llama.cpp's: windows of `ctx` tokens, the first of each replaced by BOS where the model wants one, the second
//         half scored (the predictions made at positions ctx / 2 to ctx - 2).
//   full  GPTQ's and AWQ's: windows of `ctx` tokens, no BOS, every token but the first scored.
// Both drop the last, shorter window. Their numbers never share a table.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "engine/loaded_model.h"
#include "kvcache/kv_pool.h"

namespace lithe::engine {

enum class Protocol : std::uint8_t { half, full };

struct Window {
  std::vector<std::int32_t> tokens;  // as the model sees them
  std::int64_t first = 0;            // the prediction made at this position is the first one scored
};

/// All windows of a text. invalid_argument: ctx too short, or the text shorter than a window.
Result<std::vector<Window>> make_windows(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                         Protocol protocol, std::int64_t ctx);

/// The largest step that for_each_logits() takes for so many tokens.
models::StepShape scoring_step(const models::Model& model, std::int64_t tokens);

/// Runs `tokens` from an empty cache and hands out the logits at positions [first, last), ascending, in bounded memory.
/// visit may overwrite the row; an error ends the run.
Status for_each_logits(models::Model& model, kvcache::PagePool& pool, std::span<const std::int32_t> tokens,
                       std::int64_t first, std::int64_t last,
                       FunctionRef<Status(std::int64_t position, std::span<float> logits)> visit);

/// log(sum over i of exp(logits[i])), and the place of the largest. internal: a NaN or infinity among them.
struct LogSum {
  double value = 0;
  std::int64_t argmax = 0;
};
Result<LogSum> log_sum(std::span<const float> logits, const kernels::KernelTable& kernels,
                       std::vector<float>& scratch);

/// Count, sum and sum of squares: mean and standard error of values that come in parts.
struct Moments {
  std::int64_t count = 0;
  double sum = 0, squares = 0;

  void add(double value) { ++count, sum += value, squares += value * value; }
  void add(const Moments& part) { count += part.count, sum += part.sum, squares += part.squares; }
  double mean() const;
  double standard_error() const;  // of the mean; 0 below two values
};

}  // namespace lithe::engine
