// gpt2: learned positions, layer norms, biases everywhere, q, k and v as one matrix, matrices stored [in, out].
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"GPT2LMHeadModel"};

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::none));
  describe_layer_norms(spec);
  spec.learned_positions = spec.context;
  for (LayerSpec& layer : spec.layers) {
    layer.ffn = FfnKind::plain;
    layer.activation = Activation::gelu_tanh;
  }
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  remove(table, {Role::gate});
  table.push_back({Role::position_embedding, "position_embd.weight", "transformer.wpe.weight", Dim::positions,
                   Dim::hidden});
  add_qkv_biases(table, Presence::required, Transform::none);
  rename(table, {{Role::embedding, "transformer.wte.weight"},
                 {Role::output_norm, "transformer.ln_f.weight"},
                 {Role::attn_norm, "transformer.h.{}.ln_1.weight"},
                 {Role::attn_out, "transformer.h.{}.attn.c_proj.weight"},
                 {Role::ffn_norm, "transformer.h.{}.ln_2.weight"},
                 {Role::up, "transformer.h.{}.mlp.c_fc.weight"},
                 {Role::down, "transformer.h.{}.mlp.c_proj.weight"}});
  fuse(table, {Role::q, Role::k, Role::v}, "blk.{}.attn_qkv.weight", "transformer.h.{}.attn.c_attn.weight");
  fuse(table, {Role::q_bias, Role::k_bias, Role::v_bias}, "blk.{}.attn_qkv.bias",
       "transformer.h.{}.attn.c_attn.bias");
  add_biases(table,
             {Role::output_norm, Role::attn_norm, Role::ffn_norm, Role::attn_out, Role::up, Role::down},
             Presence::required);
  for (const Role role : {Role::q, Role::k, Role::v, Role::attn_out, Role::up, Role::down}) {
    entry_of(table, role).transform = Transform::transpose;
  }
  return table;
}

Status translate(HfConfig& config) {
  config.name("GPT2LMHeadModel", "gpt2");
  KeyTable keys = layer_norm_keys("layer_norm_epsilon");
  for (KeyRow& row : keys) {
    if (row.gguf == "block_count") row.hf = "n_layer|num_hidden_layers";
    if (row.gguf == "context_length") row.hf = "n_positions|n_ctx|max_position_embeddings";
    if (row.gguf == "embedding_length") row.hf = "n_embd|hidden_size";
    if (row.gguf == "feed_forward_length") row.hf = "n_inner|intermediate_size";
    if (row.gguf == "attention.head_count") row.hf = "n_head|num_attention_heads";
  }
  keys.push_back({"", "activation_function", KeyKind::text, R"("gelu_new"|"gelu_pytorch_tanh")"});
  keys.push_back({"", "scale_attn_by_inverse_layer_idx", KeyKind::boolean, "false"});
  keys.push_back({"", "scale_attn_weights", KeyKind::boolean, "true"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  if (config.has("feed_forward_length")) return {};
  LITHE_ASSIGN_OR_RETURN(const auto hidden, config.integer("n_embd|hidden_size"));
  config.add("feed_forward_length", static_cast<std::uint32_t>(4 * hidden));
  return {};
}

}  // namespace

const Family kGpt2{"gpt2", kHfNames, describe, weights, translate};

}  // namespace lithe::models
