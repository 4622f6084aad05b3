// bert: BERT, and its kin of the same shape (bge, e5, gte, MiniLM): learned positions, segments, a norm of the embedding,
// norms after each branch, biases everywhere. For classifiers a pooled first row and a head of labels. RoBERTa and
// XLM-RoBERTa (bge-m3, multilingual-e5, bge-reranker-v2-m3) too: their positions begin behind the padding's.
#include <array>

#include "models/families/dense.h"
#include "models/families/encoder.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 9> kHfNames{
    "BertModel",       "BertForMaskedLM",       "BertForSequenceClassification",
    "RobertaModel",    "RobertaForMaskedLM",    "RobertaForSequenceClassification",
    "XLMRobertaModel", "XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification"};

// GGUF has no table row for the positions that RoBERTa leaves unused. How many there were only the way back asks: files of
// ours state it, in others the vocabulary tells BERT from RoBERTa.
Result<std::int64_t> skipped_positions(const Parameters& parameters) {
  constexpr std::int64_t kUsual = 2;
  const formats::Metadata& metadata = parameters.metadata();
  LITHE_ASSIGN_OR_RETURN(const auto model, metadata.optional_string("tokenizer.ggml.model"));
  const bool roberta = model == "t5" || model == "gpt2";
  LITHE_ASSIGN_OR_RETURN(const auto padding, metadata.optional_uint("tokenizer.ggml.padding_token_id"));
  const auto told = padding && *padding < Limits::vocab ? static_cast<std::int64_t>(*padding) + 1 : kUsual;
  return parameters.integer_or("skipped_positions", 0, Limits::vocab, roberta ? told : 0);
}

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::none));
  LITHE_RETURN_IF_ERROR(describe_encoder(parameters, Pooling::cls, spec));
  describe_after_add(spec);
  LITHE_RETURN_IF_ERROR(describe_token_types(parameters, spec));
  spec.learned_positions = spec.context;
  LITHE_ASSIGN_OR_RETURN(spec.skipped_positions, skipped_positions(parameters));
  for (LayerSpec& layer : spec.layers) {
    layer.ffn = FfnKind::plain;
    layer.activation = Activation::gelu_erf;
  }
  return spec;
}

WeightTable weights(const ArchSpec& spec) {
  const bool roberta = spec.skipped_positions > 0;
  // A classifier's checkpoint has the encoder below a name.
  const std::string top = spec.labels == 0 ? "" : roberta ? "roberta." : "bert.";
  const std::string positions = top + "embeddings.position_embeddings.weight";
  WeightTable table = dense_weights(Transform::none);
  remove(table, {Role::gate, Role::output, Role::output_norm, Role::rope_divisors, Role::rope_divisors_long,
                 Role::rope_divisors_short});
  rename(table, {{Role::embedding, top + "embeddings.word_embeddings.weight"},
                 {Role::q, top + "encoder.layer.{}.attention.self.query.weight"},
                 {Role::k, top + "encoder.layer.{}.attention.self.key.weight"},
                 {Role::v, top + "encoder.layer.{}.attention.self.value.weight"},
                 {Role::attn_out, top + "encoder.layer.{}.attention.output.dense.weight"},
                 {Role::up, top + "encoder.layer.{}.intermediate.dense.weight"},
                 {Role::down, top + "encoder.layer.{}.output.dense.weight"}});
  if (roberta) {
    table.push_back({.role = Role::skipped_positions,
                     .gguf = "",
                     .hf = positions,
                     .rows = Dim::skipped_positions,
                     .presence = Presence::optional});
  }
  table.push_back({.role = Role::position_embedding,
                   .gguf = "position_embd.weight",
                   .hf = positions,
                   .rows = Dim::positions});
  add_embedding_parts(table, top + "embeddings.token_type_embeddings.weight",
                      top + "embeddings.LayerNorm.weight");
  add_after_norms(table, top + "encoder.layer.{}.attention.output.LayerNorm.weight",
                  top + "encoder.layer.{}.output.LayerNorm.weight");
  add_biases(table, {Role::embedding_norm, Role::q, Role::k, Role::v, Role::attn_out, Role::up, Role::down},
             Presence::required);
  add_classifier(table, spec, roberta ? "classifier.dense.weight" : "bert.pooler.dense.weight", "",
                 roberta ? "classifier.out_proj.weight" : "classifier.weight");
  return table;
}

// Which of the two a config.json is about; RoBERTa's class and XLM-RoBERTa's are the same.
bool is_roberta(const HfConfig& config) {
  if (config.exporting()) return config.spec().skipped_positions > 0;
  const auto kind = config.text("model_type", "");
  return kind.ok() && (*kind == "roberta" || *kind == "xlm-roberta");
}

Status translate_positions(HfConfig& config) {
  if (config.exporting()) {
    const ArchSpec& spec = config.spec();
    config.set("max_position_embeddings", spec.context + spec.skipped_positions);
    config.set("pad_token_id", spec.skipped_positions - 1);
    return {};
  }
  LITHE_ASSIGN_OR_RETURN(const auto padding, config.integer("pad_token_id", 1));
  LITHE_ASSIGN_OR_RETURN(const auto rows, config.integer("max_position_embeddings", 512));
  if (padding < 0 || rows > Limits::context || rows <= padding || rows - padding < 2)
    return corrupt("config.json: {} positions, the first of them behind pad_token_id = {}", rows, padding);
  config.add("context_length", static_cast<std::uint32_t>(rows - padding - 1));
  config.add("skipped_positions", static_cast<std::uint32_t>(padding + 1));
  return {};
}

Status translate(HfConfig& config) {
  const bool roberta = is_roberta(config);
  KeyTable keys = layer_norm_keys("layer_norm_eps");
  for (KeyRow& row : keys) {
    if (row.kind == KeyKind::real) row.value = "1e-12";  // BERT's epsilon, where nothing is said
  }
  keys.push_back({"", "hidden_act", KeyKind::text, R"("gelu")"});
  keys.push_back({"", "position_embedding_type", KeyKind::text, R"("absolute")"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  LITHE_RETURN_IF_ERROR(translate_token_types(config));
  LITHE_RETURN_IF_ERROR(
      translate_encoder(config, roberta ? "XLMRoberta" : "Bert", roberta ? "xlm-roberta" : "bert"));
  if (roberta) return translate_positions(config);
  config.add("skipped_positions", 0u);
  return {};
}

}  // namespace

const Family kBert{"bert", kHfNames, describe, weights, translate};

}  // namespace lithe::models
