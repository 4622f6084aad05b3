// Everything a model file holds, ready to use: weights, tokenizer, chat template, end tokens.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"
#include "lithe/engine.h"
#include "models/model.h"
#include "template/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace lithe::engine {

/// Owns its parts; neither copied nor moved, since the model points into the thread pool.
class LoadedModel {
 public:
  /// Errors name the file.
  static Result<std::unique_ptr<LoadedModel>> load(const std::string& path, const ModelOptions& options);

  const ModelInfo& info() const { return info_; }
  models::Model& model() { return *model_; }
  const models::Model& model() const { return *model_; }
  ThreadPool& threads() { return *threads_; }
  const kernels::KernelTable& kernels() const { return *kernels_; }
  const tokenizer::Tokenizer& tokenizer() const { return *tokenizer_; }

  /// A conversation through the chat template, ready for an answer (or not, when add_generation_prompt is false).
  /// Nothing in the messages becomes a control token; BOS appears once, whether the template writes it or not
  /// (field case 5). `messages` is the template's own JSON: further keys (tool_calls, ...) pass through.
  Result<std::vector<std::int32_t>> encode_chat(const chat::Json& messages,
                                                bool add_generation_prompt = true) const;
  Result<std::vector<std::int32_t>> encode_chat(std::span<const Message> messages) const;

 private:
  LoadedModel() = default;
  Status load_parts(const std::string& path, const ModelOptions& options);
  Status load_text(const formats::ModelFile& file, const std::string& chat_template);
  void describe(const formats::ModelFile& file);

  ModelInfo info_;
  std::unique_ptr<ThreadPool> threads_;
  const kernels::KernelTable* kernels_ = nullptr;
  std::optional<models::Model> model_;
  std::optional<tokenizer::Tokenizer> tokenizer_;
  std::optional<chat::ChatTemplate> template_;
  Status template_fault_;  // why template_ is empty although the file has one
};

/// unsupported: an encoder, which has no next token to tell.
Status check_writes_text(const LoadedModel& model);

/// Refuses a step whose scratch does not fit into `available` bytes: says how much it needs, and what lowers that.
Status check_scratch(const LoadedModel& model, const models::StepShape& step, std::uint64_t available);

/// A page pool for `tokens` of so many sequences, and the scratch for steps up to `step`. resource_exhausted, before any
/// work, when memory for them and for the sequences' states is not there.
Result<kvcache::PagePool> make_pool_that_fits(LoadedModel& model, std::int64_t tokens, std::int64_t sequences,
                                              const models::StepShape& step);

}  // namespace lithe::engine
