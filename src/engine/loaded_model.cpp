#include "engine/loaded_model.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/checked.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/text.h"
#include "formats/model_file.h"
#include "models/gguf_vocab.h"
#include "models/open_model.h"

namespace lithe::engine {
namespace {

models::ModelOptions model_options(const ModelOptions& options, const kernels::KernelTable* kernels) {
  models::ModelOptions out;
  out.kernels = kernels;
  out.check_tensors = options.check_tensors;
  out.context = options.context;
  if (options.f32_activations) out.precision = models::Precision::f32;
  switch (options.attention) {
    case AttentionKind::flash:
      out.attention = models::AttentionMode::flash;
      break;
    case AttentionKind::naive:
      out.attention = models::AttentionMode::naive;
      break;
    case AttentionKind::chunked:
      out.attention = models::AttentionMode::chunked;
      break;
  }
  switch (options.kv_type) {
    case KvType::f32:
      out.kv_dtype = DType::f32;
      break;
    case KvType::q8_0:
      out.kv_dtype = DType::q8_0;
      break;
    case KvType::f16:
    case KvType::automatic:
      out.kv_dtype = DType::f16;
      break;
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(const std::string& path, const ModelOptions& options) {
  std::unique_ptr<LoadedModel> out(new LoadedModel());
  LITHE_RETURN_IF_ERROR(out->load_parts(path, options));
  return out;
}

Status LoadedModel::load_parts(const std::string& path, const ModelOptions& options) {
  if (options.threads < 0 || options.threads > 1024) {
    return invalid("threads is {}: it must lie in [1, 1024], or 0 = as many as are free", options.threads);
  }
  if (options.context < 0)
    return invalid("context is {}: it must be positive, or 0 = the trained length", options.context);
  LITHE_ASSIGN_OR_RETURN(kernels_, kernels::default_kernel_table());
  LITHE_ASSIGN_OR_RETURN(const auto opened, models::open_model(path));
  const formats::ModelFile& file = *opened;
  LITHE_ASSIGN_OR_RETURN(threads_,
                         ThreadPool::create(options.threads > 0 ? options.threads : default_threads()));
  LITHE_RETURN_IF_ERROR(load_text(file, options.chat_template).with_context(path));
  auto model = models::Model::load(file, model_options(options, kernels_), *threads_);
  if (!model.ok()) return std::move(model).status();  // names the file
  model_.emplace(std::move(model).value());
  info_.path = path;
  describe(file);
  return {};
}

Status LoadedModel::load_text(const formats::ModelFile& file, const std::string& chat_template) {
  LITHE_ASSIGN_OR_RETURN(const tokenizer::VocabSpec spec, models::vocab_spec(file.metadata()));
  LITHE_ASSIGN_OR_RETURN(tokenizer_, tokenizer::Tokenizer::create(spec));
  std::optional<std::string_view> source;
  if (!chat_template.empty()) {
    source = chat_template;
  } else {
    LITHE_ASSIGN_OR_RETURN(source, models::chat_template(file.metadata()));
  }
  if (!source) return {};
  auto parsed = chat::ChatTemplate::parse(*source);
  if (parsed.ok()) {
    template_.emplace(std::move(parsed).value());
    return {};
  }
  // Plain completion works without it, so only a template given by hand is fatal here.
  template_fault_ = std::move(parsed).status().with_context("the chat template");
  if (!chat_template.empty()) return template_fault_;
  log_warning("{}", template_fault_.message());
  return {};
}

void LoadedModel::describe(const formats::ModelFile& file) {
  const models::ArchSpec& spec = model_->spec();
  info_.family = spec.family;
  info_.name = spec.name;
  info_.isa = kernels_->name;
  info_.threads = threads_->size();
  info_.context = spec.context;
  info_.vocab = std::min(spec.vocab, tokenizer_->size());
  info_.file_bytes = file.file_bytes();
  info_.weight_bytes = model_->memory().weights;
  info_.kv_bytes_per_token = model_->memory().kv_page / kernels::kPageTokens;
  info_.has_chat_template = template_.has_value();
  std::map<std::string_view, std::int64_t> weights_by_type;
  for (const formats::GgufTensor& tensor : file.tensors()) {
    std::int64_t count = 1;
    for (const std::uint64_t dim : tensor.dims)
      count *= static_cast<std::int64_t>(dim);  // checked by the loader
    info_.parameters += count;
    if (tensor.format != nullptr) weights_by_type[tensor.format->name] += count;
  }
  const auto most = std::max_element(weights_by_type.begin(), weights_by_type.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != weights_by_type.end()) info_.weight_type = most->first;
}

Result<std::vector<std::int32_t>> LoadedModel::encode_chat(const chat::Json& messages,
                                                           bool add_generation_prompt) const {
  if (!template_) {
    if (!template_fault_.ok()) return template_fault_;
    return invalid(
        "{} has no chat template: give one with --chat-template-file, or a plain prompt with --raw",
        info_.path);
  }
  chat::Json context;
  context["messages"] = messages;
  context["add_generation_prompt"] = add_generation_prompt;
  const auto written = [&](std::optional<tokenizer::TokenId> id) {
    return std::string(id ? tokenizer_->written(*id) : std::string_view());
  };
  context["bos_token"] = written(tokenizer_->bos());
  context["eos_token"] = written(tokenizer_->eos());
  LITHE_ASSIGN_OR_RETURN(const chat::Rendered rendered, template_->render(context));
  std::vector<tokenizer::ByteRange> untrusted;
  untrusted.reserve(rendered.untrusted.size());
  for (const auto& [begin, end] : rendered.untrusted) untrusted.push_back({begin, end});
  tokenizer::EncodeOptions options;
  options.untrusted = untrusted;
  return tokenizer_->encode(rendered.text, options);
}

Result<std::vector<std::int32_t>> LoadedModel::encode_chat(std::span<const Message> messages) const {
  chat::Json list = chat::Json::array();
  for (const Message& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  return encode_chat(list);
}

Status check_writes_text(const LoadedModel& model) {
  if (model.model().spec().causal) return {};
  return unsupported("{} is an encoder, which writes no text: `lithe embed` and `lithe rerank` are for it",
                     model.info().path);
}

Status check_scratch(const LoadedModel& model, const models::StepShape& step, std::uint64_t available) {
  const std::uint64_t needed = model.model().scratch_bytes(step);
  if (needed <= available) return {};
  const bool flash = model.model().options().attention == models::AttentionMode::flash;
  return exhausted(
      "a step of {} tokens over {} keys on {} threads needs {} of scratch{}, but {} are left for it: take a "
      "smaller step "
      "(-b, -ub), a shorter context (-c){} or fewer threads (-t)",
      step.rows, step.keys, model.info().threads, human_bytes(static_cast<double>(needed)),
      flash ? "" : ", most of it attention's scores", human_bytes(static_cast<double>(available)),
      flash ? "" : ", --attention flash");
}

Result<kvcache::PagePool> make_pool_that_fits(LoadedModel& model, std::int64_t tokens, std::int64_t sequences,
                                              const models::StepShape& step) {
  constexpr std::uint64_t kTooMany = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t free = available_memory();
  const auto states = checked_mul(static_cast<std::uint64_t>(sequences), model.model().memory().state);
  const auto pages = checked_mul(static_cast<std::uint64_t>(tokens), model.info().kv_bytes_per_token);
  const std::uint64_t needed = pages && states ? checked_add(*pages, *states).value_or(kTooMany) : kTooMany;
  if (needed > free) {
    return exhausted(
        "{} tokens need {} ({} bytes) of key-value cache, but {} ({} bytes) are free: take a shorter "
        "context (-c), fewer sequences, or a smaller --kv-cache-dtype (q8_0)",
        tokens, human_bytes(static_cast<double>(needed)), needed, human_bytes(static_cast<double>(free)),
        free);
  }
  LITHE_RETURN_IF_ERROR(check_scratch(model, step, free - needed));
  LITHE_ASSIGN_OR_RETURN(kvcache::PagePool pool, model.model().make_pool(tokens));
  LITHE_RETURN_IF_ERROR(model.model().reserve(step));
  return pool;
}

}  // namespace lithe::engine
