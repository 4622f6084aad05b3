#include "models/families/encoder.h"

#include "models/families/dense.h"

namespace lithe::models {
namespace {

constexpr std::int64_t kMostTypes = 256, kMostLabels = 1 << 16;

}  // namespace

Status describe_encoder(const Parameters& parameters, ArchSpec& spec) {
  describe_layer_norms(spec);
  spec.causal = false;
  LITHE_ASSIGN_OR_RETURN(const auto pooling, parameters.integer_or("pooling_type", 0, 4, 0));
  spec.pooling = static_cast<Pooling>(pooling);
  constexpr auto kFirst = static_cast<std::int64_t>(Pooling::cls);
  LITHE_ASSIGN_OR_RETURN(const auto classified,
                         parameters.integer_or("classifier.pooling_type", 0, 4, kFirst));
  if (spec.pooling == Pooling::rank && classified != kFirst)
    return unsupported("{}.classifier.pooling_type = {} does not run: a classifier reads the first row",
                       spec.family, classified);
  LITHE_ASSIGN_OR_RETURN(const auto labels,
                         parameters.integer_or("classifier.output_count", 0, kMostLabels, 0));
  const auto* names =
      parameters.metadata().string_array(parameters.architecture() + ".classifier.output_labels");
  spec.labels = names != nullptr ? static_cast<int>(names->size()) : static_cast<int>(labels);
  if (spec.labels == 0 && spec.pooling == Pooling::rank) spec.labels = 1;
  if (spec.pooling != Pooling::rank) spec.labels = 0;
  return {};
}

Status describe_token_types(const Parameters& parameters, ArchSpec& spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type_count";
  LITHE_ASSIGN_OR_RETURN(const auto types, parameters.metadata().optional_uint(kKey));
  if (types && (*types < 1 || *types > kMostTypes)) return corrupt("{} = {}", kKey, *types);
  spec.token_types = static_cast<int>(types.value_or(2));
  return {};
}

Status import_token_types(HfConfig& config) {
  LITHE_ASSIGN_OR_RETURN(const auto types, config.integer("type_vocab_size", 2));
  if (types < 1 || types > kMostTypes) return corrupt("config.json: type_vocab_size = {}", types);
  config.metadata.add("tokenizer.ggml.token_type_count", static_cast<std::uint32_t>(types));
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
                     .rows = Dim::token_types});
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
                    std::string_view hf_norm) {
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
      {.role = Role::cls_out, .gguf = "cls.output.weight", .hf = "classifier.weight", .rows = Dim::labels});
  add_biases(table, {Role::cls_out}, Presence::optional);
}

Status translate_encoder(HfConfig& config) {
  config.add("attention.causal", false);
  if (!is_classifier(config)) return {};
  config.add("pooling_type", static_cast<std::uint32_t>(Pooling::rank));
  std::int64_t count = 2;  // what Transformers takes for granted
  if (const Json* labels = config.find("id2label"); labels != nullptr && labels->is_object()) {
    count = std::ssize(*labels);
  }
  LITHE_ASSIGN_OR_RETURN(count, config.integer("num_labels", count));
  if (count < 1 || count > kMostLabels) return corrupt("config.json: {} labels", count);
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) {
    LITHE_ASSIGN_OR_RETURN(std::string name,
                           config.text(fmt::format("id2label.{}", i), fmt::format("LABEL_{}", i)));
    names.push_back(std::move(name));
  }
  config.add("classifier.output_labels", std::move(names));
  return {};
}

}  // namespace lithe::models
