// llama: Llama 1 to 3.3, SmolLM2, Mistral, Mixtral (GGUF files call them llama too) and their many relatives.
// GGUF stores q and k with the rows of each head reordered so that rotary pairs are neighbours.
#include <array>

#include "models/families/dense.h"
#include "models/families/sparse.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 3> kHfNames{"LlamaForCausalLM", "MistralForCausalLM",
                                                   "MixtralForCausalLM"};

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::interleaved));
  MoeSpec usual;  // Mixtral's
  usual.rule.normalise = true;
  LITHE_RETURN_IF_ERROR(describe_experts(parameters, usual, spec));
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::pair_heads);
  add_qkv_biases(table, Presence::optional,
                 Transform::pair_heads);  // attention_bias: rare, and nowhere stated
  table.push_back({Role::attn_out_bias, "blk.{}.attn_output.bias", "model.layers.{}.self_attn.o_proj.bias",
                   Dim::none, Dim::hidden, Presence::optional});
  add_experts(table, {"block_sparse_moe.gate.weight", "block_sparse_moe.experts.{e}.w1.weight",
                      "block_sparse_moe.experts.{e}.w3.weight", "block_sparse_moe.experts.{e}.w2.weight"});
  return table;
}

Status translate(HfConfig& config) {
  if (config.exporting()) {
    const LayerSpec& layer = config.spec().layers.front();
    if (layer.sparse())
      config.name("MixtralForCausalLM", "mixtral");
    else if (layer.window > 0)
      config.name("MistralForCausalLM", "mistral");
    else
      config.name("LlamaForCausalLM", "llama");
    config.set("attention_bias", config.has_tensor("blk.0.attn_q.bias"));
  }
  LITHE_ASSIGN_OR_RETURN(const std::string type, config.text("model_type", "llama"));
  const bool mixture = type == "mixtral";
  KeyTable keys = dense_keys();
  if (mixture) assume(keys, {{"rms_norm_eps", "1e-5"}, {"num_key_value_heads", "8"}});
  keys.push_back({"", "hidden_act|hidden_activation", KeyKind::text, R"("silu")"});
  keys.push_back({"", "mlp_bias", KeyKind::boolean, "false"});
  // To Transformers' llama the word means nothing.
  if (type != "llama") {
    keys.push_back(
        {"attention.sliding_window", "sliding_window", KeyKind::integer, type == "mistral" ? "4096" : ""});
  }
  keys.push_back({"expert_count", "num_local_experts"});
  keys.push_back({"expert_used_count", "num_experts_per_tok"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  return config.translate_rope(mixture ? 1000000.0 : 10000.0);
}

}  // namespace

const Family kLlama{"llama", kHfNames, describe, weights, translate};

}  // namespace lithe::models
