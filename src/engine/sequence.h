// One request on its way: its tokens, its pages, its sampler, and what has been said so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <vector>

#include "engine/stop_matcher.h"
#include "kvcache/kv_pool.h"
#include "lithe/engine.h"
#include "sampling/sampler.h"
#include "tokenizer/tokenizer.h"

namespace lithe::engine {

using Clock = std::chrono::steady_clock;

/// When the answer ends.
struct Limits {
  std::int64_t max_tokens = 0;  // of the answer, resolved against the length
  std::int64_t min_tokens = 0;
  bool ignore_eos = false;
  std::set<std::int32_t> stop_ids;  // the request's own; the model's end tokens are the tokenizer's
};

struct Sequence {
  Sequence(RequestId request, std::vector<std::int32_t> prompt_tokens, kvcache::PagePool& pool,
           sampling::Sampler token_sampler, const tokenizer::Tokenizer& tokenizer,
           std::vector<std::string> stops)
      : id(request),
        tokens(std::move(prompt_tokens)),
        prompt(tokens.size()),
        cache(pool),
        sampler(std::move(token_sampler)),
        decoder(tokenizer),
        stop(std::move(stops)) {}

  const RequestId id;
  std::vector<std::int32_t> tokens;  // prompt, then answer
  const std::size_t prompt;
  kvcache::SequenceCache cache;  // holds the keys and values of the first cache.length() tokens
  Limits limits;
  sampling::Sampler sampler;
  tokenizer::StreamDecoder decoder;
  StopMatcher stop;
  OnText on_text;
  OnDone on_done;
  Completion result;
  Clock::time_point submitted = Clock::now(), started, first_token, last_token;
  bool was_started = false;

  /// Tokens whose keys and values are still to be computed: 1 while decoding.
  std::int64_t remaining() const { return static_cast<std::int64_t>(tokens.size()) - cache.length(); }
  std::int64_t answered() const { return static_cast<std::int64_t>(tokens.size() - prompt); }
};

}  // namespace lithe::engine
