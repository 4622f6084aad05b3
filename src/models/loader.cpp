#include "models/loader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/text.h"
#include "models/binding.h"
#include "models/family.h"

namespace lithe::models {
namespace {

using formats::GgufTensor;
using layers::Linear;
using layers::Norm;

// Where each weight of a layer goes, in the order in which a forward pass reads the matrices.
struct LinearSlot {
  Role weight, bias;
  Linear& (*of)(DecoderLayer&);
};
constexpr LinearSlot kLinears[] = {
    {Role::ssm_in, Role::ssm_in, [](DecoderLayer& layer) -> Linear& { return layer.mamba.in; }},
    {Role::ssm_out, Role::ssm_out, [](DecoderLayer& layer) -> Linear& { return layer.mamba.out; }},
    {Role::q_down, Role::q_down, [](DecoderLayer& layer) -> Linear& { return layer.latent.q_down; }},
    {Role::latent, Role::latent, [](DecoderLayer& layer) -> Linear& { return layer.latent.down; }},
    {Role::q, Role::q_bias, [](DecoderLayer& layer) -> Linear& { return layer.q; }},
    {Role::k, Role::k_bias, [](DecoderLayer& layer) -> Linear& { return layer.k; }},
    {Role::v, Role::v_bias, [](DecoderLayer& layer) -> Linear& { return layer.v; }},
    {Role::attn_out, Role::attn_out_bias, [](DecoderLayer& layer) -> Linear& { return layer.attn_out; }},
    {Role::gate, Role::gate_bias, [](DecoderLayer& layer) -> Linear& { return layer.ffn.gate; }},
    {Role::up, Role::up_bias, [](DecoderLayer& layer) -> Linear& { return layer.ffn.up; }},
    {Role::down, Role::down_bias, [](DecoderLayer& layer) -> Linear& { return layer.ffn.down; }},
};
constexpr Role kStacks[] = {Role::latent_keys, Role::latent_values, Role::router,      Role::expert_gate,
                            Role::expert_up,   Role::expert_down,   Role::shared_gate, Role::shared_up,
                            Role::shared_down, Role::shared_weight};
struct NormSlot {
  Role weight, bias;
  Norm DecoderLayer::*member;
};
constexpr NormSlot kNorms[] = {
    {Role::attn_norm, Role::attn_norm_bias, &DecoderLayer::attn_norm},
    {Role::attn_post_norm, Role::attn_post_norm_bias, &DecoderLayer::attn_post_norm},
    {Role::ffn_norm, Role::ffn_norm_bias, &DecoderLayer::ffn_norm},
    {Role::ffn_post_norm, Role::ffn_post_norm_bias, &DecoderLayer::ffn_post_norm},
};

// The tensor's name; of one of a stack or of a piece, with its number or the row that it begins at.
std::string piece_name(const BoundWeight& weight, std::int64_t slice) {
  std::string name(weight.tensor->name);
  if (weight.stack > 1) name += fmt::format("[{}]", slice);
  const bool whole =
      weight.tensor->dims.size() < 2 || static_cast<std::uint64_t>(weight.rows) == weight.tensor->dims[1];
  return whole ? name : fmt::format("{}[{}:]", name, weight.offset);
}

// What a matrix becomes that must be turned before it is packed: blocks run along rows of another length then.
DType turned_dtype(DType dtype, std::int64_t cols, bool full_precision) {
  if (!block_format(dtype).quantized()) return dtype;
  return !full_precision && cols % block_format(DType::q8_0).block_elems == 0 ? DType::q8_0 : DType::f16;
}

// Builds the weights in the order in which a forward pass reads them.
class Builder {
 public:
  Builder(const formats::ModelFile& file, const Binding& binding, const LoadOptions& options,
          const kernels::KernelTable& kernels, ThreadPool& pool)
      : file_(file), binding_(binding), options_(options), kernels_(kernels), pool_(pool) {}

  Result<DecoderWeights> build(ArchSpec& spec);

 private:
  Result<std::span<const std::byte>> bytes(const BoundWeight& weight, std::int64_t slice = 0);
  Result<Linear> linear(const BoundWeight& weight, const BoundWeight& bias, std::int64_t slice = 0);
  Result<std::vector<float>> vector(const BoundWeight& weight, std::int64_t slice = 0);
  Status mamba(std::size_t index, const ArchSpec& spec, layers::Mamba& out);
  Status split_latent(std::size_t index, const LayerSpec& shape, LatentWeights& out);
  Result<layers::Moe> moe(std::size_t index, const LayerSpec& shape);
  Result<std::vector<Linear>> stack(Role weight, Role bias, std::size_t index);
  Result<Norm> norm(Role weight, Role bias, std::size_t layer, NormKind kind, float eps);
  Result<DecoderLayer> layer(std::size_t index, const ArchSpec& spec);
  Result<bool> has_own_head();
  Status divisors(ArchSpec& spec);
  Status reserve(const ArchSpec& spec, bool own_head);
  Status check_finite(const BoundWeight& weight, std::span<const std::byte> data) const;

  const formats::ModelFile& file_;
  const Binding& binding_;
  const LoadOptions& options_;
  const kernels::KernelTable& kernels_;
  ThreadPool& pool_;
  layers::WeightMemory memory_;
  std::vector<std::byte> made_;  // a tensor that the file does not hold as it is wanted
  int next_id_ = 0;
};

Status Builder::check_finite(const BoundWeight& weight, std::span<const std::byte> data) const {
  const GgufTensor& tensor = *weight.tensor;
  const auto row = data.size() / static_cast<std::size_t>(weight.rows);
  std::atomic<std::int64_t> first_bad{weight.rows};
  pool_.run([&](int worker) {
    std::vector<float> values(static_cast<std::size_t>(weight.cols));
    for (std::int64_t r = worker; r < weight.rows; r += pool_.size()) {
      tensor.format->decode(data.data() + static_cast<std::size_t>(r) * row, weight.cols, values.data());
      if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) continue;
      std::int64_t seen = first_bad.load();
      while (r < seen && !first_bad.compare_exchange_weak(seen, r)) {
      }
      return;
    }
  });
  if (first_bad == weight.rows) return {};
  return corrupt("tensor {} holds a NaN or an infinity in row {}", tensor.name,
                 first_bad.load() + (weight.entry->matrix() ? weight.offset : 0));
}

// The bytes of a piece, checked if that is asked for.
Result<std::span<const std::byte>> Builder::bytes(const BoundWeight& weight, std::int64_t slice) {
  LITHE_CHECK(weight);
  // A stack of vectors is a matrix to the file, and one slice of it.
  const bool flat = weight.stack > 1 && !weight.entry->matrix();
  LITHE_ASSIGN_OR_RETURN(const auto whole,
                         file_.slice(*weight.tensor, flat ? 0 : static_cast<std::uint64_t>(slice), made_));
  const BlockFormat& format = *weight.tensor->format;
  std::int64_t first = weight.entry->matrix() ? weight.offset * weight.cols : weight.offset;
  if (flat) first += slice * static_cast<std::int64_t>(weight.tensor->dims[0]);
  const auto begin = row_bytes(format, static_cast<std::uint64_t>(first));
  const auto size = row_bytes(format, static_cast<std::uint64_t>(weight.rows * weight.cols));
  if (!begin || !size) {
    return corrupt("tensor {} of type {} cannot be cut at {}", weight.tensor->name,
                   weight.tensor->format->name, weight.offset);
  }
  const auto piece = whole.subspan(static_cast<std::size_t>(*begin), static_cast<std::size_t>(*size));
  if (options_.check_tensors) LITHE_RETURN_IF_ERROR(check_finite(weight, piece));
  return piece;
}

Result<std::vector<float>> Builder::vector(const BoundWeight& weight, std::int64_t slice) {
  LITHE_ASSIGN_OR_RETURN(const auto data, bytes(weight, slice));
  std::vector<float> values(static_cast<std::size_t>(weight.rows * weight.cols));
  weight.tensor->format->decode(data.data(), static_cast<std::int64_t>(values.size()), values.data());
  return values;
}

// Empty where the model has no such norm.
Result<Norm> Builder::norm(Role weight, Role bias, std::size_t layer, NormKind kind, float eps) {
  Norm out{.kind = kind, .eps = eps};
  if (const BoundWeight& found = binding_.find(weight, layer)) {
    for (std::int64_t slice = 0; slice < found.stack; ++slice) {  // one a head
      LITHE_ASSIGN_OR_RETURN(const std::vector<float> part, vector(found, slice));
      out.weight.insert(out.weight.end(), part.begin(), part.end());
    }
    if (const BoundWeight& shift = binding_.find(bias, layer); shift && bias != weight) {
      LITHE_ASSIGN_OR_RETURN(out.bias, vector(shift));
    }
  }
  return out;
}

Result<Linear> Builder::linear(const BoundWeight& weight, const BoundWeight& bias, std::int64_t slice) {
  LITHE_ASSIGN_OR_RETURN(const auto data, bytes(weight, slice));
  const DType dtype = weight.tensor->format->dtype;
  const layers::StoredMatrix stored{dtype, weight.rows, weight.cols, data, weight.tensor->format};
  const auto release = [&](std::span<const std::byte> part) { file_.release(*weight.tensor, part); };
  const Linear::PackedPart packed(release);
  Linear out = Linear::pack(stored, layers::choose_arithmetic(dtype, kernels_, options_.full_precision),
                            memory_, pool_, &packed);
  file_.release(*weight.tensor, data);
  out.describe(next_id_++, piece_name(weight, slice), weight.entry->shard);
  if (bias) {
    LITHE_ASSIGN_OR_RETURN(auto values, vector(bias, slice));
    out.set_bias(std::move(values));
  }
  return out;
}

Result<DecoderLayer> Builder::layer(std::size_t index, const ArchSpec& spec) {
  DecoderLayer out;
  const LayerSpec& shape = spec.layers[index];
  for (const NormSlot& slot : kNorms) {
    LITHE_ASSIGN_OR_RETURN(out.*slot.member, norm(slot.weight, slot.bias, index, spec.norm, spec.norm_eps));
  }
  LITHE_ASSIGN_OR_RETURN(out.q_norm,
                         norm(Role::q_norm, Role::q_norm, index, spec.qk_norm_kind, spec.norm_eps));
  LITHE_ASSIGN_OR_RETURN(out.k_norm,
                         norm(Role::k_norm, Role::k_norm, index, spec.qk_norm_kind, spec.norm_eps));
  if (is_recurrent(shape)) LITHE_RETURN_IF_ERROR(mamba(index, spec, out.mamba));
  if (shape.latent.rank > 0) {
    LITHE_ASSIGN_OR_RETURN(out.latent.q_norm,
                           norm(Role::q_down_norm, Role::q_down_norm, index, spec.norm, spec.norm_eps));
    LITHE_ASSIGN_OR_RETURN(out.latent.norm,
                           norm(Role::latent_norm, Role::latent_norm, index, spec.norm, spec.norm_eps));
    if (shape.latent.joined) {
      LITHE_RETURN_IF_ERROR(split_latent(index, shape, out.latent));
    } else {
      LITHE_ASSIGN_OR_RETURN(out.latent.keys, stack(Role::latent_keys, Role::latent_keys, index));
      LITHE_ASSIGN_OR_RETURN(out.latent.values, stack(Role::latent_values, Role::latent_values, index));
    }
  }
  if (const BoundWeight& sinks = binding_.find(Role::sinks, index)) {
    LITHE_ASSIGN_OR_RETURN(out.sinks, vector(sinks));
  }
  out.ffn.kind = shape.ffn;
  out.ffn.activation = shape.activation;
  if (shape.sparse()) {
    LITHE_ASSIGN_OR_RETURN(out.moe, moe(index, shape));
  }
  for (const LinearSlot& slot : kLinears) {
    const BoundWeight& weight = binding_.find(slot.weight, index);
    if (!weight) continue;
    const BoundWeight none;
    LITHE_ASSIGN_OR_RETURN(slot.of(out),
                           linear(weight, slot.bias == slot.weight ? none : binding_.find(slot.bias, index)));
  }
  return out;
}

Result<std::vector<Linear>> Builder::stack(Role weight, Role bias, std::size_t index) {
  std::vector<Linear> out;
  const BoundWeight& bound = binding_.find(weight, index);
  const BoundWeight none;
  for (std::int64_t expert = 0; expert < bound.stack; ++expert) {
    LITHE_ASSIGN_OR_RETURN(Linear one,
                           linear(bound, bias == weight ? none : binding_.find(bias, index), expert));
    out.push_back(std::move(one));
  }
  return out;
}

// An old file's matrix: of each head the rows that make its keys, to be turned, then those that make its values.
Status Builder::split_latent(std::size_t index, const LayerSpec& shape, LatentWeights& out) {
  const BoundWeight& both = binding_.find(Role::latent_both, index);
  const BlockFormat& format = *both.tensor->format;
  const LatentSpec& latent = shape.latent;
  const std::int64_t rank = latent.rank, plain = latent.plain_dim;
  LITHE_ASSIGN_OR_RETURN(const auto data, bytes(both));
  const std::size_t row = data.size() / static_cast<std::size_t>(both.rows);
  const DType turned_type = turned_dtype(format.dtype, plain, options_.full_precision);
  const BlockFormat& turned_format = block_format(turned_type);
  std::vector<float> values(static_cast<std::size_t>(plain * rank)), turned(values.size());
  std::vector<std::byte> encoded(static_cast<std::size_t>(rank) *
                                 *row_bytes(turned_format, static_cast<std::uint64_t>(plain)));
  const auto pack = [&](const layers::StoredMatrix& stored, std::int64_t head, std::string_view part) {
    Linear linear = Linear::pack(
        stored, layers::choose_arithmetic(stored.dtype, kernels_, options_.full_precision), memory_, pool_);
    linear.describe(next_id_++, fmt::format("{}[{}].{}", both.tensor->name, head, part), both.entry->shard);
    return linear;
  };
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    const auto own = data.subspan(static_cast<std::size_t>(head * (plain + latent.value_dim)) * row);
    format.decode(own.data(), std::ssize(values), values.data());
    for (std::int64_t i = 0; i < plain; ++i) {
      for (std::int64_t c = 0; c < rank; ++c)
        turned[static_cast<std::size_t>(c * plain + i)] = values[static_cast<std::size_t>(i * rank + c)];
    }
    turned_format.encode(turned.data(), std::ssize(turned), encoded.data());
    out.keys.push_back(pack({turned_type, rank, plain, encoded}, head, "keys"));
  }
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    const std::int64_t first = head * (plain + latent.value_dim) + plain;
    const auto own =
        data.subspan(static_cast<std::size_t>(first) * row, static_cast<std::size_t>(latent.value_dim) * row);
    out.values.push_back(pack({format.dtype, latent.value_dim, rank, own, &format}, head, "values"));
  }
  file_.release(*both.tensor, data);
  return {};
}

// All but the two matrices that multiply.
Status Builder::mamba(std::size_t index, const ArchSpec& spec, layers::Mamba& out) {
  out.spec = spec.layers[index].mamba;
  const BoundWeight& taps = binding_.find(Role::ssm_conv, index);
  LITHE_ASSIGN_OR_RETURN(const std::vector<float> by_channel, vector(taps));
  out.conv.resize(by_channel.size());  // the kernels walk channels
  for (std::int64_t channel = 0; channel < taps.rows; ++channel) {
    for (std::int64_t tap = 0; tap < taps.cols; ++tap) {
      out.conv[static_cast<std::size_t>(tap * taps.rows + channel)] =
          by_channel[static_cast<std::size_t>(channel * taps.cols + tap)];
    }
  }
  if (const BoundWeight& bias = binding_.find(Role::ssm_conv_bias, index)) {
    LITHE_ASSIGN_OR_RETURN(out.conv_bias, vector(bias));
  }
  LITHE_ASSIGN_OR_RETURN(out.decay, vector(binding_.find(Role::ssm_decay, index)));
  LITHE_ASSIGN_OR_RETURN(out.skip, vector(binding_.find(Role::ssm_skip, index)));
  LITHE_ASSIGN_OR_RETURN(out.step_bias, vector(binding_.find(Role::ssm_step_bias, index)));
  LITHE_ASSIGN_OR_RETURN(out.norm, norm(Role::ssm_norm, Role::ssm_norm, index, spec.norm, spec.norm_eps));
  return {};
}

Result<layers::Moe> Builder::moe(std::size_t index, const LayerSpec& shape) {
  layers::Moe out;
  out.rule = shape.moe.rule;
  out.activation = out.shared.activation = shape.activation;
  LITHE_ASSIGN_OR_RETURN(out.router,
                         linear(binding_.find(Role::router, index), binding_.find(Role::router_bias, index)));
  if (const BoundWeight& bias = binding_.find(Role::choice_bias, index)) {
    LITHE_ASSIGN_OR_RETURN(out.choice_bias, vector(bias));
  }
  LITHE_ASSIGN_OR_RETURN(out.gate, stack(Role::expert_gate, Role::expert_gate_bias, index));
  LITHE_ASSIGN_OR_RETURN(out.up, stack(Role::expert_up, Role::expert_up_bias, index));
  LITHE_ASSIGN_OR_RETURN(out.down, stack(Role::expert_down, Role::expert_down_bias, index));
  const BoundWeight none;
  if (shape.moe.shared_dim > 0) {
    LITHE_ASSIGN_OR_RETURN(out.shared.gate, linear(binding_.find(Role::shared_gate, index), none));
    LITHE_ASSIGN_OR_RETURN(out.shared.up, linear(binding_.find(Role::shared_up, index), none));
    LITHE_ASSIGN_OR_RETURN(out.shared.down, linear(binding_.find(Role::shared_down, index), none));
  }
  if (shape.moe.shared_gate) {
    LITHE_ASSIGN_OR_RETURN(out.shared_gate, linear(binding_.find(Role::shared_weight, index), none));
  }
  return out;
}

Status Builder::reserve(const ArchSpec& spec, bool own_head) {
  std::size_t bytes = 0;
  const auto add = [&](Role role, std::size_t layer = 0) {
    const BoundWeight& weight = binding_.find(role, layer);
    if (!weight) return;
    bytes += Linear::packed_bytes(weight.tensor->format->dtype, weight.rows, weight.cols) *
             static_cast<std::size_t>(weight.stack);
  };
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    for (const LinearSlot& slot : kLinears) add(slot.weight, layer);
    for (const Role role : kStacks) add(role, layer);
    if (const BoundWeight& both = binding_.find(Role::latent_both, layer)) {
      const LatentSpec& latent = spec.layers[layer].latent;
      const DType dtype = both.tensor->format->dtype;
      bytes += (Linear::packed_bytes(turned_dtype(dtype, latent.plain_dim, options_.full_precision),
                                     latent.rank, latent.plain_dim) +
                Linear::packed_bytes(dtype, latent.value_dim, latent.rank)) *
               static_cast<std::size_t>(spec.layers[layer].heads);
    }
  }
  add(Role::embedding);
  add(Role::position_embedding);
  add(Role::cls);
  add(Role::cls_out);
  if (own_head) add(Role::output);
  if (const std::uint64_t free = available_memory(); bytes > free) {
    return exhausted(
        "the weights need {} ({} bytes) of memory, but {} ({} bytes) are free: take a smaller type",
        human_bytes(static_cast<double>(bytes)), bytes, human_bytes(static_cast<double>(free)), free);
  }
  LITHE_ASSIGN_OR_RETURN(memory_, layers::WeightMemory::create(bytes));
  return {};
}

// A head of its own, unless it is absent or holds the very bytes of the embedding.
Result<bool> Builder::has_own_head() {
  const BoundWeight& head = binding_.find(Role::output);
  const BoundWeight& embedding = binding_.find(Role::embedding);
  if (!head) return false;
  if (head.tensor->format != embedding.tensor->format) return true;
  std::vector<std::byte> made;
  LITHE_ASSIGN_OR_RETURN(const auto a, file_.slice(*head.tensor, 0, made_));
  LITHE_ASSIGN_OR_RETURN(const auto b, file_.slice(*embedding.tensor, 0, made));
  const bool same = std::ranges::equal(a, b);
  if (same) log_info("{} repeats {}: one copy is kept", head.tensor->name, embedding.tensor->name);
  return !same;
}

// What a file's own tables say of the rotary frequencies: one for any length, or one for up to the original context
// and one for beyond.
Status Builder::divisors(ArchSpec& spec) {
  if (!spec.ropes.empty()) {
    RopeSpec& rope = spec.ropes.front();  // layers with a window rotate unscaled
    Role role = Role::rope_divisors;
    if (rope.scaling == RopeScaling::longrope) {
      const bool stretched = spec.usable_context > rope.original_context;
      role = stretched ? Role::rope_divisors_long : Role::rope_divisors_short;
    }
    const BoundWeight& table = binding_.find(role);
    if (!table) return {};
    LITHE_ASSIGN_OR_RETURN(rope.freq_divisors, vector(table));
    for (const float divisor : rope.freq_divisors) {
      if (!(divisor > 0) || !std::isfinite(divisor)) {
        return corrupt("{} holds {}, which divides no frequency", table.tensor->name, divisor);
      }
    }
  }
  return {};
}

Result<DecoderWeights> Builder::build(ArchSpec& spec) {
  DecoderWeights out;
  const BoundWeight none;
  LITHE_ASSIGN_OR_RETURN(const bool own_head, has_own_head());
  spec.tied_head = !own_head;
  LITHE_RETURN_IF_ERROR(reserve(spec, own_head));
  LITHE_RETURN_IF_ERROR(divisors(spec));
  for (std::size_t index = 0; index < spec.layers.size(); ++index) {
    LITHE_ASSIGN_OR_RETURN(DecoderLayer built, layer(index, spec));
    out.layers.push_back(std::move(built));
  }
  LITHE_ASSIGN_OR_RETURN(out.output_norm,
                         norm(Role::output_norm, Role::output_norm_bias, 0, spec.norm, spec.norm_eps));
  LITHE_ASSIGN_OR_RETURN(out.embedding, linear(binding_.find(Role::embedding), none));
  if (const BoundWeight& positions = binding_.find(Role::position_embedding)) {
    LITHE_ASSIGN_OR_RETURN(out.position_embedding, linear(positions, none));
  }
  LITHE_ASSIGN_OR_RETURN(out.embedding_norm,
                         norm(Role::embedding_norm, Role::embedding_norm_bias, 0, spec.norm, spec.norm_eps));
  if (const BoundWeight& types = binding_.find(Role::token_types)) {
    LITHE_ASSIGN_OR_RETURN(out.token_types, vector(types));
  }
  if (const BoundWeight& cls = binding_.find(Role::cls)) {
    LITHE_ASSIGN_OR_RETURN(out.cls, linear(cls, binding_.find(Role::cls_bias)));
  } else if (spec.labels > 0) {
    log_warning(
        "the file lacks cls.weight, which rows pass before the labels': scores are not what was trained "
        "(llama.cpp's converter leaves out BERT's)");
  }
  LITHE_ASSIGN_OR_RETURN(out.cls_norm, norm(Role::cls_norm, Role::cls_norm, 0, spec.norm, spec.norm_eps));
  if (const BoundWeight& labels = binding_.find(Role::cls_out)) {
    LITHE_ASSIGN_OR_RETURN(out.cls_out, linear(labels, binding_.find(Role::cls_out_bias)));
  }
  if (own_head) {
    LITHE_ASSIGN_OR_RETURN(out.head, linear(binding_.find(Role::output), none));
  } else {
    out.head = out.embedding.share();
    if (const BoundWeight& repeated = binding_.find(Role::output)) file_.release(*repeated.tensor);
  }
  if (const BoundWeight& bias = binding_.find(Role::output_bias)) {
    LITHE_ASSIGN_OR_RETURN(auto values, vector(bias));
    out.head.set_bias(std::move(values));
  }
  out.memory = std::move(memory_);
  return out;
}

// One line on the types that run as others: what it costs is no secret, and who wants can have it for good.
void tell_of_recoding(const formats::ModelFile& file) {
  std::map<const BlockFormat*, int> counts;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.format != nullptr && tensor.format->decode_only()) ++counts[tensor.format];
  }
  if (counts.empty()) return;
  std::string list;
  for (const auto& [format, count] : counts) {
    const BlockFormat& runs_as = block_format(format->dtype);
    list += fmt::format("{}{} tensors of type {} ({:.4g} bits a weight) run as {} ({:.4g})",
                        list.empty() ? "" : ", ", count, formats::find_gguf_type(format->gguf_id)->name,
                        format->bits_per_weight(), formats::find_gguf_type(runs_as.gguf_id)->name,
                        runs_as.bits_per_weight());
  }
  log_warning("{}: decoded while loading; 'lithe convert' does it once", list);
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

Result<DescribedModel> describe_model(const formats::ModelFile& file, std::int64_t context) {
  DescribedModel model;
  LITHE_ASSIGN_OR_RETURN(const auto architecture, file.metadata().required_string("general.architecture"));
  LITHE_ASSIGN_OR_RETURN(const auto type, file.metadata().optional_string("general.type"));
  if (type == "adapter")
    return unsupported(
        "the file holds an adapter, not a model: merge it into the model that it was trained on");
  LITHE_ASSIGN_OR_RETURN(model.family, find_family(architecture));
  LITHE_ASSIGN_OR_RETURN(model.spec, model.family->describe(Parameters(file, architecture)));
  const std::string direction = fmt::format("{}.attention.causal", architecture);
  LITHE_ASSIGN_OR_RETURN(const auto causal, file.metadata().optional_bool(direction));
  if (causal && *causal != model.spec.causal)
    return unsupported("{} = {}, but '{}' runs with {} only", direction, *causal, architecture,
                       model.spec.causal);
  model.spec.usable_context = context > 0 ? context : model.spec.context;
  model.table = model.family->weights(model.spec);
  LITHE_RETURN_IF_ERROR(read_vocabulary_size(file, model.table, model.spec));
  LITHE_RETURN_IF_ERROR(model.binding.bind(file, model.spec, model.table));
  return model;
}

Result<LoadedModel> load_model(const formats::ModelFile& file, const LoadOptions& options,
                               const kernels::KernelTable& kernels, ThreadPool& pool) {
  LITHE_ASSIGN_OR_RETURN(DescribedModel described, describe_model(file, options.context));
  if (const std::string unused = described.binding.unused(file); !unused.empty()) log_warning("{}", unused);
  tell_of_recoding(file);
  LoadedModel model;
  model.spec = std::move(described.spec);
  Builder builder(file, described.binding, options, kernels, pool);
  LITHE_ASSIGN_OR_RETURN(model.weights, builder.build(model.spec));
  return model;
}

}  // namespace lithe::models
