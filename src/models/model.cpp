#include "models/model.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "base/checked.h"
#include "models/decoder.h"
#include "models/loader.h"

namespace lithe::models {
namespace {

std::uint64_t linear_macs(const layers::Linear& linear) {
  return static_cast<std::uint64_t>(linear.out_features() * linear.in_features());
}

// Multiply-adds of a token; of a mixture those of the experts it meets, all experts being of one shape.
std::uint64_t token_macs(const DecoderLayer& layer) {
  std::uint64_t macs = 0;
  for (const layers::Linear* linear : layer.linears()) macs += linear_macs(*linear);
  if (!layer.moe) return macs;
  const auto idle = static_cast<std::uint64_t>(layer.moe.rule.experts - layer.moe.rule.used);
  for (const auto* stack : {&layer.moe.gate, &layer.moe.up, &layer.moe.down}) {
    macs -= idle * linear_macs(stack->front());
  }
  return macs;
}

}  // namespace

struct Model::Impl {
  ModelOptions options;
  Decoder decoder;
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Result<Model> Model::load(const formats::ModelFile& file, const ModelOptions& options, ThreadPool& pool) {
  ModelOptions resolved = options;
  if (resolved.kernels == nullptr) {
    LITHE_ASSIGN_OR_RETURN(resolved.kernels, kernels::default_kernel_table());
  }
  if (options.kv_dtype != DType::f32 && options.kv_dtype != DType::f16 && options.kv_dtype != DType::q8_0) {
    return invalid("a KV cache of type {} does not run: f32, f16 or q8_0",
                   block_format(options.kv_dtype).name);
  }
  const LoadOptions load{options.precision == Precision::f32, options.check_tensors, options.context};
  auto loaded = load_model(file, load, *resolved.kernels, pool);
  if (!loaded.ok()) return std::move(loaded).status().with_context(file.path().string());
  try {
    return Model(std::make_unique<Impl>(
        Impl{resolved, Decoder(std::move(loaded->spec), std::move(loaded->weights), resolved.attention,
                               resolved.kv_dtype, pool, *resolved.kernels)}));
  } catch (const std::bad_alloc&) {
    return exhausted("no memory for the scratch of {} threads: take fewer (-t, --threads)", pool.size());
  }
}

const ArchSpec& Model::spec() const {
  return impl_->decoder.spec();
}
const ModelOptions& Model::options() const {
  return impl_->options;
}

ModelMemory Model::memory() const {
  return {.weights = impl_->decoder.weights().memory.used(),
          .kv_page = impl_->decoder.cache_layout().page_bytes(),
          .state = impl_->decoder.cache_layout().state_floats() * sizeof(float),
          .peak_attention = impl_->decoder.context().peak_attention_bytes(),
          .peak_scratch = impl_->decoder.context().peak_scratch_bytes()};
}

void Model::reset_peak_attention() {
  impl_->decoder.context().reset_peak_attention_bytes();
}

double Model::pass_bytes(std::int64_t rows) const {
  const DecoderWeights& weights = impl_->decoder.weights();
  double bytes = 0;
  for (const layers::Linear* linear : weights.linears()) bytes += static_cast<double>(linear->weight_bytes());
  for (const DecoderLayer& layer : weights.layers) {
    if (!layer.moe) continue;
    const layers::RouterRule& rule = layer.moe.rule;
    const double missed =
        std::pow(1 - static_cast<double>(rule.used) / rule.experts, static_cast<double>(rows));
    for (const auto* stack : {&layer.moe.gate, &layer.moe.up, &layer.moe.down}) {
      for (const layers::Linear& linear : *stack)
        bytes -= missed * static_cast<double>(linear.weight_bytes());
    }
  }
  return bytes;
}

std::uint64_t Model::layer_macs() const {
  std::uint64_t macs = 0;
  for (const DecoderLayer& layer : impl_->decoder.weights().layers) macs += token_macs(layer);
  return macs;
}

std::uint64_t Model::last_macs() const {
  const DecoderLayer& last = impl_->decoder.weights().layers.back();
  std::uint64_t all_rows = 0;
  for (const layers::Linear* linear : {&last.k, &last.v, &last.latent.down, &last.mamba.in}) {
    all_rows += linear_macs(*linear);
  }
  return token_macs(last) - all_rows;
}

std::uint64_t Model::head_macs() const {
  return linear_macs(impl_->decoder.weights().head);
}

void Model::set_observer(layers::Observer* observer) {
  impl_->decoder.context().set_observer(observer);
}

std::vector<const layers::Linear*> Model::linears() const {
  return impl_->decoder.weights().linears();
}

Result<kvcache::PagePool> Model::make_pool(std::int64_t tokens) const {
  if (tokens < 1) return invalid("a KV cache for {} tokens", tokens);
  const std::int64_t pages = (tokens - 1) / kernels::kPageTokens + 1;
  const CacheLayout& layout = impl_->decoder.cache_layout();
  return kvcache::PagePool::create(layout.page_bytes(), pages, kernels::kPageTokens, layout.state_floats());
}

std::uint64_t Model::scratch_bytes(const StepShape& step) const {
  return impl_->decoder.scratch_bytes(step);
}

Status Model::reserve(const StepShape& step) {
  return impl_->decoder.reserve(step);
}

Status Model::encode(const Batch& batch, std::span<float> rows) {
  try {
    return impl_->decoder.encode(batch, rows);
  } catch (const std::bad_alloc&) {
    return exhausted("no memory for the scratch of a step of {} tokens", batch.tokens.size());
  }
}

void Model::classify(std::span<const float> row, std::span<float> scores) {
  impl_->decoder.classify(row, scores);
}

Status Model::forward(const Batch& batch, std::span<float> logits) {
  try {
    return impl_->decoder.forward(batch, logits);
  } catch (const std::bad_alloc&) {
    // States may have moved on without their tokens.
    for (const BatchSequence& sequence : batch.sequences) {
      if (!sequence.cache->state().empty()) sequence.cache->truncate(0);
    }
    return exhausted("no memory for a step of {} tokens: take a smaller one (-b) or fewer threads (-t)",
                     batch.tokens.size());
  }
}

}  // namespace lithe::models
