#include "engine/core.h"

#include <algorithm>
#include <limits>
#include <random>

#include "base/check.h"
#include "base/checked.h"

namespace lithe::engine {
namespace {

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// 53 bits: a number that JSON carries unharmed, so that a reported seed can be given back.
std::uint64_t fresh_seed() {
  std::random_device device;
  return ((std::uint64_t{device()} << 32) | device()) >> 11;
}

}  // namespace

Core::Core(CoreModel model, const CoreOptions& options)
    : model_(std::move(model)),
      options_(options),
      choosable_(std::min(model_.logits, model_.tokenizer->choosable())),
      scheduler_(*model_.pool, options.scheduler) {
  LITHE_CHECK(options.scheduler.max_num_batched_tokens >= options.scheduler.max_num_seqs);
  LITHE_CHECK(options.scheduler.max_num_seqs > 0 && options.max_model_len > 0);
}

Result<Limits> Core::price(std::span<const std::int32_t> tokens, const Request& request) const {
  LITHE_RETURN_IF_ERROR(sampling::validate(request.sampling, choosable_));
  LITHE_RETURN_IF_ERROR(validate_stops(request.stop));
  if (tokens.empty()) return invalid("the prompt is empty, and this model starts with no token of its own");
  for (const std::int32_t id : tokens) {
    if (id >= 0 && id < model_.logits) continue;
    return invalid("the prompt holds token {} (\"{}\"), but the model has rows for {} tokens only", id,
                   model_.tokenizer->written(id), model_.logits);
  }
  if (request.max_tokens < -1)
    return invalid("max_tokens is {}: it must be at least 0, or -1 = no limit", request.max_tokens);
  if (request.min_tokens < 0) return invalid("min_tokens is {}: it must be at least 0", request.min_tokens);
  for (const std::int32_t id : request.stop_token_ids) {
    if (id < 0 || id >= choosable_)
      return invalid("stop_token_ids names token {}: ids lie in [0, {})", id, choosable_);
  }

  const auto prompt = static_cast<std::int64_t>(tokens.size());
  const std::int64_t room = model_.pool->total() * model_.pool->page_tokens();
  const std::int64_t wanted = request.max_tokens < 0 ? 1 : request.max_tokens;
  const auto total = checked_add(prompt, wanted).value_or(std::numeric_limits<std::int64_t>::max());
  if (total > options_.max_model_len) {
    return invalid(
        "the prompt of {} tokens and an answer of {} exceed the length of {} tokens (--max-model-len)",
        prompt, wanted, options_.max_model_len);
  }
  if (total > room) {
    return invalid(
        "the prompt of {} tokens and an answer of {} exceed the key-value cache of {} tokens "
        "(--kv-cache-memory)",
        prompt, wanted, room);
  }
  Limits limits;
  limits.max_tokens =
      request.max_tokens < 0 ? std::min(options_.max_model_len, room) - prompt : request.max_tokens;
  limits.min_tokens = request.min_tokens;
  if (limits.min_tokens > limits.max_tokens) {
    return invalid("min_tokens is {}, more than the {} tokens an answer may have", limits.min_tokens,
                   limits.max_tokens);
  }
  limits.ignore_eos = request.ignore_eos;
  limits.stop_ids.insert(request.stop_token_ids.begin(), request.stop_token_ids.end());
  return limits;
}

Result<RequestId> Core::submit(std::vector<std::int32_t> tokens, const Request& request, OnText on_text,
                               OnDone on_done) {
  LITHE_ASSIGN_OR_RETURN(Limits limits, price(tokens, request));
  const std::uint64_t seed = request.sampling.seed.value_or(fresh_seed());
  sampling::Sampler sampler(request.sampling, seed, *model_.kernels);
  const RequestId id = next_id_++;
  auto sequence = std::make_unique<Sequence>(id, std::move(tokens), *model_.pool, std::move(sampler),
                                             *model_.tokenizer, request.stop);
  sequence->limits = std::move(limits);
  sequence->on_text = std::move(on_text);
  sequence->on_done = std::move(on_done);
  sequence->result.id = id;
  sequence->result.seed = seed;
  sequence->result.usage.prompt_tokens = static_cast<std::int64_t>(sequence->prompt);
  scheduler_.add(std::move(sequence));
  return id;
}

void Core::cancel(RequestId id) {
  const std::lock_guard lock(cancel_mutex_);
  cancelled_.insert(id);
}

/// Ends what was cancelled, and what wants no token.
void Core::retire() {
  std::set<RequestId> cancelled;
  {
    const std::lock_guard lock(cancel_mutex_);
    cancelled.swap(cancelled_);
  }
  std::vector<std::pair<Sequence*, FinishReason>> ended;
  const auto look = [&](const std::unique_ptr<Sequence>& sequence) {
    if (cancelled.contains(sequence->id)) {
      ended.emplace_back(sequence.get(), FinishReason::aborted);
    } else if (sequence->limits.max_tokens == 0) {
      ended.emplace_back(sequence.get(), FinishReason::length);
    }
  };
  std::for_each(scheduler_.running().begin(), scheduler_.running().end(), look);
  std::for_each(scheduler_.waiting().begin(), scheduler_.waiting().end(), look);
  for (const auto& [sequence, reason] : ended) finish(*sequence, reason);
}

models::Batch Core::build_batch(std::span<const Chunk> plan) const {
  models::Batch batch;
  for (const Chunk& chunk : plan) {
    Sequence& sequence = *chunk.sequence;
    const auto begin = static_cast<std::int64_t>(batch.tokens.size());
    const auto first = sequence.tokens.begin() + sequence.cache.length();
    batch.tokens.insert(batch.tokens.end(), first, first + chunk.count);
    batch.sequences.push_back({&sequence.cache, begin, chunk.count});
    if (chunk.count == sequence.remaining()) batch.logit_rows.push_back(begin + chunk.count - 1);
  }
  return batch;
}

void Core::step() {
  retire();
  if (idle()) return;
  const std::vector<Chunk> plan = scheduler_.plan();  // a copy: finish() changes the scheduler
  LITHE_CHECK(!plan.empty());
  const auto now = Clock::now();
  for (const Chunk& chunk : plan) {
    Sequence& sequence = *chunk.sequence;
    if (!sequence.was_started) sequence.was_started = true, sequence.started = now;
    const bool decode = sequence.answered() > 0 && sequence.remaining() == 1;
    (decode ? stats_.decode_tokens : stats_.prefill_tokens) += chunk.count;
  }
  const models::Batch batch = build_batch(plan);
  const auto width = static_cast<std::size_t>(model_.logits);
  const std::size_t wanted = batch.logit_rows.size() * width;
  if (logits_.size() < wanted) logits_.resize(wanted);
  ++stats_.steps;
  const Status status = model_.forward(batch, std::span(logits_).first(wanted));
  if (!status.ok()) {
    for (const Chunk& chunk : plan) finish(*chunk.sequence, FinishReason::failed, status);
    return;
  }
  std::size_t row = 0;
  for (const Chunk& chunk : plan) {
    if (chunk.sequence->remaining() > 0) continue;  // its prompt goes on
    advance(*chunk.sequence, std::span(logits_).subspan(row++ * width, static_cast<std::size_t>(choosable_)));
  }
}

void Core::ban(const Limits& limits, std::int64_t answered, std::span<float> logits) const {
  const auto all = [&](const std::set<std::int32_t>& ids) {
    for (const std::int32_t id : ids) {
      if (id >= 0 && static_cast<std::size_t>(id) < logits.size()) {
        logits[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
      }
    }
  };
  const bool early = answered < limits.min_tokens;
  if (limits.ignore_eos || early) all(model_.tokenizer->end_ids());
  if (early) all(limits.stop_ids);
}

/// One more token of a sequence whose keys and values are all there.
void Core::advance(Sequence& sequence, std::span<float> logits) {
  ban(sequence.limits, sequence.answered(), logits);
  const auto id = sequence.sampler.sample(logits, {sequence.tokens, sequence.prompt});
  if (!id.ok()) return finish(sequence, FinishReason::failed, id.status());
  sequence.last_token = Clock::now();
  if (sequence.answered() == 0) sequence.first_token = sequence.last_token;
  if (model_.tokenizer->ends_generation(*id) || sequence.limits.stop_ids.contains(*id)) {
    ++sequence.result.usage.completion_tokens;  // counted, not shown
    return finish(sequence, FinishReason::stop);
  }
  sequence.tokens.push_back(*id);
  if (!emit(sequence, sequence.stop.push(sequence.decoder.push(*id))))
    return finish(sequence, FinishReason::aborted);
  if (sequence.stop.matched()) return finish(sequence, FinishReason::stop);
  if (sequence.answered() >= sequence.limits.max_tokens) return finish(sequence, FinishReason::length);
  if (!options_.kv_cache) sequence.cache.truncate(0);
}

bool Core::emit(Sequence& sequence, const std::string& text) {
  if (text.empty()) return true;
  sequence.result.text += text;
  return !sequence.on_text || sequence.on_text(text);
}

void Core::finish(Sequence& sequence, FinishReason reason, Status status) {
  if (reason == FinishReason::stop || reason == FinishReason::length) {
    emit(sequence, sequence.stop.push(sequence.decoder.flush()) + sequence.stop.finish());
  }
  Completion& result = sequence.result;
  result.reason = reason;
  result.status = std::move(status);
  result.tokens.assign(sequence.tokens.begin() + static_cast<std::ptrdiff_t>(sequence.prompt),
                       sequence.tokens.end());
  Usage& usage = result.usage;
  usage.completion_tokens += sequence.answered();
  usage.kv_bytes = sequence.cache.pages().size() * model_.pool->page_bytes() +
                   sequence.cache.state().size() * sizeof(float);
  if (sequence.was_started) {
    usage.queue_seconds = seconds(sequence.submitted, sequence.started);
    if (sequence.first_token != Clock::time_point{}) {
      usage.prefill_seconds = seconds(sequence.started, sequence.first_token);
      usage.decode_seconds = seconds(sequence.first_token, sequence.last_token);
    }
  }
  const bool keep = options_.kv_cache && reason != FinishReason::failed;
  const auto owned = scheduler_.remove(sequence, keep);
  if (owned->on_done) owned->on_done(std::move(owned->result));
}

EngineStats Core::stats() const {
  EngineStats stats = stats_;
  stats.preemptions = scheduler_.preemptions();
  stats.running = static_cast<std::int64_t>(scheduler_.running().size());
  stats.waiting = static_cast<std::int64_t>(scheduler_.waiting().size());
  stats.pages_total = model_.pool->total();
  stats.pages_free = model_.pool->free();
  stats.pages_peak = model_.pool->peak_used();
  return stats;
}

}  // namespace lithe::engine
