#include "model_facts.h"

#include <algorithm>
#include <map>

#include "base/checked.h"
#include "base/text.h"
#include "kernels/attention.h"
#include "kernels/packed_matrix.h"
#include "models/family.h"
#include "models/gguf_vocab.h"
#include "models/loader.h"
#include "models/parameters.h"
#include "models/weight_table.h"
#include "tokenizer/tokenizer.h"

namespace lithe::app {
namespace {

using formats::GgufTensor;
using formats::ModelFile;

// A key of any kind that is a string or a number; inspect shows what is there and never fails for the rest.
std::string text_or_empty(const ModelFile& file, std::string_view key) {
  const auto value = file.metadata().optional_string(key);
  return value.ok() && *value ? std::string(**value) : std::string();
}

std::optional<std::uint64_t> number_or_nothing(const ModelFile& file, std::string_view key) {
  const auto value = file.metadata().optional_uint(key);
  return value.ok() ? *value : std::nullopt;
}

Result<models::ArchSpec> describe(const ModelFile& file, const std::string& architecture) {
  LITHE_ASSIGN_OR_RETURN(const models::Family* family, models::find_family(architecture));
  LITHE_ASSIGN_OR_RETURN(models::ArchSpec spec, family->describe(models::Parameters(file, architecture)));
  if (const GgufTensor* embedding = file.find_tensor("token_embd.weight");
      embedding && embedding->dims.size() == 2) {
    spec.vocab = static_cast<std::int64_t>(embedding->dims[1]);
  }
  spec.tied_head = file.find_tensor("output.weight") == nullptr;
  return spec;
}

void gather_vocabulary(const ModelFile& file, ModelFacts& facts) {
  const auto* tokens = file.metadata().string_array("tokenizer.ggml.tokens");
  const std::string model = text_or_empty(file, "tokenizer.ggml.model");
  if (tokens == nullptr && model.empty()) {
    facts.problems.push_back("it has no tokenizer");
    return;
  }
  const auto* merges = file.metadata().string_array("tokenizer.ggml.merges");
  facts.vocabulary = VocabularyFacts{model,
                                     text_or_empty(file, "tokenizer.ggml.pre"),
                                     tokens == nullptr ? 0 : tokens->size(),
                                     merges == nullptr ? 0 : merges->size(),
                                     number_or_nothing(file, "tokenizer.ggml.bos_token_id"),
                                     number_or_nothing(file, "tokenizer.ggml.eos_token_id")};
  const auto spec = models::vocab_spec(file.metadata());
  const Status status = spec.ok() ? tokenizer::Tokenizer::create(*spec).status() : spec.status();
  if (!status.ok()) facts.problems.push_back("tokenizer: " + status.message());
}

void gather_tensors(const ModelFile& file, ModelFacts& facts) {
  std::map<std::uint32_t, TypeRow> types;
  for (const GgufTensor& tensor : file.tensors()) {
    TypeRow& row = types[tensor.gguf_type];
    row.name = tensor.type().name;
    row.tensors += 1;
    row.elements += tensor.elements();
    row.bytes += tensor.bytes();
    facts.elements += tensor.elements();
    facts.bytes += tensor.bytes();
  }
  std::string unknown;
  for (const auto& [id, row] : types) {
    facts.types.push_back(row);
    if (find_format_by_gguf_id(id) == nullptr) {
      unknown += fmt::format("{}{} tensors of type {}", unknown.empty() ? "" : ", ", row.tensors, row.name);
    }
  }
  if (!unknown.empty()) facts.problems.push_back(unknown + ": Lithe does not compute with these types");
  if (file.tensors().empty()) facts.problems.push_back("it holds no weights: a vocabulary alone");
}

// Tensors that the description asks for and the file lacks, and those that it has for nothing.
void gather_bindings(const ModelFile& file, ModelFacts& facts) {
  if (file.tensors().empty()) return;
  const auto described = models::describe_model(file);
  if (!described.ok()) {
    facts.problems.push_back(described.status().message());
  } else if (std::string unused = described->binding.unused(file); !unused.empty()) {
    facts.notes.push_back(std::move(unused));
  }
}

// Sums of products that remember an overflow.
class Bytes {
 public:
  void add(std::uint64_t a, std::uint64_t b = 1) {
    std::uint64_t product = 0;
    overflow_ |= __builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(sum_, product, &sum_);
  }
  std::uint64_t sum() const { return sum_; }
  bool overflow() const { return overflow_; }

 private:
  std::uint64_t sum_ = 0;
  bool overflow_ = false;
};

// A matrix or a stack of matrices as the kernels hold it; other tensors as floats.
void add_resident(const GgufTensor& tensor, Bytes& bytes) {
  if (tensor.format == nullptr) return bytes.add(tensor.bytes());
  if (tensor.dims.size() < 2) return bytes.add(tensor.elements(), sizeof(float));
  const std::uint64_t cols = tensor.dims[0], rows = tensor.dims[1];
  const std::uint64_t panels = rows / kernels::kPanelRows + (rows % kernels::kPanelRows != 0 ? 1 : 0);
  Bytes one;
  one.add(kernels::packed_panel_bytes(tensor.format->dtype, static_cast<std::int64_t>(cols)), panels);
  bytes.add(one.overflow() ? UINT64_MAX : one.sum(), tensor.elements() / (cols * rows));
}

// Floats of one token's activations: the residual stream and a copy, and the most that a layer makes beside them. That is
// queries, keys, values and their mix, in the latent space too; a mixer's projections; gate and up, of a mixture those of
// each expert that the token meets, with what it gives. All fit: lengths are held to models::Limits.
std::uint64_t scratch_floats(const models::ArchSpec& spec) {
  std::int64_t most = 0;
  for (const models::LayerSpec& layer : spec.layers) {
    const std::int64_t heads = layer.heads, row = std::int64_t{layer.head_dim} + layer.value_dim;
    std::int64_t mixed = (heads + layer.kv_heads) * row, fed = 2 * std::int64_t{layer.ffn_dim};
    if (const models::LatentSpec& latent = layer.latent; latent.rank > 0) {
      mixed = layer.head_dim + latent.query_rank +
              heads * (latent.query_dim() + std::int64_t{latent.rank} + row + latent.value_dim);
    }
    if (models::is_recurrent(layer)) {
      mixed = layer.mamba.projected() + layer.mamba.inner() + layer.mamba.convolved();
    }
    if (const models::MoeSpec& moe = layer.moe; layer.sparse()) {
      fed = spec.hidden + moe.rule.experts + moe.rule.used * (2 * std::int64_t{moe.ffn_dim} + spec.hidden) +
            2 * std::int64_t{moe.shared_dim} + spec.hidden;
    }
    most = std::max({most, mixed, fed});
  }
  return static_cast<std::uint64_t>(2 * spec.hidden + most);
}

}  // namespace

ModelFacts gather_facts(const ModelFile& file) {
  ModelFacts facts;
  facts.architecture = text_or_empty(file, "general.architecture");
  facts.name = text_or_empty(file, "general.name");
  facts.chat_template_bytes = text_or_empty(file, "tokenizer.chat_template").size();
  gather_tensors(file, facts);
  if (facts.architecture.empty()) {
    facts.problems.push_back("general.architecture is missing");
  } else {
    auto spec = describe(file, facts.architecture);
    if (spec.ok()) {
      facts.spec = std::move(spec).value();
      gather_bindings(file, facts);
    } else if (!file.tensors().empty() || spec.status().code() == Code::unsupported) {
      // A vocabulary alone may lack hyper-parameters: that it has no weights is said already.
      facts.problems.push_back(spec.status().message());
    }
  }
  gather_vocabulary(file, facts);
  return facts;
}

Result<MemoryNeed> memory_need(const ModelFile& file, const models::ArchSpec& spec, std::uint64_t ctx,
                               std::uint64_t batch, DType kv_type) {
  Bytes weights, kv, scratch, all;
  for (const GgufTensor& tensor : file.tensors()) add_resident(tensor, weights);
  std::uint64_t page = 0;
  for (const models::LayerSpec& layer : spec.layers) {
    page += kernels::kv_layer_bytes(
        {kv_type, layer.kv_heads, layer.head_dim, layer.value_dim, layer.latent.rank > 0});
    if (layer.mamba.heads > 0) kv.add(static_cast<std::uint64_t>(layer.mamba.state_floats()), sizeof(float));
  }
  kv.add(page, ceil_div<std::uint64_t>(ctx, kernels::kPageTokens));
  scratch.add(scratch_floats(spec) * sizeof(float), batch);
  scratch.add(static_cast<std::uint64_t>(spec.vocab), sizeof(float));  // the logits of one row
  for (const Bytes* part : {&weights, &kv, &scratch}) all.add(part->overflow() ? UINT64_MAX : part->sum());
  if (all.overflow() || weights.overflow() || kv.overflow() || scratch.overflow()) {
    return exhausted("the memory needed overflows 64 bits");
  }
  return MemoryNeed{weights.sum(), kv.sum(), page / kernels::kPageTokens, scratch.sum()};
}

}  // namespace lithe::app
