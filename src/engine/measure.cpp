#include "engine/measure.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "base/checked.h"
#include "base/rng.h"

namespace lithe::engine {
namespace {

using Clock = std::chrono::steady_clock;

/// Runs batches of random tokens over a few caches.
class Bench {
 public:
  Bench(LoadedModel& model, kvcache::PagePool& pool, const SpeedTest& test)
      : model_(model),
        test_(test),
        rng_((std::uint64_t{std::random_device{}()} << 32) | std::random_device{}()) {
    for (std::int64_t i = 0; i < test.rows; ++i) caches_.emplace_back(pool);
    logits_.resize(static_cast<std::size_t>(test.rows * model.model().spec().vocab));
  }

  /// `count` new tokens in each cache, the last one's logits wanted. Sequences go one after another when a step holds
  /// no more.
  Status prefill(std::int64_t count) {
    for (auto& cache : caches_) {
      for (std::int64_t done = 0; done < count;) {
        const std::int64_t chunk = std::min(count - done, test_.step);
        models::Batch batch;
        random_tokens(batch, chunk);
        batch.sequences.push_back({&cache, 0, chunk});
        done += chunk;
        if (done == count) batch.logit_rows.push_back(chunk - 1);
        LITHE_RETURN_IF_ERROR(forward(batch));
      }
    }
    return {};
  }

  /// One token for each cache, in one pass.
  Status decode() {
    models::Batch batch;
    random_tokens(batch, test_.rows);
    for (std::int64_t i = 0; i < test_.rows; ++i) {
      batch.sequences.push_back({&caches_[static_cast<std::size_t>(i)], i, 1});
      batch.logit_rows.push_back(i);
    }
    return forward(batch);
  }

  /// One token for each cache, everything before it computed again.
  Status decode_without_cache() {
    const std::int64_t length = caches_.front().length() + 1;
    truncate(0);
    return prefill(length);
  }

  void truncate(std::int64_t length) {
    for (auto& cache : caches_) cache.truncate(length);
  }

  /// To so many tokens; a recurrent state gets there from the beginning alone.
  Status go_back(std::int64_t length) {
    truncate(length);
    return caches_.front().length() < length ? prefill(length) : Status();
  }

 private:
  void random_tokens(models::Batch& batch, std::int64_t count) {
    const auto vocab = static_cast<std::uint64_t>(model_.info().vocab);
    for (std::int64_t i = 0; i < count; ++i)
      batch.tokens.push_back(static_cast<std::int32_t>(rng_.next_u64() % vocab));
  }

  Status forward(const models::Batch& batch) {
    for (const auto& sequence : batch.sequences)
      LITHE_RETURN_IF_ERROR(sequence.cache->reserve(sequence.count));
    const std::size_t wanted =
        batch.logit_rows.size() * static_cast<std::size_t>(model_.model().spec().vocab);
    return model_.model().forward(batch, std::span(logits_).first(wanted));
  }

  LoadedModel& model_;
  const SpeedTest& test_;
  Rng rng_;
  std::vector<kvcache::SequenceCache> caches_;
  std::vector<float> logits_;
};

Status run_once(Bench& bench, const SpeedTest& test) {
  if (test.prompt > 0) return bench.prefill(test.prompt);
  for (std::int64_t i = 0; i < test.generate; ++i) {
    LITHE_RETURN_IF_ERROR(test.kv_cache ? bench.decode() : bench.decode_without_cache());
  }
  return {};
}

/// Bytes and operations of one repetition, from the model's shape.
void price(const LoadedModel& model, const SpeedTest& test, Speed& speed) {
  const auto weights = [&](std::int64_t together) { return model.model().pass_bytes(together); };
  const auto kv = static_cast<double>(model.info().kv_bytes_per_token);
  const auto state = 2.0 * static_cast<double>(model.model().memory().state);  // read and written by a pass
  const auto layer = 2.0 * static_cast<double>(model.model().layer_macs());
  const auto head = 2.0 * static_cast<double>(model.model().head_macs());
  const auto last = 2.0 * static_cast<double>(model.model().last_macs());
  const auto rows = static_cast<double>(test.rows), depth = static_cast<double>(test.depth);
  if (test.prompt > 0) {
    const auto n = static_cast<double>(test.prompt);
    const auto passes = static_cast<double>(ceil_div(test.prompt, test.step));
    speed.tokens = n * rows;
    speed.bytes = rows * passes * (weights(std::min(test.prompt, test.step)) + state + kv * (depth + n / 2));
    speed.operations = rows * (n * layer - (n - 1) * last + head);
    return;
  }
  const auto n = static_cast<double>(test.generate);
  const double length = depth + (n + 1) / 2;  // of each cache, on average
  speed.tokens = n * rows;
  if (test.kv_cache) {
    speed.bytes = n * (weights(test.rows) + rows * (state + kv * length));
    speed.operations = n * rows * (layer + head);
  } else {
    speed.bytes =
        n * rows * (weights(std::max<std::int64_t>(1, static_cast<std::int64_t>(length))) + kv * length);
    speed.operations = n * rows * (length * layer - (length - 1) * last + head);
  }
}

}  // namespace

double Speed::median_seconds() const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  if (n == 0) return 0;
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

std::vector<double> Speed::rates() const {
  std::vector<double> out;
  out.reserve(seconds.size());
  for (const double s : seconds) out.push_back(tokens / s);
  return out;
}

Result<Speed> measure(LoadedModel& model, const SpeedTest& test, FunctionRef<bool()> keep_going) {
  LITHE_RETURN_IF_ERROR(check_writes_text(model));
  const std::int64_t length = test.depth + test.prompt + test.generate + 1;
  const std::int64_t page = kernels::kPageTokens;
  const std::int64_t prefill = std::max({test.prompt, test.depth, test.kv_cache ? 1 : length});
  const models::StepShape step{std::max(test.rows, std::min(test.step, prefill)), length, test.rows};
  LITHE_ASSIGN_OR_RETURN(kvcache::PagePool pool,
                         make_pool_that_fits(model, test.rows * round_up(length, page), test.rows, step));
  Speed speed;
  price(model, test, speed);
  Bench bench(model, pool, test);
  if (test.depth > 0) LITHE_RETURN_IF_ERROR(bench.prefill(test.depth));
  model.model()
      .reset_peak_attention();  // what the test itself needs, not the tests before it or filling the cache
  for (int i = -1; i < test.repetitions; ++i) {
    if (!keep_going()) return cancelled("stopped");
    if (!test.kv_cache && i >= 0) {  // recomputing leaves longer caches behind
      bench.truncate(0);
      if (test.depth > 0) LITHE_RETURN_IF_ERROR(bench.prefill(test.depth));
    }
    LITHE_RETURN_IF_ERROR(bench.go_back(test.depth));
    const auto start = Clock::now();
    LITHE_RETURN_IF_ERROR(run_once(bench, test));
    if (i >= 0) speed.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  speed.peak_attention = model.model().memory().peak_attention;
  return speed;
}

ArithmeticCeiling arithmetic_ceiling(const LoadedModel& model, const Ceilings& ceilings) {
  const bool f32 = model.model().options().precision == models::Precision::f32;
  const BlockFormat* format = find_format(model.info().weight_type);
  if (!f32 && format != nullptr && format->quantized()) return {ceilings.int8_gops, "int8"};
  if (!f32 && format != nullptr && format->dtype == DType::bf16 && ceilings.bf16_gflops > 0) {
    return {ceilings.bf16_gflops, "bf16"};
  }
  return {ceilings.f32_gflops, "f32"};
}

}  // namespace lithe::engine
