#include "formats/convert.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/text.h"

namespace lithe::formats {
namespace {

// Work is cut into pieces of so many values: a multiple of every block, small enough for a thread's cache.
constexpr std::uint64_t kPieceElements = 32768;
// Pieces converted between two writes.
constexpr std::uint64_t kSlabPieces = 128;

const GgufType& gguf_type(DType dtype) {
  return *find_gguf_type(block_format(dtype).gguf_id);
}

std::uint64_t columns_of(const GgufTensor& tensor) {
  return tensor.dims.empty() ? 1 : tensor.dims[0];
}

// A matrix, or a stack of them: trailing dimensions of 1 do not count.
bool is_matrix(const GgufTensor& tensor) {
  return std::any_of(tensor.dims.begin() + std::min<std::ptrdiff_t>(1, std::ssize(tensor.dims)),
                     tensor.dims.end(), [](std::uint64_t dim) { return dim > 1; });
}

// Matrices that stay as they are: small, and errors in them hurt. The list is llama.cpp's, so that files agree.
bool is_delicate(std::string_view name) {
  constexpr std::array kFragments = {std::string_view("_norm.weight"),
                                     std::string_view("ffn_gate_inp.weight"),
                                     std::string_view("ffn_gate_tid2eid"),
                                     std::string_view("altup"),
                                     std::string_view("laurel"),
                                     std::string_view("per_layer_model_proj"),
                                     std::string_view("position_embd"),
                                     std::string_view("token_types.weight"),
                                     std::string_view("ssm_conv1d"),
                                     std::string_view("shortconv.conv.weight"),
                                     std::string_view("indexer.k_proj.weight"),
                                     std::string_view("indexer.q_proj.weight"),
                                     std::string_view("time_mix_first.weight"),
                                     std::string_view("time_mix_w0.weight"),
                                     std::string_view("time_mix_w1.weight"),
                                     std::string_view("time_mix_w2.weight"),
                                     std::string_view("time_mix_v0.weight"),
                                     std::string_view("time_mix_v1.weight"),
                                     std::string_view("time_mix_v2.weight"),
                                     std::string_view("time_mix_a0.weight"),
                                     std::string_view("time_mix_a1.weight"),
                                     std::string_view("time_mix_a2.weight"),
                                     std::string_view("time_mix_g1.weight"),
                                     std::string_view("time_mix_g2.weight"),
                                     std::string_view("time_mix_decay_w"),
                                     std::string_view("time_mix_lerp_fused.weight"),
                                     std::string_view("attn_rel_b.weight"),
                                     std::string_view("sam.pos_embd"),
                                     std::string_view("sam.neck."),
                                     std::string_view("sam.net_"),
                                     std::string_view(".rel_pos"),
                                     std::string_view(".patch_embd"),
                                     std::string_view(".patch_merger"),
                                     std::string_view("a.rvq.codebook"),
                                     std::string_view("mm.a.code_embd")};
  return std::any_of(kFragments.begin(), kFragments.end(),
                     [&](std::string_view fragment) { return name.find(fragment) != name.npos; });
}

bool is_converted(const GgufTensor& tensor) {
  return is_matrix(tensor) && tensor.name.ends_with("weight") && !is_delicate(tensor.name);
}

bool divides(DType dtype, std::uint64_t columns) {
  return columns % static_cast<std::uint64_t>(block_format(dtype).block_elems) == 0;
}

struct Policy {
  DType target;
  bool pure;
  bool tied;  // no output head of its own: the embedding serves as one
  bool
      eight_experts;  // of such models the attention is small beside the experts: its keys and values get Q8_0

  bool is_head(std::string_view name) const {
    return name == "output.weight" ||
           (tied && (name == "token_embd.weight" || name == "per_layer_token_embd.weight"));
  }

  DType wanted(const GgufTensor& tensor) const {
    if (pure || !block_format(target).quantized()) return target;
    if (is_head(tensor.name)) {
      return target == DType::q8_0 || !divides(target, columns_of(tensor)) ? DType::q8_0 : DType::q6_k;
    }
    const bool keys_or_values =
        tensor.name.ends_with("attn_v.weight") || tensor.name.ends_with("attn_k.weight");
    return eight_experts && keys_or_values ? DType::q8_0 : target;
  }
};

Result<PlannedTensor> plan_tensor(const Policy& policy, const GgufTensor& tensor) {
  PlannedTensor planned;
  planned.source = &tensor;
  planned.type = &tensor.type();
  if (is_converted(tensor)) {
    const DType wanted = policy.wanted(tensor);
    const std::uint64_t columns = columns_of(tensor);
    DType chosen = wanted;
    while (!divides(chosen, columns)) chosen = block_format(chosen).fallback;
    planned.type = &gguf_type(chosen);
    if (chosen != wanted) planned.wanted = &gguf_type(wanted);
  }
  planned.copied = planned.type->id == tensor.gguf_type;
  if (!planned.copied && tensor.format == nullptr) {
    return unsupported("tensor {} is of type {}, which Lithe does not decode", in_quotes(tensor.name),
                       tensor.type().name);
  }
  planned.bytes = tensor.elements() / planned.type->block_elems * planned.type->block_bytes;
  return planned;
}

// The greatest magnitude an output of this type can hold without an infinity: f16 scales and minima bound the blocks.
float greatest_value(const BlockFormat& format) {
  if (format.dtype == DType::f32 || format.dtype == DType::mxfp4) return FLT_MAX;
  return format.dtype == DType::bf16 ? 0x1.fep127f : 65504.0f;
}

// The first value that is not finite or beyond `limit`; count if there is none.
std::uint64_t find_unfit(const float* values, std::uint64_t count, float limit) {
  bool fit = true;
  for (std::uint64_t i = 0; i < count; ++i) fit &= std::fabs(values[i]) <= limit;  // false for NaN
  if (fit) return count;
  std::uint64_t i = 0;
  while (std::fabs(values[i]) <= limit) ++i;
  return i;
}

// Everything that outlives a tensor, so that buffers are allocated once.
struct Workspace {
  std::vector<std::vector<float>> values;  // per thread
  std::vector<std::byte> slab, made;
};

// `index` counts within the matrix `slice` of the tensor, whose bytes are `data`.
Status unfit_value(const PlannedTensor& planned, std::span<const std::byte> data, std::uint64_t slice,
                   std::uint64_t index) {
  const GgufTensor& tensor = *planned.source;
  float value;
  const auto block = static_cast<std::uint64_t>(tensor.format->block_elems);
  std::vector<float> values(block);
  const auto offset = index / block * static_cast<std::uint64_t>(tensor.format->block_bytes);
  tensor.format->decode(data.data() + offset, static_cast<std::int64_t>(block), values.data());
  value = values[index % block];
  const std::uint64_t columns = columns_of(tensor);
  return corrupt("tensor {} holds {} in row {}, column {}, {}", in_quotes(tensor.name), value,
                 (slice * (tensor.elements() / tensor.slices()) + index) / columns, index % columns,
                 std::isfinite(value) ? fmt::format("too large for {}", planned.type->name)
                                      : std::string("so no model could run it"));
}

// Decodes and encodes values [begin, begin + count) into the slab, whose first value is `base`. Returns the index of a
// value that does not fit, or the end.
std::uint64_t convert_piece(const PlannedTensor& planned, std::span<const std::byte> data,
                            std::uint64_t begin, std::uint64_t count, std::vector<float>& values,
                            std::byte* out) {
  const BlockFormat& from = *planned.source->format;
  const BlockFormat& to = *find_format_by_gguf_id(planned.type->id);
  values.resize(kPieceElements);
  const auto offset =
      begin / static_cast<std::uint64_t>(from.block_elems) * static_cast<std::uint64_t>(from.block_bytes);
  from.decode(data.data() + offset, static_cast<std::int64_t>(count), values.data());
  const std::uint64_t unfit = find_unfit(values.data(), count, greatest_value(to));
  if (unfit < count) return begin + unfit;
  to.encode(values.data(), static_cast<std::int64_t>(count), out);
  return begin + count;
}

// One matrix of the tensor, whose bytes are `data`.
Status convert_slice(const PlannedTensor& planned, std::span<const std::byte> data, std::uint64_t slice,
                     GgufWriter& writer, ThreadPool& pool, Workspace& workspace, ConvertProgress progress) {
  const GgufTensor& tensor = *planned.source;
  const std::uint64_t elements = tensor.elements() / tensor.slices();
  const std::uint64_t piece_bytes = kPieceElements / planned.type->block_elems * planned.type->block_bytes;
  const std::uint64_t source_bytes = kPieceElements / tensor.type().block_elems * tensor.type().block_bytes;
  for (std::uint64_t begin = 0; begin < elements; begin += kSlabPieces * kPieceElements) {
    const std::uint64_t count = std::min(elements - begin, kSlabPieces * kPieceElements);
    const std::uint64_t pieces = (count + kPieceElements - 1) / kPieceElements;
    workspace.slab.resize(kSlabPieces * piece_bytes);
    std::atomic<std::uint64_t> unfit = elements;
    pool.parallel_for(static_cast<std::int64_t>(pieces), [&](std::int64_t piece, int worker) {
      const auto first = static_cast<std::uint64_t>(piece) * kPieceElements;
      const std::uint64_t length = std::min(count - first, kPieceElements);
      const std::uint64_t end = convert_piece(
          planned, data, begin + first, length, workspace.values[static_cast<std::size_t>(worker)],
          workspace.slab.data() + static_cast<std::uint64_t>(piece) * piece_bytes);
      if (end == begin + first + length) return;
      std::uint64_t known = unfit.load();
      while (end < known && !unfit.compare_exchange_weak(known, end)) {
      }
    });
    if (unfit.load() < elements) return unfit_value(planned, data, slice, unfit.load());
    const std::uint64_t bytes = count / planned.type->block_elems * planned.type->block_bytes;
    LITHE_RETURN_IF_ERROR(writer.write_tensor(std::span(workspace.slab).first(bytes)));
    if (!progress(std::min(source_bytes * pieces, std::uint64_t{data.size()}), tensor.name))
      return cancelled("interrupted");
  }
  return {};
}

Status copy_slice(const PlannedTensor& planned, std::span<const std::byte> data, GgufWriter& writer,
                  ConvertProgress progress) {
  constexpr std::size_t kStep = std::size_t{16} << 20;
  for (std::size_t at = 0; at < data.size(); at += kStep) {
    const auto part = data.subspan(at, std::min(kStep, data.size() - at));
    LITHE_RETURN_IF_ERROR(writer.write_tensor(part));
    if (!progress(part.size(), planned.source->name)) return cancelled("interrupted");
  }
  return {};
}

void declare(const ModelFile& file, const ConversionPlan& plan, GgufWriter& writer) {
  for (const GgufPair& pair : file.metadata().pairs()) {
    if (!pair.key.starts_with("split.") && pair.key != "general.alignment") writer.copy_metadata(pair);
  }
  writer.add_metadata("general.file_type", block_format(plan.target).file_type);
  if (block_format(plan.target).quantized())
    writer.add_metadata("general.quantization_version", std::uint32_t{2});
  for (const PlannedTensor& planned : plan.tensors) {
    writer.add_tensor(std::string(planned.source->name), *planned.type, planned.source->dims);
  }
}

}  // namespace

Result<ConversionPlan> plan_conversion(const ModelFile& file, DType target, bool pure) {
  ConversionPlan plan;
  plan.target = target;
  Policy policy{target, pure, file.find_tensor("output.weight") == nullptr, false};
  LITHE_ASSIGN_OR_RETURN(const auto architecture, file.metadata().optional_string("general.architecture"));
  if (architecture) {
    LITHE_ASSIGN_OR_RETURN(const auto experts,
                           file.metadata().optional_uint(std::string(*architecture) + ".expert_count"));
    policy.eight_experts = experts == 8;
  }
  for (const GgufTensor& tensor : file.tensors()) {
    LITHE_ASSIGN_OR_RETURN(const PlannedTensor planned, plan_tensor(policy, tensor));
    plan.bytes += planned.bytes;
    plan.elements += tensor.elements();
    plan.tensors.push_back(planned);
  }
  return plan;
}

Status convert(const ModelFile& file, const ConversionPlan& plan, const std::filesystem::path& output,
               ThreadPool& pool, ConvertProgress progress) {
  GgufWriter writer;
  declare(file, plan, writer);
  LITHE_RETURN_IF_ERROR(writer.begin(output));
  Workspace workspace;
  workspace.values.resize(static_cast<std::size_t>(pool.size()));
  for (const PlannedTensor& planned : plan.tensors) {
    for (std::uint64_t slice = 0; slice < planned.source->slices(); ++slice) {
      LITHE_ASSIGN_OR_RETURN(const auto data, file.slice(*planned.source, slice, workspace.made));
      LITHE_RETURN_IF_ERROR(planned.copied
                                ? copy_slice(planned, data, writer, progress)
                                : convert_slice(planned, data, slice, writer, pool, workspace, progress));
    }
    file.release(*planned.source);
  }
  return writer.commit();
}

}  // namespace lithe::formats
