#include "models/loader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/text.h"
#include "models/family.h"

namespace lithe::models {
namespace {

using formats::GgufTensor;
using layers::Linear;

constexpr std::size_t kNamesShown = 6;

// "a, b, c and 17 more".
std::string list_names(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i)
    out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesShown) out += fmt::format(" and {} more", names.size() - kNamesShown);
  return out;
}

std::string shape_text(std::span<const std::uint64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims.rbegin(), dims.rend(), ", "));
}

Status check_shape(const GgufTensor& tensor, std::int64_t rows, std::int64_t cols) {
  std::vector<std::uint64_t> expected{static_cast<std::uint64_t>(cols)};
  if (rows > 0) expected.push_back(static_cast<std::uint64_t>(rows));
  // Trailing dimensions of 1 say nothing.
  std::vector<std::uint64_t> dims = tensor.dims;
  while (dims.size() > expected.size() && dims.back() == 1) dims.pop_back();
  if (dims != expected) {
    return corrupt("tensor {} has the shape {}, but the model's parameters ask for {}", tensor.name,
                   shape_text(tensor.dims), shape_text(expected));
  }
  if (tensor.format == nullptr) {
    return unsupported("tensor {} has the type {}, which Lithe does not run", tensor.name, tensor.gguf_type);
  }
  const auto row = row_bytes(tensor.format->dtype, static_cast<std::uint64_t>(cols));
  const auto bytes =
      row ? checked_mul<std::uint64_t>(*row, static_cast<std::uint64_t>(std::max<std::int64_t>(rows, 1)))
          : std::nullopt;
  if (!bytes || *bytes != tensor.bytes()) {
    return corrupt("tensor {} of type {} and shape {} cannot have {} bytes", tensor.name, tensor.format->name,
                   shape_text(tensor.dims), tensor.bytes());
  }
  return {};
}

// The tensors of a file by role and layer.
class Binding {
 public:
  Status bind(const formats::ModelFile& file, const ArchSpec& spec, const WeightTable& table) {
    layers_.resize(spec.layers.size());
    std::vector<std::string> missing;
    for (const WeightEntry& entry : table) {
      const std::size_t count = per_layer(entry.role) ? spec.layers.size() : 1;
      for (std::size_t layer = 0; layer < count; ++layer) {
        const std::string name = layer_name(entry.gguf, static_cast<std::int64_t>(layer));
        const GgufTensor* tensor = file.find_tensor(name);
        if (tensor == nullptr) {
          if (entry.presence == Presence::required) missing.push_back(name);
          continue;
        }
        const LayerSpec& shape = spec.layers[layer];
        const std::int64_t rows = entry.rows == Dim::none ? 0 : dim_length(entry.rows, spec, shape);
        LITHE_RETURN_IF_ERROR(check_shape(*tensor, rows, dim_length(entry.cols, spec, shape)));
        slot(entry.role, layer) = tensor;
        used_.insert(tensor->name);
      }
    }
    if (missing.empty()) return {};
    return corrupt("the file lacks {} of the tensors that its architecture '{}' with {} layers needs: {}",
                   missing.size(), spec.family, spec.layers.size(), list_names(missing));
  }

  const GgufTensor* find(Role role, std::size_t layer = 0) const {
    return per_layer(role) ? layers_[layer][static_cast<std::size_t>(role)]
                           : model_[static_cast<std::size_t>(role)];
  }

  void warn_of_unused(const formats::ModelFile& file) const {
    std::vector<std::string> unused;
    for (const GgufTensor& tensor : file.tensors()) {
      if (!used_.contains(tensor.name)) unused.emplace_back(tensor.name);
    }
    if (!unused.empty())
      log_warning("{} tensors of the file are not used: {}", unused.size(), list_names(unused));
  }

 private:
  using Slots = std::array<const GgufTensor*, kRoleCount>;
  const GgufTensor*& slot(Role role, std::size_t layer) {
    return (per_layer(role) ? layers_[layer] : model_)[static_cast<std::size_t>(role)];
  }
  Slots model_{};
  std::vector<Slots> layers_;
  std::set<std::string_view> used_;
};

// Builds the weights in the order in which a forward pass reads them.
class Builder {
 public:
  Builder(const formats::ModelFile& file, const Binding& binding, const LoadOptions& options,
          const kernels::KernelTable& kernels, ThreadPool& pool)
      : file_(file), binding_(binding), options_(options), kernels_(kernels), pool_(pool) {}

  Result<DecoderWeights> build(ArchSpec& spec, const WeightTable& table);

 private:
  Result<Linear> linear(Role role, std::size_t layer, const WeightTable& table);
  Result<std::vector<float>> vector(Role role, std::size_t layer);
  Result<layers::Norm> norm(Role role, std::size_t layer, const ArchSpec& spec);
  Result<DecoderLayer> layer(std::size_t index, ArchSpec& spec, const WeightTable& table);
  Status bias(Role role, std::size_t layer, Linear& linear, bool& present);
  Status reserve(const ArchSpec& spec, bool own_head);
  Status check_finite(const GgufTensor& tensor, std::span<const std::byte> data) const;

  const formats::ModelFile& file_;
  const Binding& binding_;
  const LoadOptions& options_;
  const kernels::KernelTable& kernels_;
  ThreadPool& pool_;
  layers::WeightMemory memory_;
  std::vector<std::byte> made_;  // a tensor that the file does not hold as it is wanted
  int next_id_ = 0;
};

Status Builder::check_finite(const GgufTensor& tensor, std::span<const std::byte> data) const {
  const auto cols = static_cast<std::int64_t>(tensor.dims[0]);
  const auto row = static_cast<std::size_t>(*row_bytes(tensor.format->dtype, tensor.dims[0]));
  const auto rows = static_cast<std::int64_t>(data.size() / row);
  std::atomic<std::int64_t> first_bad{rows};
  pool_.run([&](int worker) {
    std::vector<float> values(static_cast<std::size_t>(cols));
    for (std::int64_t r = worker; r < rows; r += pool_.size()) {
      tensor.format->decode(data.data() + static_cast<std::size_t>(r) * row, cols, values.data());
      if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) continue;
      std::int64_t seen = first_bad.load();
      while (r < seen && !first_bad.compare_exchange_weak(seen, r)) {
      }
      return;
    }
  });
  if (first_bad == rows) return {};
  return corrupt("tensor {} holds a NaN or an infinity in row {}", tensor.name, first_bad.load());
}

Result<std::vector<float>> Builder::vector(Role role, std::size_t layer) {
  const GgufTensor* tensor = binding_.find(role, layer);
  LITHE_CHECK(tensor != nullptr);
  LITHE_ASSIGN_OR_RETURN(const auto data, file_.slice(*tensor, 0, made_));
  if (options_.check_tensors) LITHE_RETURN_IF_ERROR(check_finite(*tensor, data));
  std::vector<float> values(static_cast<std::size_t>(tensor->dims[0]));
  tensor->format->decode(data.data(), static_cast<std::int64_t>(values.size()), values.data());
  return values;
}

Result<layers::Norm> Builder::norm(Role role, std::size_t layer, const ArchSpec& spec) {
  layers::Norm out{.kind = spec.norm, .eps = spec.norm_eps};
  LITHE_ASSIGN_OR_RETURN(out.weight, vector(role, layer));
  return out;
}

Result<Linear> Builder::linear(Role role, std::size_t layer, const WeightTable& table) {
  const GgufTensor* tensor = binding_.find(role, layer);
  LITHE_CHECK(tensor != nullptr);
  LITHE_ASSIGN_OR_RETURN(const auto data, file_.slice(*tensor, 0, made_));
  if (options_.check_tensors) LITHE_RETURN_IF_ERROR(check_finite(*tensor, data));
  const DType dtype = tensor->format->dtype;
  const layers::StoredMatrix stored{dtype, static_cast<std::int64_t>(tensor->dims[1]),
                                    static_cast<std::int64_t>(tensor->dims[0]), data};
  const auto release = [&](std::span<const std::byte> part) { file_.release(*tensor, part); };
  const Linear::PackedPart packed(release);
  Linear out = Linear::pack(stored, layers::choose_arithmetic(dtype, kernels_, options_.full_precision),
                            memory_, pool_, &packed);
  file_.release(*tensor);
  const auto entry = std::ranges::find(table, role, &WeightEntry::role);
  out.describe(next_id_++, std::string(tensor->name), entry->shard);
  return out;
}

Status Builder::bias(Role role, std::size_t layer, Linear& linear, bool& present) {
  if (binding_.find(role, layer) == nullptr) return {};
  LITHE_ASSIGN_OR_RETURN(auto values, vector(role, layer));
  linear.set_bias(std::move(values));
  present = true;
  return {};
}

Result<DecoderLayer> Builder::layer(std::size_t index, ArchSpec& spec, const WeightTable& table) {
  DecoderLayer out;
  LayerSpec& shape = spec.layers[index];
  LITHE_ASSIGN_OR_RETURN(out.attn_norm, norm(Role::attn_norm, index, spec));
  LITHE_ASSIGN_OR_RETURN(out.q, linear(Role::q, index, table));
  LITHE_ASSIGN_OR_RETURN(out.k, linear(Role::k, index, table));
  LITHE_ASSIGN_OR_RETURN(out.v, linear(Role::v, index, table));
  LITHE_RETURN_IF_ERROR(bias(Role::q_bias, index, out.q, shape.qkv_bias));
  LITHE_RETURN_IF_ERROR(bias(Role::k_bias, index, out.k, shape.qkv_bias));
  LITHE_RETURN_IF_ERROR(bias(Role::v_bias, index, out.v, shape.qkv_bias));
  if (shape.qk_norm) {
    LITHE_ASSIGN_OR_RETURN(out.q_norm, norm(Role::q_norm, index, spec));
    LITHE_ASSIGN_OR_RETURN(out.k_norm, norm(Role::k_norm, index, spec));
  }
  LITHE_ASSIGN_OR_RETURN(out.attn_out, linear(Role::attn_out, index, table));
  LITHE_RETURN_IF_ERROR(bias(Role::attn_out_bias, index, out.attn_out, shape.out_bias));
  LITHE_ASSIGN_OR_RETURN(out.ffn_norm, norm(Role::ffn_norm, index, spec));
  out.ffn.kind = shape.ffn;
  out.ffn.activation = shape.activation;
  if (shape.ffn == FfnKind::gated) {
    LITHE_ASSIGN_OR_RETURN(out.ffn.gate, linear(Role::gate, index, table));
  }
  LITHE_ASSIGN_OR_RETURN(out.ffn.up, linear(Role::up, index, table));
  LITHE_ASSIGN_OR_RETURN(out.ffn.down, linear(Role::down, index, table));
  return out;
}

Status Builder::reserve(const ArchSpec& spec, bool own_head) {
  std::size_t bytes = 0;
  const auto add = [&](Role role, std::size_t layer) {
    const GgufTensor* tensor = binding_.find(role, layer);
    if (tensor == nullptr) return;
    bytes += Linear::packed_bytes(tensor->format->dtype, static_cast<std::int64_t>(tensor->dims[1]),
                                  static_cast<std::int64_t>(tensor->dims[0]));
  };
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    for (const Role role : {Role::q, Role::k, Role::v, Role::attn_out, Role::gate, Role::up, Role::down}) {
      add(role, layer);
    }
  }
  add(Role::embedding, 0);
  if (own_head) add(Role::output, 0);
  if (const std::uint64_t free = available_memory(); bytes > free) {
    return exhausted(
        "the weights need {} ({} bytes) of memory, but {} ({} bytes) are free: take a smaller type",
        human_bytes(static_cast<double>(bytes)), bytes, human_bytes(static_cast<double>(free)), free);
  }
  LITHE_ASSIGN_OR_RETURN(memory_, layers::WeightMemory::create(bytes));
  return {};
}

// A head of its own, unless it is absent or holds the very bytes of the embedding.
bool has_own_head(const Binding& binding) {
  const GgufTensor* head = binding.find(Role::output);
  const GgufTensor* embedding = binding.find(Role::embedding);
  if (head == nullptr) return false;
  const bool same = head->format == embedding->format && head->data.size() == embedding->data.size() &&
                    std::memcmp(head->data.data(), embedding->data.data(), head->data.size()) == 0;
  if (same) log_info("output.weight repeats token_embd.weight: one copy is kept");
  return !same;
}

Result<DecoderWeights> Builder::build(ArchSpec& spec, const WeightTable& table) {
  DecoderWeights out;
  const bool own_head = has_own_head(binding_);
  spec.tied_head = !own_head;
  LITHE_RETURN_IF_ERROR(reserve(spec, own_head));
  if (binding_.find(Role::rope_divisors) != nullptr) {
    LITHE_ASSIGN_OR_RETURN(spec.rope.freq_divisors, vector(Role::rope_divisors, 0));
    for (const float divisor : spec.rope.freq_divisors) {
      if (!(divisor > 0) || !std::isfinite(divisor)) {
        return corrupt("rope_freqs.weight holds {}, which divides no frequency", divisor);
      }
    }
  }
  for (std::size_t index = 0; index < spec.layers.size(); ++index) {
    LITHE_ASSIGN_OR_RETURN(DecoderLayer built, layer(index, spec, table));
    out.layers.push_back(std::move(built));
  }
  LITHE_ASSIGN_OR_RETURN(out.output_norm, norm(Role::output_norm, 0, spec));
  LITHE_ASSIGN_OR_RETURN(out.embedding, linear(Role::embedding, 0, table));
  if (own_head) {
    LITHE_ASSIGN_OR_RETURN(out.head, linear(Role::output, 0, table));
  } else {
    out.head = out.embedding.share();
    if (const GgufTensor* repeated = binding_.find(Role::output)) file_.release(*repeated);
  }
  out.memory = std::move(memory_);
  return out;
}

// What a description may say but the decoder does not do: refused by name instead of ignored.
Status check_runnable(const ArchSpec& spec) {
  if (spec.norm_place != NormPlace::pre) return unsupported("{}: only norms before a layer run", spec.family);
  if (spec.norm != NormKind::rms) return unsupported("{}: only RMS norms run in the decoder", spec.family);
  if (spec.residual_scale != 1.0f || spec.logit_soft_cap != 0.0f) {
    return unsupported("{}: residual scales and logit soft caps do not run yet", spec.family);
  }
  return {};
}

Status read_vocabulary_size(const formats::ModelFile& file, const WeightTable& table, ArchSpec& spec) {
  const auto entry = std::ranges::find(table, Role::embedding, &WeightEntry::role);
  const GgufTensor* embedding = file.find_tensor(entry->gguf);
  if (embedding == nullptr) return corrupt("the file lacks the tensor {}", entry->gguf);
  if (embedding->dims.size() != 2 || embedding->dims[1] == 0 || embedding->dims[1] > Limits::vocab) {
    return corrupt("tensor {} has the shape {}, which is no embedding", embedding->name,
                   shape_text(embedding->dims));
  }
  spec.vocab = static_cast<std::int64_t>(embedding->dims[1]);
  const auto* tokens = file.metadata().string_array("tokenizer.ggml.tokens");
  if (tokens != nullptr && std::ssize(*tokens) != spec.vocab) {
    log_info("the vocabulary has {} tokens, the embedding {} rows: ids beyond either are refused",
             tokens->size(), spec.vocab);
  }
  return {};
}

}  // namespace

Result<LoadedModel> load_model(const formats::ModelFile& file, const LoadOptions& options,
                               const kernels::KernelTable& kernels, ThreadPool& pool) {
  LoadedModel model;
  LITHE_ASSIGN_OR_RETURN(const auto architecture, file.metadata().required_string("general.architecture"));
  LITHE_ASSIGN_OR_RETURN(const Family* family, find_family(architecture));
  LITHE_ASSIGN_OR_RETURN(model.spec, family->describe(Parameters(file.metadata(), architecture)));
  LITHE_RETURN_IF_ERROR(check_runnable(model.spec));
  const WeightTable table = family->weights(model.spec);
  LITHE_RETURN_IF_ERROR(read_vocabulary_size(file, table, model.spec));
  Binding binding;
  LITHE_RETURN_IF_ERROR(binding.bind(file, model.spec, table));
  binding.warn_of_unused(file);
  Builder builder(file, binding, options, kernels, pool);
  LITHE_ASSIGN_OR_RETURN(model.weights, builder.build(model.spec, table));
  return model;
}

}  // namespace lithe::models
