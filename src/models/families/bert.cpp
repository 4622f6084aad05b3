// bert: BERT, and its kin of the same shape (bge, e5, gte, MiniLM): learned positions, segments, a norm of the embedding,
// norms after each branch, biases everywhere. For classifiers a pooled first row and a head of labels.
#include <array>

#include "models/families/dense.h"
#include "models/families/encoder.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 3> kHfNames{"BertModel", "BertForMaskedLM",
                                                   "BertForSequenceClassification"};

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::none));
  LITHE_RETURN_IF_ERROR(describe_encoder(parameters, spec));
  describe_after_add(spec);
  LITHE_RETURN_IF_ERROR(describe_token_types(parameters, spec));
  spec.learned_positions = spec.context;
  for (LayerSpec& layer : spec.layers) {
    layer.ffn = FfnKind::plain;
    layer.activation = Activation::gelu_erf;
  }
  return spec;
}

WeightTable weights(const ArchSpec& spec) {
  WeightTable table = dense_weights(Transform::none);
  remove(table, {Role::gate, Role::output, Role::output_norm, Role::rope_divisors, Role::rope_divisors_long,
                 Role::rope_divisors_short});
  rename(table, {{Role::embedding, "embeddings.word_embeddings.weight"},
                 {Role::q, "encoder.layer.{}.attention.self.query.weight"},
                 {Role::k, "encoder.layer.{}.attention.self.key.weight"},
                 {Role::v, "encoder.layer.{}.attention.self.value.weight"},
                 {Role::attn_out, "encoder.layer.{}.attention.output.dense.weight"},
                 {Role::up, "encoder.layer.{}.intermediate.dense.weight"},
                 {Role::down, "encoder.layer.{}.output.dense.weight"}});
  table.push_back({.role = Role::position_embedding,
                   .gguf = "position_embd.weight",
                   .hf = "embeddings.position_embeddings.weight",
                   .rows = Dim::positions});
  add_embedding_parts(table, "embeddings.token_type_embeddings.weight", "embeddings.LayerNorm.weight");
  add_after_norms(table, "encoder.layer.{}.attention.output.LayerNorm.weight",
                  "encoder.layer.{}.output.LayerNorm.weight");
  add_biases(table, {Role::embedding_norm, Role::q, Role::k, Role::v, Role::attn_out, Role::up, Role::down},
             Presence::required);
  add_classifier(table, spec, "pooler.dense.weight", "");
  return table;
}

Status translate(HfConfig& config) {
  KeyTable keys = layer_norm_keys("layer_norm_eps");
  for (KeyRow& row : keys) {
    if (row.kind == KeyKind::real) row.value = "1e-12";  // BERT's epsilon, where nothing is said
  }
  keys.push_back({"", "hidden_act", KeyKind::text, R"("gelu")"});
  keys.push_back({"", "position_embedding_type", KeyKind::text, R"("absolute")"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  LITHE_RETURN_IF_ERROR(import_token_types(config));
  return translate_encoder(config);
}

}  // namespace

const Family kBert{"bert", kHfNames, describe, weights, translate};

}  // namespace lithe::models
