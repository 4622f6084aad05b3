// The public API over Core and LoadedModel.
#include "lithe/engine.h"

#include <algorithm>

#include "base/checked.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/core.h"
#include "engine/loaded_model.h"
#include "engine/model_impl.h"

namespace lithe {

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::aborted:
      return "abort";
    case FinishReason::failed:
      return "error";
  }
  return "error";
}

double Usage::prefill_rate() const {
  return prefill_seconds > 0 ? static_cast<double>(prompt_tokens - cached_tokens) / prefill_seconds : 0;
}

double Usage::decode_rate() const {
  return decode_seconds > 0 ? static_cast<double>(completion_tokens - 1) / decode_seconds : 0;
}

// --- Model ------------------------------------------------------------------------------------------------------------

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

Result<std::shared_ptr<Model>> Model::load(const std::string& path, const ModelOptions& options) {
  LITHE_ASSIGN_OR_RETURN(auto loaded, engine::LoadedModel::load(path, options));
  auto impl = std::make_unique<Impl>();
  impl->loaded = std::move(loaded);
  return std::shared_ptr<Model>(new Model(std::move(impl)));
}

const ModelInfo& Model::info() const {
  return impl_->loaded->info();
}

Result<std::vector<std::int32_t>> Model::tokenize(std::string_view text, bool special) const {
  tokenizer::EncodeOptions options;
  options.add_special = options.parse_special = special;
  return impl_->loaded->tokenizer().encode(text, options);
}

Result<std::string> Model::detokenize(std::span<const std::int32_t> ids, bool with_special) const {
  return impl_->loaded->tokenizer().decode(ids, with_special);
}

Result<std::vector<std::int32_t>> Model::tokenize_chat(std::span<const Message> messages) const {
  return impl_->loaded->encode_chat(messages);
}

// --- Engine -----------------------------------------------------------------------------------------------------------

namespace {

constexpr double kMemoryShare = 0.9;  // of what is free, that an automatic pool may claim

struct Sizes {
  std::int64_t length = 0;  // max_model_len
  std::int64_t pool = 0;    // tokens in the page pool
  models::StepShape step;   // the largest
};

/// What a run may take of memory, and what of it scratch takes.
class Room {
 public:
  Room(const engine::LoadedModel& model, const EngineOptions& options)
      : model_(model), options_(options), available_(available_memory()) {}

  std::uint64_t available() const { return available_; }
  /// For the cache and scratch together.
  std::uint64_t most() const {
    const bool given = options_.kv_cache_memory > 0;
    return given ? available_ : static_cast<std::uint64_t>(static_cast<double>(available_) * kMemoryShare);
  }
  models::StepShape step(std::int64_t length) const {
    return {std::min(options_.max_num_batched_tokens, length * options_.max_num_seqs), length,
            std::min<std::int64_t>(options_.max_num_seqs, options_.max_num_batched_tokens)};
  }
  /// Bytes for keys and values beside the scratch of steps over `length` keys.
  std::uint64_t for_cache(std::int64_t length) const {
    const std::uint64_t scratch = model_.model().scratch_bytes(step(length));
    const std::uint64_t taken = scratch + states();
    const std::uint64_t left = most() - std::min(most(), taken);
    return options_.kv_cache_memory > 0 ? std::min(left, options_.kv_cache_memory) : left;
  }
  /// Of recurrent layers: one for each sequence that runs or is kept warm.
  std::uint64_t states() const {
    return model_.model().memory().state *
           static_cast<std::uint64_t>(options_.max_num_seqs + options_.warm_prefixes);
  }
  /// Tokens whose keys and values fit there, in whole pages.
  std::int64_t tokens(std::int64_t length) const {
    const std::uint64_t page =
        std::max<std::uint64_t>(model_.info().kv_bytes_per_token, 1) * kernels::kPageTokens;
    return static_cast<std::int64_t>(for_cache(length) / page) * kernels::kPageTokens;
  }
  /// The longest context up to `most` that fits together with its scratch; below a page: none does.
  std::int64_t longest(std::int64_t most) const {
    std::int64_t fits = 0, too_long = most + 1;
    while (too_long - fits > 1) {
      const std::int64_t middle = fits + (too_long - fits) / 2;
      (middle <= tokens(middle) ? fits : too_long) = middle;
    }
    return fits;
  }

 private:
  const engine::LoadedModel& model_;
  const EngineOptions& options_;
  std::uint64_t available_;
};

/// The length and the pool that options and memory allow. What the user asked for is granted or refused, what he left
/// open shrinks to what fits. The pool's pages are touched only when used, so a generous pool costs nothing.
Result<Sizes> size_pool(const engine::LoadedModel& model, const EngineOptions& options) {
  const ModelInfo& info = model.info();
  const Room room(model, options);
  const auto bytes = [](std::uint64_t count) { return human_bytes(static_cast<double>(count)); };
  const bool explicit_memory = options.kv_cache_memory > 0;
  if (options.kv_cache_memory > room.available()) {
    return exhausted("the key-value cache needs {} (--kv-cache-memory), but only {} are free",
                     bytes(options.kv_cache_memory), bytes(room.available()));
  }
  if (const std::uint64_t states = room.states(); states > room.most()) {
    return exhausted("the states of {} sequences need {}, but {} are free: run fewer at once",
                     options.max_num_seqs + options.warm_prefixes, bytes(states), bytes(room.most()));
  }
  Sizes sizes;
  sizes.length = options.max_model_len > 0 ? options.max_model_len : info.context;
  // Beyond what the cache alone could hold, scratch is no question.
  const std::uint64_t per_token = std::max<std::uint64_t>(info.kv_bytes_per_token, 1);
  const auto most = static_cast<std::int64_t>(room.for_cache(1) / per_token);
  const std::int64_t longest = room.longest(std::min(sizes.length, most));
  if (longest < sizes.length) {
    if (options.max_model_len > 0 || longest < kernels::kPageTokens) {
      if (sizes.length <= most || longest < kernels::kPageTokens) {
        const std::uint64_t cache =
            explicit_memory ? options.kv_cache_memory : static_cast<std::uint64_t>(sizes.length) * per_token;
        LITHE_RETURN_IF_ERROR(engine::check_scratch(model, room.step(sizes.length),
                                                    room.most() - std::min(cache, room.most())));
      }
      return exhausted(
          "a context of {} tokens needs {} of key-value cache, but {} {}: lower --max-model-len (-c), or use "
          "a smaller --kv-cache-dtype (q8_0)",
          sizes.length, human_bytes(static_cast<double>(sizes.length) * static_cast<double>(per_token)),
          bytes(room.for_cache(std::min(sizes.length, most))),
          explicit_memory ? "are allowed (--kv-cache-memory)" : "are free");
    }
    log_warning("context limited to {} of {} tokens: {} of key-value cache fit", longest, sizes.length,
                bytes(room.for_cache(longest)));
    sizes.length = longest;
  }
  const std::int64_t fits = room.tokens(sizes.length);
  const auto whole = checked_mul(round_up<std::int64_t>(sizes.length, kernels::kPageTokens),
                                 static_cast<std::int64_t>(options.max_num_seqs + options.warm_prefixes));
  sizes.pool = explicit_memory ? fits : std::min(fits, whole.value_or(fits));
  sizes.step = room.step(sizes.length);
  return sizes;
}

Status check_options(const EngineOptions& options) {
  if (options.max_num_seqs < 1 || options.max_num_seqs > 4096) {
    return invalid("max_num_seqs is {}: it must lie in [1, 4096]", options.max_num_seqs);
  }
  if (options.max_num_batched_tokens < options.max_num_seqs || options.max_num_batched_tokens > (1 << 20)) {
    return invalid("max_num_batched_tokens is {}: it must lie in [max_num_seqs = {}, 1048576]",
                   options.max_num_batched_tokens, options.max_num_seqs);
  }
  if (options.max_model_len < 0 || options.max_model_len > (std::int64_t{1} << 40)) {
    return invalid("max_model_len is {}: it must lie in [1, 2^40], or 0 = the model's",
                   options.max_model_len);
  }
  if (options.warm_prefixes < 0 || options.warm_prefixes > 1024) {
    return invalid("warm_prefixes is {}: it must lie in [0, 1024]", options.warm_prefixes);
  }
  return {};
}

}  // namespace

struct Engine::Impl {
  std::shared_ptr<Model> model;
  std::int64_t max_model_len = 0;
  std::optional<kvcache::PagePool> pool;  // outlives core, whose sequences give their pages back
  std::optional<engine::Core> core;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::create(std::shared_ptr<Model> model, const EngineOptions& options) {
  LITHE_RETURN_IF_ERROR(check_options(options));
  engine::LoadedModel& loaded = *model->impl().loaded;
  LITHE_RETURN_IF_ERROR(engine::check_writes_text(loaded));
  LITHE_ASSIGN_OR_RETURN(const Sizes sizes, size_pool(loaded, options));
  if (sizes.length > loaded.info().context) {
    log_warning("a context of {} tokens is longer than the {} this model was trained on", sizes.length,
                loaded.info().context);
  }
  auto impl = std::make_unique<Impl>();
  LITHE_ASSIGN_OR_RETURN(impl->pool, loaded.model().make_pool(sizes.pool));
  LITHE_RETURN_IF_ERROR(loaded.model().reserve(sizes.step));
  impl->max_model_len = sizes.length;
  engine::CoreModel port;
  port.forward = [&loaded](const models::Batch& batch, std::span<float> logits) {
    return loaded.model().forward(batch, logits);
  };
  port.logits = loaded.model().spec().vocab;
  port.tokenizer = &loaded.tokenizer();
  port.kernels = &loaded.kernels();
  port.pool = &*impl->pool;
  engine::CoreOptions core;
  core.scheduler = {options.max_num_seqs, options.max_num_batched_tokens,
                    static_cast<std::size_t>(options.warm_prefixes)};
  core.max_model_len = sizes.length;
  core.kv_cache = options.kv_cache;
  impl->core.emplace(std::move(port), core);
  impl->model = std::move(model);
  return Engine(std::move(impl));
}

/// The prompt of a request as ids.
Result<std::vector<std::int32_t>> Engine::prompt_tokens(const Request& request) const {
  const int given =
      int{!request.messages.empty()} + int{request.prompt.has_value()} + int{!request.tokens.empty()};
  if (given != 1) {
    return invalid("a request holds {} of messages, prompt and tokens: it must hold exactly one", given);
  }
  if (!request.messages.empty()) return impl_->model->tokenize_chat(request.messages);
  if (request.prompt) return impl_->model->tokenize(*request.prompt);
  return request.tokens;
}

Result<RequestId> Engine::submit(const Request& request, OnText on_text, OnDone on_done) {
  LITHE_ASSIGN_OR_RETURN(auto tokens, prompt_tokens(request));
  return impl_->core->submit(std::move(tokens), request, std::move(on_text), std::move(on_done));
}

Status Engine::check(const Request& request) const {
  LITHE_ASSIGN_OR_RETURN(const auto tokens, prompt_tokens(request));
  return impl_->core->price(tokens, request).status();
}

void Engine::step() {
  impl_->core->step();
}
bool Engine::idle() const {
  return impl_->core->idle();
}
void Engine::cancel(RequestId id) {
  impl_->core->cancel(id);
}

Result<Completion> Engine::generate(const Request& request, OnText on_text) {
  std::optional<Completion> completion;
  const auto id = submit(request, std::move(on_text), [&](Completion done) { completion = std::move(done); });
  if (!id.ok()) return id.status();
  while (!completion) step();
  return std::move(*completion);
}

std::int64_t Engine::max_model_len() const {
  return impl_->max_model_len;
}
EngineStats Engine::stats() const {
  return impl_->core->stats();
}
Status Engine::check_integrity() const {
  return impl_->pool->check_integrity();
}

}  // namespace lithe
