#include "models/families/encoder.h"

#include <algorithm>

#include "models/families/dense.h"

namespace lithe::models {
namespace {

constexpr std::int64_t kMostTypes = 256;
constexpr std::string_view kTypes = "tokenizer.ggml.token_type_count", kLabels = "classifier.output_labels";

// id2label and label2id.
void export_labels(HfConfig& config) {
  const auto* names = config.texts(kLabels);
  Json by_id = Json::object(), by_name = Json::object();
  for (int i = 0; i < config.spec().labels; ++i) {
    const std::string name = names != nullptr && i < std::ssize(*names)
                                 ? std::string((*names)[static_cast<std::size_t>(i)])
                                 : fmt::format("LABEL_{}", i);
    by_id[std::to_string(i)] = name;
    by_name[name] = i;
  }
  config.set("id2label", std::move(by_id));
  config.set("label2id", std::move(by_name));
}

}  // namespace

Status describe_encoder(const Parameters& parameters, Pooling head, ArchSpec& spec) {
  describe_layer_norms(spec);
  spec.causal = false;
  LITHE_ASSIGN_OR_RETURN(const auto pooling, parameters.integer_or("pooling_type", 0, 4, 0));
  spec.pooling = static_cast<Pooling>(pooling);
  LITHE_ASSIGN_OR_RETURN(const auto labels,
                         parameters.integer_or("classifier.output_count", 0, Limits::labels, 0));
  const auto* names =
      parameters.metadata().string_array(fmt::format("{}.{}", parameters.architecture(), kLabels));
  spec.labels = names != nullptr ? static_cast<int>(names->size()) : static_cast<int>(labels);
  if (spec.labels == 0 && spec.pooling == Pooling::rank) spec.labels = 1;
  // Files by llama.cpp's converter need not say that they classify: the tensor of the labels does, and how many there are.
  if (const formats::GgufTensor* matrix = parameters.find("cls.output.weight")) {
    const std::uint64_t rows = matrix->dims.size() > 1 ? matrix->dims[1] : 1;
    if (rows > Limits::labels) return corrupt("tensor {} has {} labels", matrix->name, rows);
    if (spec.labels == 0) spec.labels = static_cast<int>(rows);
    if (spec.pooling == Pooling::none) spec.pooling = Pooling::rank;
  } else if (spec.pooling != Pooling::rank) {
    spec.labels = 0;
  }
  LITHE_ASSIGN_OR_RETURN(const auto reads, parameters.integer_or("classifier.pooling_type", 0, 4,
                                                                 static_cast<std::int64_t>(head)));
  spec.head_pooling = static_cast<Pooling>(reads);
  if (spec.head_pooling == Pooling::cls || spec.head_pooling == Pooling::mean) return {};
  return unsupported("{}.classifier.pooling_type = {} does not run (1, the mean, and 2, the first row, do)",
                     parameters.architecture(), reads);
}

Status describe_token_types(const Parameters& parameters, ArchSpec& spec) {
  LITHE_ASSIGN_OR_RETURN(const auto types, parameters.metadata().optional_uint(kTypes));
  if (types && (*types < 1 || *types > kMostTypes)) return corrupt("{} = {}", kTypes, *types);
  spec.token_types = static_cast<int>(types.value_or(2));
  return {};
}

Status translate_token_types(HfConfig& config) {
  if (config.exporting()) {
    if (!config.has_tensor("token_types.weight"))
      return unsupported("the file has no token_types.weight, which every class of Transformers adds");
    config.set("type_vocab_size", config.spec().token_types);
    return {};
  }
  LITHE_ASSIGN_OR_RETURN(const auto types, config.integer("type_vocab_size", 2));
  if (types < 0 || types > kMostTypes) return corrupt("config.json: type_vocab_size = {}", types);
  // Without a table every token is of one type, and llama.cpp wants to read of one.
  config.metadata.add(std::string(kTypes), static_cast<std::uint32_t>(std::max<std::int64_t>(types, 1)));
  return {};
}

bool is_classifier(const HfConfig& config) {
  const Json* classes = config.find("architectures");
  return classes != nullptr && classes->is_array() && !classes->empty() && (*classes)[0].is_string() &&
         (*classes)[0].get<std::string>().ends_with("ForSequenceClassification");
}

void describe_after_add(ArchSpec& spec) {
  for (LayerSpec& layer : spec.layers) {
    layer.residual = Residual::after_add;
    layer.post_norm = true;
  }
}

void add_embedding_parts(WeightTable& table, std::string_view hf_types, std::string_view hf_norm) {
  if (!hf_types.empty()) {
    table.push_back({.role = Role::token_types,
                     .gguf = "token_types.weight",
                     .hf = std::string(hf_types),
                     .rows = Dim::token_types,
                     .presence = Presence::optional});
  }
  table.push_back(
      {.role = Role::embedding_norm, .gguf = "token_embd_norm.weight", .hf = std::string(hf_norm)});
}

void add_after_norms(WeightTable& table, std::string_view hf_attention, std::string_view hf_ffn) {
  remove(table, {Role::attn_norm, Role::ffn_norm});
  table.push_back({.role = Role::attn_post_norm,
                   .gguf = "blk.{}.attn_output_norm.weight",
                   .hf = std::string(hf_attention)});
  table.push_back(
      {.role = Role::ffn_post_norm, .gguf = "blk.{}.layer_output_norm.weight", .hf = std::string(hf_ffn)});
  add_biases(table, {Role::attn_post_norm, Role::ffn_post_norm}, Presence::required);
}

void add_classifier(WeightTable& table, const ArchSpec& spec, std::string_view hf_dense,
                    std::string_view hf_norm, std::string_view hf_out) {
  if (spec.labels == 0) return;
  if (!hf_dense.empty()) {
    table.push_back({.role = Role::cls,
                     .gguf = "cls.weight",
                     .hf = std::string(hf_dense),
                     .rows = Dim::hidden,
                     .presence = Presence::optional});
    add_biases(table, {Role::cls}, Presence::optional);
  }
  if (!hf_norm.empty()) {
    table.push_back({.role = Role::cls_norm,
                     .gguf = "cls.norm.weight",
                     .hf = std::string(hf_norm),
                     .presence = Presence::optional});
  }
  table.push_back(
      {.role = Role::cls_out, .gguf = "cls.output.weight", .hf = std::string(hf_out), .rows = Dim::labels});
  add_biases(table, {Role::cls_out}, Presence::optional);
}

Status translate_encoder(HfConfig& config, std::string_view stem, std::string_view model_type) {
  if (config.exporting()) {
    const bool labels = config.spec().labels > 0;
    config.name(fmt::format("{}{}", stem, labels ? "ForSequenceClassification" : "Model"), model_type);
    if (!labels) return {};
    if (!config.has_tensor("cls.weight")) {
      return unsupported("the file has no cls.weight, which {}ForSequenceClassification reads rows through",
                         stem);
    }
    export_labels(config);
    return {};
  }
  config.add("attention.causal", false);
  if (!is_classifier(config)) return {};
  config.add("pooling_type", static_cast<std::uint32_t>(Pooling::rank));
  std::int64_t count = 2;  // what Transformers takes for granted
  if (const Json* labels = config.find("id2label"); labels != nullptr && labels->is_object()) {
    count = std::ssize(*labels);
  }
  LITHE_ASSIGN_OR_RETURN(count, config.integer("num_labels", count));
  if (count < 1 || count > Limits::labels) return corrupt("config.json: {} labels", count);
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) {
    LITHE_ASSIGN_OR_RETURN(std::string name,
                           config.text(fmt::format("id2label.{}", i), fmt::format("LABEL_{}", i)));
    names.push_back(std::move(name));
  }
  config.add(kLabels, std::move(names));
  return {};
}

}  // namespace lithe::models
