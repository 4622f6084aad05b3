#include "models/hf/model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/log.h"
#include "models/binding.h"
#include "models/hf/beside.h"
#include "models/hf/config.h"
#include "models/hf/vocab.h"

namespace lithe::models {
namespace {

using formats::GgufTensor;
using formats::SafetensorsTensor;

// Checkpoints of a bare model lack the first part of each name, those within a larger one have another.
constexpr std::array<std::string_view, 6> kPrefixes{"model.",   "transformer.",    "bert.",
                                                    "roberta.", "language_model.", "model.language_model."};

// The folder's name; of a snapshot in the hub's cache (models--ORG--NAME/snapshots/COMMIT) the model's.
std::string model_name(const std::filesystem::path& folder) {
  const auto whole = (folder.has_filename() ? folder : folder.parent_path()).lexically_normal();
  const auto holder = whole.parent_path();
  if (holder.filename() == "snapshots") {
    const std::string cached = holder.parent_path().filename().string();
    if (const std::size_t at = cached.rfind("--");
        cached.starts_with("models--") && at != std::string::npos) {
      return cached.substr(at + 2);
    }
  }
  return whole.filename().string();
}

// Parts of checkpoints that no inference reads: what training predicted with, and what code computes anyway.
bool is_idle(std::string_view name) {
  constexpr std::array<std::string_view, 5> kIdle{"pooler.", "cls.predictions.", "position_ids",
                                                  "rotary_emb.inv_freq", "masked_bias"};
  return std::ranges::any_of(kIdle, [&](std::string_view part) { return name.find(part) != name.npos; });
}

bool is_of_vision(std::string_view name) {
  constexpr std::array<std::string_view, 5> kParts{"vision_tower.", "multi_modal_projector.", "visual.",
                                                   "vision_model.", "embed_vision."};
  return std::ranges::any_of(kParts, [&](std::string_view part) {
    return name.starts_with(part) || name.starts_with("model." + std::string(part));
  });
}

}  // namespace

std::int64_t source_row(Transform transform, Role role, const LayerSpec& layer, std::int64_t row) {
  const std::int64_t d = layer.head_dim, group = layer.kv_heads > 0 ? layer.heads / layer.kv_heads : 1;
  switch (transform) {
    case Transform::none:
    case Transform::negative_exp:
    case Transform::add_one:
    case Transform::transpose:
    case Transform::latent_keys:
    case Transform::latent_values:
      return row;
    case Transform::alternate:
    case Transform::alternate_transpose:
      return 2 * row + (role == Role::expert_up || role == Role::expert_up_bias ? 1 : 0);
    case Transform::pair_heads: {
      const std::int64_t channel = row % d;
      return row - channel + channel % 2 * (d / 2) + channel / 2;
    }
    case Transform::grouped_qkv: {
      const std::int64_t unit = (group + 2) * d;  // a kv head with its queries
      if (role == Role::q || role == Role::q_bias) return row / (group * d) * unit + row % (group * d);
      const std::int64_t skipped = role == Role::k || role == Role::k_bias ? group * d : (group + 1) * d;
      return row / d * unit + skipped + row % d;
    }
  }
  return row;
}

Result<std::unique_ptr<HfModel>> HfModel::open(const std::filesystem::path& folder) {
  LITHE_ASSIGN_OR_RETURN(formats::HfDirectory directory, formats::HfDirectory::open(folder));
  std::unique_ptr<HfModel> model(new HfModel(std::move(directory)));
  model->path_ = folder;
  for (const std::string& warning : model->directory_.warnings()) log_warning("{}", warning);
  if (Status status = model->read(); !status.ok()) return std::move(status).with_context(folder.string());
  return model;
}

Status HfModel::read() {
  const HfConfig config(directory_.config(), "");
  const Json* architectures = config.find("architectures");
  if (architectures == nullptr || !architectures->is_array() || architectures->empty() ||
      !architectures->front().is_string()) {
    return corrupt("config.json does not name the model's architecture (architectures)");
  }
  LITHE_ASSIGN_OR_RETURN(const Family* family, find_hf_family(architectures->front().get<std::string>()));
  LITHE_RETURN_IF_ERROR(read_parameters(*family));
  return list_tensors();
}

Status HfModel::read_parameters(const Family& family) {
  HfConfig config(directory_.config(), family.name);
  config.metadata.add("general.architecture", std::string(family.name));
  config.metadata.add("general.name", model_name(path_));
  LITHE_RETURN_IF_ERROR(check_quantization(config));
  LITHE_RETURN_IF_ERROR(family.translate(config));
  LITHE_RETURN_IF_ERROR(import_sentence_parts(path_, config));
  // Weights can be converted and measured without a tokenizer.
  Status vocabulary = add_hf_vocabulary(directory_, config.metadata);
  if (!vocabulary.ok() && vocabulary.code() != Code::not_found) return vocabulary;
  LITHE_ASSIGN_OR_RETURN(metadata_, config.metadata.build());
  LITHE_ASSIGN_OR_RETURN(spec_, family.describe(Parameters(metadata_, family.name)));
  LITHE_RETURN_IF_ERROR(check_direction(config, spec_.causal));
  table_ = family.weights(spec_);
  spec_.tied_head = ties_embedding(config);
  LITHE_ASSIGN_OR_RETURN(spec_.vocab, config.integer("vocab_size"));
  if (spec_.vocab < 1 || spec_.vocab > Limits::vocab)
    return corrupt("config.json: vocab_size = {}", spec_.vocab);
  for (StatedTensor& tensor : config.tensors) {
    std::vector<std::uint64_t> dims{tensor.values.size()};
    add_tensor(std::move(tensor.name), DType::f32, std::move(dims), Recipe{{}, std::move(tensor.values)});
  }
  return {};
}

bool HfModel::ties_embedding(const HfConfig& config) const {
  const Json* stated = config.find("tie_word_embeddings");
  if (stated != nullptr && stated->is_boolean()) return stated->get<bool>();
  const auto head = std::ranges::find(table_, Role::output, &WeightEntry::role);
  return head == table_.end() || !find_source(*head, 0, 0).ok();
}

Status HfModel::list_tensors() {
  std::set<std::string> done;
  const auto list = [&](bool layers, std::size_t layer) -> Status {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      if (per_layer(table_[i].role) != layers || table_[i].hf.empty() || table_[i].gguf.empty() ||
          !table_[i].lies_in(spec_.layers[layer]))
        continue;
      if (!done.insert(layer_name(table_[i].gguf, static_cast<std::int64_t>(layer))).second) continue;
      LITHE_RETURN_IF_ERROR(list_tensor(i, layer));
    }
    return {};
  };
  LITHE_RETURN_IF_ERROR(list(false, 0));
  for (std::size_t layer = 0; layer < spec_.layers.size(); ++layer) LITHE_RETURN_IF_ERROR(list(true, layer));
  if (index_tensors() != nullptr) return corrupt("two tensors of the checkpoint mean the same");
  std::set<std::string_view> claimed(claimed_.begin(), claimed_.end());
  std::size_t unused = 0, seeing = 0;
  std::string first;
  for (const SafetensorsTensor& tensor : directory_.tensors()) {
    if (claimed.contains(tensor.name) || is_idle(tensor.name)) continue;
    if (is_of_vision(tensor.name)) {
      ++seeing;
      continue;
    }
    if (unused++ == 0) first = tensor.name;
  }
  if (seeing > 0) log_warning("images are not understood: {} tensors of the checkpoint are left out", seeing);
  if (unused > 0) log_warning("{} tensors of the checkpoint are not used, {} the first", unused, first);
  return {};
}

// nullptr: not there.
Result<const SafetensorsTensor*> HfModel::find_source(const WeightEntry& entry, std::size_t layer,
                                                      std::int64_t expert) const {
  const std::string name = expert_name(layer_name(entry.hf, static_cast<std::int64_t>(layer)), expert);
  const auto look_up = [&](std::string_view one) -> const SafetensorsTensor* {
    if (const auto* found = directory_.find_tensor(one)) return found;
    for (const auto& [now, before] :
         {std::pair{".weight", ".gamma"}, std::pair{".bias", ".beta"}}) {  // BERT's, once
      if (!one.ends_with(now) || one.find("LayerNorm") == one.npos) continue;
      const std::string old = std::string(one.substr(0, one.rfind('.'))) + before;
      if (const auto* found = directory_.find_tensor(old)) return found;
    }
    const auto* blocks = directory_.find_tensor(std::string(one) + "_blocks");
    return blocks != nullptr && formats::Mxfp4Matrix::holds(*blocks) ? blocks : nullptr;
  };
  for (std::string_view rest = name; !rest.empty();) {  // "a|b"
    const std::string_view one = rest.substr(0, rest.find('|'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (const auto* found = look_up(one)) return found;
    for (const std::string_view prefix : kPrefixes) {
      const auto* found = one.starts_with(prefix) ? look_up(one.substr(prefix.size()))
                                                  : look_up(std::string(prefix) + std::string(one));
      if (found != nullptr) return found;
    }
  }
  if (entry.presence == Presence::optional) return static_cast<const SafetensorsTensor*>(nullptr);
  return corrupt("the checkpoint lacks the tensor {}", name);
}

Status HfModel::check_source(const Piece& piece, std::int64_t whole, std::int64_t stack) const {
  const SafetensorsTensor& source = *piece.source;
  // Rows of codes are made one by one, each as long as the matrix is wide; blocks have no other form than GGUF's.
  const WeightEntry& entry = *piece.entry;
  const bool as_blocks = is_multiplied(entry.role) && entry.transform != Transform::latent_keys;
  if ((piece.coded() && !entry.matrix()) || (piece.mxfp4 != nullptr && !as_blocks)) {
    return unsupported("tensor {} holds codes ({}) where only plain numbers run", source.name,
                       source.type_name);
  }
  if (!piece.coded() && (source.type == nullptr || !source.type->dtype)) {
    return unsupported("tensor {} has the type {}, which Lithe does not run", source.name, source.type_name);
  }
  if (piece.fp8 != nullptr && piece.entry->transform == Transform::transpose) {
    return unsupported("tensor {} of type {} is stored turned, which does not run", source.name,
                       source.type_name);
  }
  std::vector<std::uint64_t> expected{static_cast<std::uint64_t>(whole)};
  if (piece.entry->matrix()) expected.push_back(static_cast<std::uint64_t>(piece.cols));
  if (piece.turned()) std::ranges::reverse(expected);
  if (stack > 0) expected.insert(expected.begin(), static_cast<std::uint64_t>(stack));
  std::vector<std::uint64_t> shape = piece.mxfp4 != nullptr ? piece.mxfp4->shape() : source.shape;
  for (auto one = shape.begin(); one != shape.end() && shape.size() > expected.size();)
    one = *one == 1 ? shape.erase(one) : one + 1;
  if (shape != expected) {
    return corrupt("tensor {} has the shape [{}], but config.json asks for [{}]", source.name,
                   fmt::join(source.shape, ", "), fmt::join(expected, ", "));
  }
  return {};
}

// The head is the embedding, and one beside it (field case 24) is left: with a warning where it is another one.
Status HfModel::leave_tied_head(const WeightEntry& head) {
  const SafetensorsTensor* beside = directory_.find_tensor(head.hf);
  const auto embedding = std::ranges::find(table_, Role::embedding, &WeightEntry::role);
  if (beside == nullptr || embedding == table_.end()) return {};
  LITHE_ASSIGN_OR_RETURN(const SafetensorsTensor* shared, find_source(*embedding, 0, 0));
  claimed_.push_back(beside->name);
  const bool same = shared != nullptr && shared->type_name == beside->type_name &&
                    std::ranges::equal(shared->data, beside->data);
  if (same) {
    log_info("{} repeats {}: one copy is kept", beside->name, shared->name);
  } else {
    log_warning("{} differs from the embedding and is not used: config.json ties the two", beside->name);
  }
  return {};
}

// Without a source: the model does without.
Result<HfModel::Piece> HfModel::find_piece(std::size_t entry, std::size_t layer, std::int64_t expert) {
  const WeightEntry& row = table_[entry];
  const LayerSpec& shape = spec_.layers[layer];
  if (row.presence == Presence::tied && spec_.tied_head) {
    LITHE_RETURN_IF_ERROR(leave_tied_head(row));
    return Piece{};
  }
  LITHE_ASSIGN_OR_RETURN(const SafetensorsTensor* source, find_source(row, layer, expert));
  if (source == nullptr) return Piece{};
  const Place place = place_of(table_, entry, &WeightEntry::hf, spec_, shape);
  Piece piece{source, &row, &shape, 0, 0, place.offset};
  piece.rows = dim_length(row.matrix() ? row.rows : row.cols, spec_, shape);
  piece.cols = row.matrix() ? dim_length(row.cols, spec_, shape) : 1;
  piece.whole = place.whole;
  if (is_mixed(row.transform)) piece.offset = 0;
  if (formats::Fp8Matrix::holds(*source)) {
    LITHE_ASSIGN_OR_RETURN(formats::Fp8Matrix matrix, formats::Fp8Matrix::find(directory_, *source));
    fp8_.push_back(std::move(matrix));
    piece.fp8 = &fp8_.back();
    if (piece.fp8->scale() != nullptr) claimed_.push_back(piece.fp8->scale()->name);
  }
  if (formats::Mxfp4Matrix::holds(*source)) {
    LITHE_ASSIGN_OR_RETURN(formats::Mxfp4Matrix matrix, formats::Mxfp4Matrix::find(directory_, *source));
    mxfp4_.push_back(std::move(matrix));
    piece.mxfp4 = &mxfp4_.back();
    claimed_.push_back(piece.mxfp4->scales().name);
  }
  if (row.transform == Transform::latent_keys || row.transform == Transform::latent_values) {
    // Head by head: its rows of keys, then those of its values, all as long as the latent vector.
    const LatentSpec& latent = shape.latent;
    const bool keys = row.transform == Transform::latent_keys;
    const std::int64_t head = std::int64_t{latent.plain_dim} + latent.value_dim;
    Piece checked = piece;
    checked.cols = latent.rank;
    LITHE_RETURN_IF_ERROR(check_source(checked, head * shape.heads, 0));
    piece.offset = expert * head + (keys ? 0 : latent.plain_dim);
    claimed_.push_back(source->name);
    return piece;
  }
  const bool stack = row.stacked() && row.hf.find("{e}") == std::string::npos;
  LITHE_RETURN_IF_ERROR(check_source(piece, place.whole, stack ? dim_length(row.stack, spec_, shape) : 0));
  if (stack) piece.offset += expert * place.whole;
  claimed_.push_back(source->name);
  return piece;
}

// The GGUF tensor that row `entry` of the table names, of that row and all that share it.
Status HfModel::list_tensor(std::size_t entry, std::size_t layer) {
  const WeightEntry& first = table_[entry];
  const std::int64_t stack = dim_length(first.stack, spec_, spec_.layers[layer]);
  Recipe recipe;
  recipe.slices.resize(static_cast<std::size_t>(stack));
  std::int64_t rows = 0, cols = 0;
  std::optional<DType> dtype;
  for (std::size_t i = 0; i < table_.size(); ++i) {
    if (table_[i].gguf != first.gguf || !table_[i].lies_in(spec_.layers[layer])) continue;
    for (std::int64_t expert = 0; expert < stack; ++expert) {
      LITHE_ASSIGN_OR_RETURN(const Piece piece, find_piece(i, layer, expert));
      if (piece.source == nullptr) return {};
      const DType stored = piece.dtype();
      if (dtype && *dtype != stored) {
        return unsupported("{} and its neighbour are of different types", piece.source->name);
      }
      dtype = stored;
      cols = piece.cols;
      if (expert == 0) rows += piece.rows;
      recipe.slices[static_cast<std::size_t>(expert)].push_back(piece);
    }
  }
  // As in every GGUF file: vectors are not rounded, nor are the norms and routers that look like matrices.
  if (!first.matrix() || !is_multiplied(first.role)) dtype = DType::f32;
  std::vector<std::uint64_t> dims;
  if (first.matrix()) dims.push_back(static_cast<std::uint64_t>(cols));
  dims.push_back(static_cast<std::uint64_t>(rows));
  if (first.stacked()) dims.push_back(static_cast<std::uint64_t>(stack));
  if (const std::int64_t folds = dim_length(first.folds, spec_, spec_.layers[layer]); folds > 1) {
    dims = {static_cast<std::uint64_t>(rows / folds), static_cast<std::uint64_t>(folds)};
  }
  if (first.stacked() && !first.matrix()) {  // one slice of all rows
    for (std::size_t i = 1; i < recipe.slices.size(); ++i)
      recipe.slices[0].push_back(recipe.slices[i].front());
    recipe.slices.resize(1);
  }
  add_tensor(layer_name(first.gguf, static_cast<std::int64_t>(layer)), *dtype, std::move(dims),
             std::move(recipe));
  return {};
}

void HfModel::add_tensor(std::string name, DType dtype, std::vector<std::uint64_t> dims, Recipe recipe) {
  names_.push_back(std::move(name));
  GgufTensor tensor;
  tensor.name = names_.back();
  tensor.format = &block_format(dtype);
  tensor.gguf_type = tensor.format->gguf_id;
  tensor.dims = std::move(dims);
  if (!recipe.slices.empty()) tensor.shard = recipe.slices.front().front().source->shard;
  tensors_.push_back(std::move(tensor));
  recipes_.push_back(std::move(recipe));
}

// The bytes of the checkpoint where they are what GGUF would hold.
std::optional<std::span<const std::byte>> HfModel::as_stored(const Recipe& recipe, std::uint64_t slice,
                                                             DType dtype) const {
  const std::vector<Piece>& pieces = recipe.slices[static_cast<std::size_t>(slice)];
  const Piece& piece = pieces.front();
  if (pieces.size() != 1 || piece.entry->transform != Transform::none || piece.coded() ||
      *piece.source->type->dtype != dtype) {
    return std::nullopt;
  }
  const std::size_t row =
      static_cast<std::size_t>(block_format(dtype).block_bytes) * static_cast<std::size_t>(piece.cols);
  return piece.source->data.subspan(static_cast<std::size_t>(piece.offset) * row,
                                    static_cast<std::size_t>(piece.rows) * row);
}

const HfModel::Recipe& HfModel::recipe_of(const GgufTensor& tensor) const {
  const std::ptrdiff_t at = &tensor - tensors_.data();
  LITHE_CHECK(at >= 0 && at < std::ssize(recipes_));
  return recipes_[static_cast<std::size_t>(at)];
}

// A head's keys, [plain_dim, rank] in the source, turned.
void HfModel::make_latent_keys(const Piece& piece, DType dtype, std::byte* out) const {
  const BlockFormat& from = block_format(piece.dtype());
  const BlockFormat& to = block_format(dtype);
  const auto rows = static_cast<std::size_t>(piece.rows), cols = static_cast<std::size_t>(piece.cols);
  std::vector<float> row(rows), turned(rows * cols);
  for (std::size_t col = 0; col < cols; ++col) {
    const auto at = static_cast<std::size_t>(piece.offset) + col;
    if (piece.fp8 != nullptr) {
      piece.fp8->decode_row(at, row.data());
    } else {
      from.decode(piece.source->data.data() + at * rows * static_cast<std::size_t>(from.block_bytes),
                  piece.rows, row.data());
    }
    for (std::size_t i = 0; i < rows; ++i) turned[i * cols + col] = row[i];
  }
  to.encode(turned.data(), piece.rows * piece.cols, out);
}

// Writes the piece's rows to `out`, in the tensor's type.
void HfModel::make(const Piece& piece, DType dtype, std::byte* out) const {
  if (piece.entry->transform == Transform::latent_keys) return make_latent_keys(piece, dtype, out);
  const SafetensorsTensor& source = *piece.source;
  const DType stored = piece.dtype();
  const auto value = static_cast<std::size_t>(block_format(stored).block_bytes);
  const auto cols = static_cast<std::size_t>(piece.cols);
  const std::size_t out_row =
      row_bytes(block_format(dtype), static_cast<std::uint64_t>(piece.cols)).value_or(0);
  const bool transposed = piece.turned();
  const auto whole = static_cast<std::size_t>(piece.whole);
  std::vector<std::byte> gathered(transposed ? cols * value : 0);
  std::vector<float> numbers(
      piece.fp8 == nullptr && dtype == stored && !changes_numbers(piece.entry->transform) ? 0 : cols);
  for (std::int64_t row = 0; row < piece.rows; ++row) {
    const auto from = static_cast<std::size_t>(
        piece.offset + source_row(piece.entry->transform, piece.entry->role, *piece.layer, row));
    std::byte* const to = out + static_cast<std::size_t>(row) * out_row;
    if (piece.mxfp4 != nullptr) {
      piece.mxfp4->repack_row(from, to);
      continue;
    }
    if (piece.fp8 != nullptr) {
      piece.fp8->decode_row(from, numbers.data());
      block_format(dtype).encode(numbers.data(), piece.cols, to);
      continue;
    }
    const std::byte* data = source.data.data() + from * cols * value;
    if (transposed) {
      const std::byte* matrix = source.data.data() + from / whole * whole * cols * value;
      for (std::size_t col = 0; col < cols; ++col) {
        std::memcpy(gathered.data() + col * value, matrix + (col * whole + from % whole) * value, value);
      }
      data = gathered.data();
    }
    if (numbers.empty()) {
      std::memcpy(to, data, out_row);
      continue;
    }
    block_format(stored).decode(data, piece.cols, numbers.data());
    for (float& number : numbers) number = from_checkpoint(piece.entry->transform, number);
    block_format(dtype).encode(numbers.data(), piece.cols, to);
  }
}

Result<std::span<const std::byte>> HfModel::slice(const GgufTensor& tensor, std::uint64_t index,
                                                  std::vector<std::byte>& scratch) const {
  LITHE_CHECK(index < tensor.slices());
  const Recipe& recipe = recipe_of(tensor);
  if (!recipe.stated.empty()) return std::as_bytes(std::span(recipe.stated));
  if (const auto stored = as_stored(recipe, index, tensor.format->dtype)) return *stored;
  scratch.resize(static_cast<std::size_t>(tensor.bytes() / tensor.slices()));
  std::byte* out = scratch.data();
  for (const Piece& piece : recipe.slices[static_cast<std::size_t>(index)]) {
    make(piece, tensor.format->dtype, out);
    out += static_cast<std::size_t>(piece.rows) *
           row_bytes(*tensor.format, static_cast<std::uint64_t>(piece.cols)).value_or(0);
  }
  return std::span<const std::byte>(scratch);
}

void HfModel::release(const GgufTensor& tensor, std::span<const std::byte> part) const {
  const Recipe& recipe = recipe_of(tensor);
  for (const std::vector<Piece>& pieces : recipe.slices) {
    for (const Piece& piece : pieces) {
      const auto& whole = piece.source->data;
      if (part.empty()) {
        directory_.release(*piece.source);
      } else if (part.data() >= whole.data() && part.data() < whole.data() + whole.size()) {
        return directory_.release(*piece.source, part);
      }
    }
  }
}

}  // namespace lithe::models
