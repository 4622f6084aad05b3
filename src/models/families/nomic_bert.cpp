// nomic-bert: BERT with rotary positions, a gated feed-forward layer and no biases but the norms'.
#include <array>

#include "models/families/dense.h"
#include "models/families/encoder.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 2> kHfNames{"NomicBertModel", "NomicBertForMaskedLM"};

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  LITHE_RETURN_IF_ERROR(describe_encoder(parameters, Pooling::cls, spec));
  describe_after_add(spec);
  LITHE_RETURN_IF_ERROR(describe_token_types(parameters, spec));
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  remove(table, {Role::output, Role::output_norm});
  rename(table, {{Role::embedding, "embeddings.word_embeddings.weight"},
                 {Role::attn_out, "encoder.layers.{}.attn.out_proj.weight"},
                 {Role::gate, "encoder.layers.{}.mlp.fc12.weight"},
                 {Role::up, "encoder.layers.{}.mlp.fc11.weight"},
                 {Role::down, "encoder.layers.{}.mlp.fc2.weight"}});
  fuse(table, {Role::q, Role::k, Role::v}, "blk.{}.attn_qkv.weight", "encoder.layers.{}.attn.Wqkv.weight");
  add_embedding_parts(table, "embeddings.token_type_embeddings.weight", "emb_ln.weight");
  add_after_norms(table, "encoder.layers.{}.norm1.weight", "encoder.layers.{}.norm2.weight");
  add_biases(table, {Role::embedding_norm}, Presence::required);
  return table;
}

Status translate(HfConfig& config) {
  KeyTable keys = layer_norm_keys("layer_norm_eps|layer_norm_epsilon");
  for (KeyRow& row : keys) {
    if (row.kind == KeyKind::real) row.value = "1e-12";  // BERT's epsilon, where nothing is said
    // Beyond what it was trained on its own code stretches the rotation, which is not done here.
    if (row.gguf == "context_length") row.hf = "max_trained_positions|max_position_embeddings|n_positions";
  }
  keys.push_back({"", "hidden_act|activation_function", KeyKind::text, R"("silu"|"swiglu")"});
  keys.push_back({"", "rotary_emb_interleaved", KeyKind::boolean, "false"});
  keys.push_back({"", "rotary_emb_fraction", KeyKind::real, "1.0"});
  keys.push_back({"", "rotary_emb_scale_base", KeyKind::real, "null"});
  keys.push_back({"", "prenorm", KeyKind::boolean, "false"});
  keys.push_back({"", "qkv_proj_bias", KeyKind::boolean, "false"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  if (config.exporting()) {
    config.set("max_position_embeddings", config.spec().context);
    config.set("pad_token_id", 0);  // the class insists on one
  }
  LITHE_RETURN_IF_ERROR(translate_token_types(config));
  LITHE_RETURN_IF_ERROR(translate_encoder(config, "NomicBert", "nomic_bert"));
  return config.translate_rope(1000.0);
}

}  // namespace

const Family kNomicBert{"nomic-bert", kHfNames, describe, weights, translate};

}  // namespace lithe::models
