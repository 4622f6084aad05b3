// Lithe's public API: load a model, ask it, stream the answer. No third-party types.
//
//   auto model = lithe::Model::load("model.gguf");
//   if (!model.ok()) return complain(model.status().message());
//   auto engine = lithe::Engine::create(model.value());
//   if (!engine.ok()) return complain(engine.status().message());
//   lithe::Request request;
//   request.messages = {{"user", "What is a page table?"}};
//   auto answer = engine->generate(request, [](std::string_view text) { std::cout << text; return true; });
//
// Promise: on one machine and instruction set, a request's tokens depend on its prompt, its options and its seed alone,
// never on what else is running, how its prompt is cut, or how many threads work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/sampling.h"
#include "lithe/status.h"

namespace lithe {

enum class KvType : std::uint8_t { automatic, f32, f16, q8_0 };
enum class AttentionKind : std::uint8_t { flash, naive, chunked };

struct ModelOptions {
  int threads = 0;               // 0: physical cores within the cgroup's quota and the affinity mask
  bool f32_activations = false;  // full fidelity instead of the fastest arithmetic
  AttentionKind attention = AttentionKind::flash;
  KvType kv_type = KvType::automatic;  // automatic: f16
  bool check_tensors = false;          // look for NaN and Inf while loading
  std::string chat_template;           // overrides the file's; empty: the file's own
  std::int64_t context =
      0;  // the longest that a run may get, on which some rotary scalings depend; 0: the trained length
};

/// What a loaded model is. Bytes are exact, not estimates.
struct ModelInfo {
  std::string path, family, name, isa;
  std::string weight_type;  // of most weights: "q4_1", ...
  int threads = 0;
  std::int64_t context = 0;  // trained length in tokens
  std::int64_t vocab = 0;    // ids below this may be chosen
  std::int64_t parameters = 0;
  std::uint64_t file_bytes = 0, weight_bytes = 0, kv_bytes_per_token = 0;
  bool has_chat_template = false;
};

struct Message {
  std::string role;  // "system", "user", "assistant", ...
  std::string content;
};

/// A model, its tokenizer and its chat template. Outlives the engines made of it by shared ownership; one engine at a
/// time may run it.
class Model {
 public:
  /// not_found, corrupt, unsupported, resource_exhausted: with the file's name and what is wrong with it.
  static Result<std::shared_ptr<Model>> load(const std::string& path, const ModelOptions& options = {});
  ~Model();

  const ModelInfo& info() const;
  /// special: control tokens written in the text become their ids, and BOS is put first where the model wants it.
  Result<std::vector<std::int32_t>> tokenize(std::string_view text, bool special = true) const;
  Result<std::string> detokenize(std::span<const std::int32_t> ids, bool with_special = true) const;
  /// A conversation as the model's own template writes it, ready for an answer. Control tokens in the messages stay
  /// plain text. invalid_argument: the template's own complaint, or no template.
  Result<std::vector<std::int32_t>> tokenize_chat(std::span<const Message> messages) const;

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct EngineOptions {
  std::int64_t max_model_len = 0;  // prompt and answer together; 0: the model's, or what fits in memory
  int max_num_seqs = 16;           // requests in one step
  std::int64_t max_num_batched_tokens = 512;  // tokens in one step: every running decode, then prompts
  std::uint64_t kv_cache_memory = 0;          // bytes; 0: room for max_num_seqs full lengths, or what fits
  bool kv_cache = true;                       // false: recompute everything each step (a baseline; same text)
  int warm_prefixes = 0;  // finished requests whose keys and values stay for a longer prompt
};

/// One question. Exactly one of messages, prompt and tokens is set.
struct Request {
  std::vector<Message> messages;      // through the model's chat template
  std::optional<std::string> prompt;  // as it is
  std::vector<std::int32_t> tokens;   // ids, as they are
  SamplingOptions sampling;
  std::int64_t max_tokens = -1;   // of the answer; -1: until the length is full
  std::int64_t min_tokens = 0;    // no end before this many
  std::vector<std::string> stop;  // the answer ends before the first of these; at most 64
  std::vector<std::int32_t> stop_token_ids;
  bool ignore_eos = false;  // end tokens are never chosen
};

using RequestId = std::int64_t;

enum class FinishReason : std::uint8_t { stop, length, aborted, failed };
const char* finish_reason_name(FinishReason reason);

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;      // of the prompt, found warm
  std::int64_t completion_tokens = 0;  // the end token, where there was one, included
  double queue_seconds = 0;            // submitted -> first computed
  double prefill_seconds = 0;          // first computed -> first token
  double decode_seconds = 0;           // first token -> last token
  std::uint64_t kv_bytes = 0;          // pages held at the end
  int preemptions = 0;

  double prefill_rate() const;  // computed prompt tokens a second; 0 when unknown
  double decode_rate() const;   // tokens after the first, a second; 0 when unknown
};

/// How a request ended; every request ends exactly once.
struct Completion {
  RequestId id = 0;
  std::string text;                  // what was streamed, in one piece
  std::vector<std::int32_t> tokens;  // chosen, without the end token
  FinishReason reason = FinishReason::stop;
  Status status;           // why, when failed
  std::uint64_t seed = 0;  // the one used
  Usage usage;
};

/// A piece of the answer: valid UTF-8, never a part of a stop string. False ends the request (aborted).
/// Neither callback may throw: step() would be left half done. Catch inside, and return false.
using OnText = std::function<bool(std::string_view text)>;
using OnDone = std::function<void(Completion completion)>;

struct EngineStats {
  std::int64_t steps = 0, prefill_tokens = 0, decode_tokens = 0, preemptions = 0;
  std::int64_t running = 0, waiting = 0;
  std::int64_t pages_total = 0, pages_free = 0, pages_peak = 0;
};

/// Continuous batching over one model. One thread drives it; cancel() alone may be called from others.
class Engine {
 public:
  /// resource_exhausted names what is needed, what is there and which options help.
  static Result<Engine> create(std::shared_ptr<Model> model, const EngineOptions& options = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  /// Checks and prices the request before any work. invalid_argument names the field, or both lengths.
  Result<RequestId> submit(const Request& request, OnText on_text = {}, OnDone on_done = {});
  /// What submit() would say, without submitting.
  Status check(const Request& request) const;
  /// One forward pass over everything that runs; calls back. Does nothing when idle.
  void step();
  bool idle() const;
  /// Ends the request at the next step, with what it has; unknown ids are ignored. Thread-safe.
  void cancel(RequestId id);
  /// submit() and step() until this request is done.
  Result<Completion> generate(const Request& request, OnText on_text = {});

  std::int64_t max_model_len() const;
  EngineStats stats() const;
  /// Page counts add up; for tests and an idle engine.
  Status check_integrity() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  Result<std::vector<std::int32_t>> prompt_tokens(const Request& request) const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lithe
