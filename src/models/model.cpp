#include "models/model.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/checked.h"
#include "models/decoder.h"
#include "models/loader.h"

namespace lithe::models {

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

std::uint64_t Model::decode_bytes() const {
  std::uint64_t bytes = 0;
  for (const layers::Linear* linear : impl_->decoder.weights().linears()) bytes += linear->weight_bytes();
  return bytes;
}

std::uint64_t Model::layer_macs() const {
  std::uint64_t macs = 0;
  for (const layers::Linear* linear : impl_->decoder.weights().linears()) {
    macs += static_cast<std::uint64_t>(linear->out_features() * linear->in_features());
  }
  return macs - head_macs();
}

std::uint64_t Model::head_macs() const {
  const layers::Linear& head = impl_->decoder.weights().head;
  return static_cast<std::uint64_t>(head.out_features() * head.in_features());
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
