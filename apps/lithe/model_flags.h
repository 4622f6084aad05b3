// The flags that commands share: which model, how it runs, how tokens are chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lithe/engine.h"

namespace lithe::app {

/// MODEL, threads, arithmetic, attention, cache type.
struct ModelFlags {
  std::string model, precision = "auto", attention = "flash", kv_type = "auto", chat_template,
                     chat_template_file;
  int threads = 0;
  bool check_tensors = false;

  enum class Text : bool { no, yes };
  /// text: adds the chat template's flags.
  void add(CLI::App& app, Text text);
  /// A path as given, a name in the model cache or in the hub's, or the default model when nothing was given. not_found says how to
  /// get one.
  Result<std::string> path() const;
  /// context: see ModelOptions.
  Result<ModelOptions> options(std::int64_t context = 0) const;
  /// path() and options() together.
  Result<std::shared_ptr<Model>> load(std::int64_t context = 0) const;
};

/// Length, batch, cache memory.
struct EngineFlags {
  std::int64_t max_model_len = 0, max_num_batched_tokens = 512;
  std::string kv_cache_memory;
  bool kv_cache = true;

  void add(CLI::App& app);
  /// For a command that runs one request at a time.
  Result<EngineOptions> options() const;
};

struct SamplingFlags {
  SamplingOptions sampling;
  std::int64_t max_tokens = -1, min_tokens = 0, seed = -1;
  std::vector<std::string> stop, logit_bias;
  bool ignore_eos = false;

  void add(CLI::App& app);
  /// Everything of a request but its prompt.
  Result<Request> request() const;
};

/// ${XDG_CACHE_HOME:-~/.cache}/lithe/models
std::string model_cache();
/// ${XDG_STATE_HOME:-~/.local/state}/lithe
std::string state_folder();

/// "0,512,2048" -> numbers, each within [least, most]. invalid_argument names the flag.
Result<std::vector<std::int64_t>> parse_list(const std::string& flag, const std::string& text,
                                             std::int64_t least, std::int64_t most);
/// "flash,naive" -> names, none of them empty but a lone one.
Result<std::vector<std::string>> parse_names(const std::string& flag, const std::string& text);

}  // namespace lithe::app
