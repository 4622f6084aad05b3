#include "models/hf/export.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>

#include "base/check.h"
#include "base/file.h"
#include "formats/safetensors.h"
#include "models/hf/beside.h"
#include "models/hf/config.h"
#include "models/hf/model.h"

namespace lithe::models {
namespace {

namespace fs = std::filesystem;

std::string alternative_of(std::string_view names, std::size_t index) {
  for (std::size_t bar; index > 0 && (bar = names.find('|')) != std::string_view::npos; --index)
    names.remove_prefix(bar + 1);
  return std::string(names.substr(0, names.find('|')));
}

// The type of most weights, if a checkpoint has it.
DType usual_type(const formats::ModelFile& file) {
  std::map<DType, std::uint64_t> elements;
  for (const formats::GgufTensor& tensor : file.tensors()) {
    if (tensor.format != nullptr && tensor.dims.size() > 1)
      elements[tensor.format->dtype] += tensor.elements();
  }
  const auto most = std::ranges::max_element(elements, {}, [](const auto& pair) { return pair.second; });
  if (most == elements.end() || formats::find_safetensors_type(most->first) == nullptr) return DType::f16;
  return most->first;
}

std::string_view torch_name(DType type) {
  return type == DType::f32 ? "float32" : type == DType::f16 ? "float16" : "bfloat16";
}

// Parameters of the architecture that are not in `again`, or otherwise: "a, b".
std::string changed(const formats::Metadata& stated, const formats::Metadata& again,
                    const std::string& prefix) {
  std::string names;
  for (const auto& [key, value] : stated.values()) {
    if (!key.starts_with(prefix)) continue;
    const formats::GgufValue* other = again.find(key);
    if (other == nullptr || *other != value) names += (names.empty() ? "" : ", ") + std::string(key);
  }
  return names;
}

}  // namespace

std::vector<std::uint64_t> HfExport::Target::shape() const {
  const auto unsigned_of = [](std::int64_t length) { return static_cast<std::uint64_t>(length); };
  std::vector<std::uint64_t> shape;
  if (stack > 0) shape.push_back(unsigned_of(stack));
  if (parts.front().weight.entry->role == Role::shared_weight) shape.push_back(1);  // a layer with one output
  shape.push_back(unsigned_of(transposed() ? cols : rows));
  if (parts.front().weight.entry->role == Role::ssm_conv)
    shape.push_back(1);  // a convolution of each channel alone
  if (cols > 0) shape.push_back(unsigned_of(transposed() ? rows : cols));
  return shape;
}

std::uint64_t HfExport::bytes() const {
  std::uint64_t sum = 0;
  for (const Tensor& tensor : tensors()) sum += tensor.bytes;
  return sum;
}

std::vector<HfExport::Tensor> HfExport::tensors() const {
  std::vector<Tensor> out;
  for (const Target& target : targets_) {
    Tensor tensor{target.name, target.shape(), static_cast<std::uint64_t>(block_format(type_).block_bytes)};
    for (const std::uint64_t dim : tensor.shape) tensor.bytes *= dim;
    out.push_back(std::move(tensor));
  }
  return out;
}

Result<HfExport> HfExport::plan(const formats::ModelFile& file, std::optional<DType> type) {
  HfExport plan(file);
  plan.type_ = type.value_or(usual_type(file));
  if (formats::find_safetensors_type(plan.type_) == nullptr) {
    return unsupported("a Hugging Face directory holds f32, f16 or bf16, not {}",
                       block_format(plan.type_).name);
  }
  LITHE_ASSIGN_OR_RETURN(plan.model_, describe_model(file));
  LITHE_RETURN_IF_ERROR(plan.write_config());
  LITHE_RETURN_IF_ERROR(plan.write_texts());
  plan.list_targets();
  return plan;
}

Status HfExport::write_texts() {
  const ArchSpec& spec = model_.spec;
  if (file_->metadata().contains("tokenizer.ggml.tokens")) {
    LITHE_ASSIGN_OR_RETURN(texts_, hf_vocabulary_files(file_->metadata()));
  }
  if (!spec.causal)
    std::erase_if(texts_, [](const HfFile& text) { return text.name == "generation_config.json"; });
  for (HfFile& text : sentence_parts(spec.pooling, spec.hidden)) texts_.push_back(std::move(text));
  return {};
}

Status HfExport::write_config() {
  const ArchSpec& spec = model_.spec;
  HfConfig config(*file_, spec);
  LITHE_RETURN_IF_ERROR(model_.family->translate(config));
  if (config.find("model_type") == nullptr)
    return unsupported("'{}' cannot be written as a Hugging Face directory yet", spec.family);
  alternative_ = config.alternative;
  config.set("vocab_size", spec.vocab);
  config.set("tie_word_embeddings", !model_.binding.find(Role::output));
  config.set("torch_dtype", std::string(torch_name(type_)));
  for (const auto& [hf, key] : {std::pair{"bos_token_id", "tokenizer.ggml.bos_token_id"},
                                std::pair{"eos_token_id", "tokenizer.ggml.eos_token_id"},
                                std::pair{"pad_token_id", "tokenizer.ggml.padding_token_id"}}) {
    LITHE_ASSIGN_OR_RETURN(const auto id, file_->metadata().optional_uint(key));
    if (!id && config.find(hf) != nullptr) continue;  // the family has one
    config.set(hf, id ? Json(*id) : Json());          // null: not what the class would take for granted
  }
  LITHE_RETURN_IF_ERROR(check_config(config.json()));
  config_ = config.json().dump(2) + "\n";
  return {};
}

// Read again, it describes the same model.
Status HfExport::check_config(const Json& written) const {
  HfConfig config(written, model_.family->name);
  config.metadata.add("general.architecture", std::string(model_.family->name));
  config.metadata.add("general.name", model_.spec.name);
  LITHE_RETURN_IF_ERROR(model_.family->translate(config));
  LITHE_ASSIGN_OR_RETURN(const formats::Metadata again, config.metadata.build());
  const Family& family = *model_.family;
  LITHE_ASSIGN_OR_RETURN(const ArchSpec a, family.describe(Parameters(*file_, family.name)));
  LITHE_ASSIGN_OR_RETURN(ArchSpec b, family.describe(Parameters(again, family.name)));
  b.pooling = a.pooling;  // not config.json's to say
  if (a == b) return {};
  return unsupported("config.json cannot say all that this model's parameters do ({})",
                     changed(file_->metadata(), again, std::string(model_.family->name) + "."));
}

void HfExport::list_targets() {
  std::set<std::string> done;
  const auto list = [&](bool layers, std::size_t layer) {
    for (std::size_t i = 0; i < model_.table.size(); ++i) {
      const WeightEntry& entry = model_.table[i];
      if (per_layer(entry.role) != layers || entry.hf.empty() || !entry.lies_in(model_.spec.layers[layer]))
        continue;
      if (!model_.binding.find(entry.role, layer)) continue;
      if (done.insert(layer_name(entry.hf, static_cast<std::int64_t>(layer))).second) list_target(i, layer);
    }
  };
  list(false, 0);
  for (std::size_t layer = 0; layer < model_.spec.layers.size(); ++layer) list(true, layer);
}

// The checkpoint's tensor that row `entry` of the table names, of that row and all that share it; or one for each expert.
void HfExport::list_target(std::size_t entry, std::size_t layer) {
  const WeightEntry& first = model_.table[entry];
  const LayerSpec& shape = model_.spec.layers[layer];
  const bool by_expert = first.hf.find("{e}") != std::string::npos;
  const Place place = place_of(model_.table, entry, &WeightEntry::hf, model_.spec, shape);
  const std::int64_t experts = dim_length(first.stack, model_.spec, shape);
  const LatentSpec& latent = shape.latent;
  const bool by_head =
      first.transform == Transform::latent_keys || first.transform == Transform::latent_values;
  const std::int64_t head_rows = std::int64_t{latent.plain_dim} + latent.value_dim;
  for (std::int64_t expert = 0; expert < (by_expert ? experts : 1); ++expert) {
    Target target;
    target.name = expert_name(
        layer_name(alternative_of(first.hf, alternative_), static_cast<std::int64_t>(layer)), expert);
    target.rows = place.whole;
    target.cols = first.matrix() ? dim_length(first.cols, model_.spec, shape) : 0;
    target.stack = first.stacked() && !by_expert ? experts : 0;
    if (by_head) {
      target.rows = head_rows * shape.heads;
      target.cols = latent.rank;
      target.stack = 0;
    }
    for (std::size_t i = 0; i < model_.table.size(); ++i) {
      const WeightEntry& piece = model_.table[i];
      if (piece.hf != first.hf || !piece.lies_in(shape)) continue;
      const BoundWeight& weight = model_.binding.find(piece.role, layer);
      if (!weight) continue;
      if (by_head) {
        const std::int64_t skipped = piece.transform == Transform::latent_keys ? 0 : latent.plain_dim;
        for (std::int64_t head = 0; head < experts; ++head)
          target.parts.push_back({weight, &shape, head, head * head_rows + skipped});
        continue;
      }
      const std::int64_t offset =
          is_mixed(piece.transform) ? 0
                                    : place_of(model_.table, i, &WeightEntry::hf, model_.spec, shape).offset;
      for (std::int64_t e = 0; e < std::max<std::int64_t>(target.stack, 1); ++e) {
        target.parts.push_back({weight, &shape, by_expert ? expert : e, e * place.whole + offset});
      }
    }
    targets_.push_back(std::move(target));
  }
}

Status HfExport::make(const Target& target, ThreadPool& pool, std::vector<std::byte>& out) const {
  std::size_t bytes = static_cast<std::size_t>(block_format(type_).block_bytes);
  for (const std::uint64_t dim : target.shape()) bytes *= static_cast<std::size_t>(dim);
  out.assign(bytes, std::byte{0});
  for (const Part& part : target.parts) LITHE_RETURN_IF_ERROR(make_part(target, part, pool, out));
  return {};
}

Status HfExport::make_part(const Target& target, const Part& part, ThreadPool& pool,
                           std::vector<std::byte>& out) const {
  const BoundWeight& weight = part.weight;
  const WeightEntry& entry = *weight.entry;
  const BlockFormat& from = *weight.tensor->format;
  const BlockFormat& to = block_format(type_);
  const auto value = static_cast<std::size_t>(to.block_bytes);
  const float greatest = type_ == DType::f16 ? 65504.0f : type_ == DType::bf16 ? 0x1.fep127f : 3.4028235e38f;
  std::atomic<bool> fits = true;
  std::vector<std::byte> scratch;
  // A vector is one row of numbers, which are placed one by one; a stack of vectors is a matrix of GGUF.
  const bool vector = !entry.matrix();
  LITHE_ASSIGN_OR_RETURN(
      const auto data,
      file_->slice(*weight.tensor, vector ? 0 : static_cast<std::uint64_t>(part.slice), scratch));
  const bool folded = entry.folds != Dim::none;
  const auto stored_cols = folded ? weight.cols : static_cast<std::int64_t>(weight.tensor->dims[0]);
  const std::size_t row_bytes =
      static_cast<std::size_t>(stored_cols / from.block_elems) * static_cast<std::size_t>(from.block_bytes);
  const std::int64_t rows = vector ? 1 : weight.rows, cols = vector ? stored_cols : weight.cols;
  const auto put = [&](std::int64_t at, const float* numbers, std::int64_t count) {
    to.encode(numbers, count, out.data() + static_cast<std::size_t>(at) * value);
  };
  pool.parallel_for(rows, [&](std::int64_t row, int) {
    std::vector<float> numbers(static_cast<std::size_t>(cols));
    const std::int64_t stored = vector ? (entry.stacked() ? part.slice : 0) : weight.offset + row;
    from.decode(data.data() + static_cast<std::size_t>(stored) * row_bytes, cols, numbers.data());
    for (float& number : numbers) number = to_checkpoint(entry.transform, number);
    for (const float number : numbers) {
      if (!(std::fabs(number) <= greatest)) fits = false;
    }
    if (vector) {
      for (std::int64_t i = 0; i < weight.cols; ++i)
        put(part.offset + source_row(entry.transform, entry.role, *part.layer, i),
            &numbers[static_cast<std::size_t>(weight.offset + i)], 1);
      return;
    }
    if (entry.transform == Transform::latent_keys) {  // turned: a column of the rows of keys
      for (std::int64_t col = 0; col < cols; ++col)
        put((part.offset + col) * target.cols + row, &numbers[static_cast<std::size_t>(col)], 1);
      return;
    }
    const std::int64_t at = part.offset + source_row(entry.transform, entry.role, *part.layer, row);
    if (!target.transposed()) return put(at * cols, numbers.data(), cols);
    const std::int64_t matrix = at / target.rows * target.rows * cols, row_in = at % target.rows;
    for (std::int64_t col = 0; col < cols; ++col)
      put(matrix + col * target.rows + row_in, &numbers[static_cast<std::size_t>(col)], 1);
  });
  if (fits) return {};
  return corrupt("tensor {} holds a value that does not fit {}", weight.tensor->name, to.name);
}

Status HfExport::write(const fs::path& folder, std::uint64_t shard_bytes, ThreadPool& pool,
                       Progress progress) const {
  std::error_code error;
  if (fs::exists(folder, error) && !(fs::is_directory(folder, error) && fs::is_empty(folder, error)))
    return invalid("{} is there already", folder.string());
  fs::path whole = fs::absolute(folder, error).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const fs::path partial = whole.string() + ".partial-" + std::to_string(::getpid());
  // Removed again unless all is well.
  struct Guard {
    const fs::path& path;
    ~Guard() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } const guard{partial};
  fs::create_directory(partial, error);
  if (error) return io_error("{}: {}", partial.string(), error.message());

  formats::SafetensorsWriter writer;
  for (const Tensor& tensor : tensors())
    writer.add_tensor(tensor.name, *formats::find_safetensors_type(type_), tensor.shape);
  LITHE_RETURN_IF_ERROR(writer.begin(partial, shard_bytes));
  std::vector<std::byte> bytes;
  for (const Target& target : targets_) {
    LITHE_RETURN_IF_ERROR(make(target, pool, bytes));
    LITHE_RETURN_IF_ERROR(writer.write_tensor(bytes));
    if (!progress(bytes.size(), target.name)) return cancelled("interrupted");
  }
  LITHE_RETURN_IF_ERROR(writer.commit());
  std::vector<HfFile> texts = texts_;
  texts.push_back({"config.json", config_});
  for (const HfFile& text : texts) {
    fs::create_directories((partial / text.name).parent_path(), error);
    if (error) return io_error("{}: {}", (partial / text.name).string(), error.message());
    LITHE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(partial / text.name));
    LITHE_RETURN_IF_ERROR(file.write(text.text));
    LITHE_RETURN_IF_ERROR(file.commit());
  }
  fs::rename(partial, whole, error);  // over an empty folder too
  if (error) return io_error("{}: {}", whole.string(), error.message());
  return {};
}

}  // namespace lithe::models
