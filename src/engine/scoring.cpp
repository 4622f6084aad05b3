#include "engine/scoring.h"

#include <algorithm>
#include <cmath>

namespace lithe::engine {
namespace {

constexpr std::int64_t kChunk = 512;                        // tokens a step
constexpr std::size_t kLogitBytes = std::size_t{96} << 20;  // of logits a step

std::int64_t most_logit_rows(const models::Model& model) {
  const std::size_t row = static_cast<std::size_t>(model.spec().vocab) * sizeof(float);
  return static_cast<std::int64_t>(std::max<std::size_t>(1, kLogitBytes / row));
}

}  // namespace

Result<std::vector<Window>> make_windows(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                         Protocol protocol, std::int64_t ctx) {
  if (ctx < 4) return invalid("a window of {} tokens is too short: at least 4 are needed", ctx);
  const bool half = protocol == Protocol::half;
  tokenizer::EncodeOptions options;
  options.parse_special = false;  // the text is data
  options.add_special = half;
  LITHE_ASSIGN_OR_RETURN(const auto tokens, tokenizer.encode(text, options));
  const auto count = static_cast<std::int64_t>(tokens.size()) / ctx;
  if (count == 0) return invalid("the text holds {} tokens, less than one window of {}", tokens.size(), ctx);
  const bool bos = half && tokenizer.add_bos() && tokenizer.bos().has_value();
  std::vector<Window> windows(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    Window& window = windows[static_cast<std::size_t>(i)];
    window.tokens.assign(tokens.begin() + i * ctx, tokens.begin() + (i + 1) * ctx);
    window.first = half ? ctx / 2 : 0;
    if (bos) window.tokens.front() = *tokenizer.bos();
  }
  return windows;
}

models::StepShape scoring_step(const models::Model& model, std::int64_t tokens) {
  const std::int64_t rows = std::min(tokens, kChunk);
  return {rows, tokens, std::min(rows, most_logit_rows(model))};
}

Status for_each_logits(models::Model& model, kvcache::PagePool& pool, std::span<const std::int32_t> tokens,
                       std::int64_t first, std::int64_t last,
                       FunctionRef<Status(std::int64_t position, std::span<float> logits)> visit) {
  const auto vocab = static_cast<std::size_t>(model.spec().vocab);
  const std::int64_t most_rows = most_logit_rows(model);
  const auto count = static_cast<std::int64_t>(tokens.size());
  kvcache::SequenceCache cache(pool);
  std::vector<float> logits;
  for (std::int64_t begin = 0; begin < std::min(count, last);) {
    // A step ends after most_rows wanted rows; rows before `first` are not wanted.
    const std::int64_t end = std::min({begin + kChunk, count, last, std::max(begin, first) + most_rows});
    models::Batch batch;
    batch.tokens.assign(tokens.begin() + begin, tokens.begin() + end);
    batch.sequences.push_back({&cache, 0, end - begin});
    for (std::int64_t i = std::max(begin, first); i < end; ++i) batch.logit_rows.push_back(i - begin);
    LITHE_RETURN_IF_ERROR(cache.reserve(end - begin));
    const std::size_t wanted = batch.logit_rows.size() * vocab;
    if (logits.size() < wanted) logits.resize(wanted);
    LITHE_RETURN_IF_ERROR(model.forward(batch, std::span(logits).first(wanted)));
    for (std::size_t row = 0; row < batch.logit_rows.size(); ++row) {
      LITHE_RETURN_IF_ERROR(
          visit(begin + batch.logit_rows[row], std::span(logits).subspan(row * vocab, vocab)));
    }
    begin = end;
  }
  return {};
}

Result<LogSum> log_sum(std::span<const float> logits, const kernels::KernelTable& kernels,
                       std::vector<float>& scratch) {
  const auto n = static_cast<std::int64_t>(logits.size());
  const std::int64_t argmax = kernels.argmax(logits.data(), n);
  if (argmax < 0) return internal("the model's logits are NaN");
  const float max = logits[static_cast<std::size_t>(argmax)];
  scratch.assign(logits.begin(), logits.end());
  const double sum = kernels.exp_sum(scratch.data(), max, n);
  if (!std::isfinite(max) || !std::isfinite(sum))
    return internal("the model's logits hold a NaN or an infinity");
  return LogSum{static_cast<double>(max) + std::log(sum), argmax};
}

double Moments::mean() const {
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

double Moments::standard_error() const {
  if (count < 2) return 0;
  const auto n = static_cast<double>(count);
  return std::sqrt(std::max(0.0, (squares - sum * sum / n) / (n - 1)) / n);
}

}  // namespace lithe::engine
