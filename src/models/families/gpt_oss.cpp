// gpt-oss: a mixture of experts with biases everywhere, clamped SwiGLU, a window in every other layer, and a learned logit
// a head, the sink, that takes part in the softmax and gives no value. Checkpoints hold gate and up row by row in turn.
#include <array>

#include "models/families/dense.h"
#include "models/families/sparse.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"GptOssForCausalLM"};
constexpr std::int64_t kPeriod = 2;

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  LITHE_ASSIGN_OR_RETURN(spec.ropes.front().truncate,
                         parameters.flag_or("rope.scaling.yarn_truncate", false));
  LITHE_RETURN_IF_ERROR(describe_windows(parameters, kPeriod, spec));
  for (LayerSpec& layer : spec.layers) {
    layer.sinks = true;
    layer.activation = Activation::swiglu_oai;
  }
  MoeSpec usual;
  usual.rule.score = layers::RouterScore::softmax_of_chosen;
  LITHE_RETURN_IF_ERROR(describe_experts(parameters, usual, spec));
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  add_qkv_biases(table, Presence::required, Transform::none);
  add_biases(table, {Role::attn_out}, Presence::required);
  entry_of(table, Role::ffn_norm).gguf = "blk.{}.post_attention_norm.weight";
  table.push_back({.role = Role::sinks,
                   .gguf = "blk.{}.attn_sinks.weight",
                   .hf = "model.layers.{}.self_attn.sinks",
                   .cols = Dim::heads});
  add_experts(table, {"mlp.router.weight", "mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj",
                      "mlp.experts.down_proj"});
  entry_of(table, Role::expert_gate).transform = Transform::alternate_transpose;
  entry_of(table, Role::expert_up).transform = Transform::alternate_transpose;
  entry_of(table, Role::expert_down).transform = Transform::transpose;
  const auto add_bias = [&](Role bias, Role weight, const char* hf, Transform transform) {
    const WeightEntry& beside = entry_of(table, weight);
    WeightEntry row{.role = bias, .gguf = beside.gguf, .hf = hf, .cols = beside.rows};
    row.gguf.replace(row.gguf.rfind("weight"), std::string::npos, "bias");
    row.transform = transform;
    row.where = beside.where;
    row.stack = beside.stack;
    table.push_back(std::move(row));
  };
  add_bias(Role::router_bias, Role::router, "model.layers.{}.mlp.router.bias", Transform::none);
  add_bias(Role::expert_gate_bias, Role::expert_gate, "model.layers.{}.mlp.experts.gate_up_proj_bias",
           Transform::alternate);
  add_bias(Role::expert_up_bias, Role::expert_up, "model.layers.{}.mlp.experts.gate_up_proj_bias",
           Transform::alternate);
  add_bias(Role::expert_down_bias, Role::expert_down, "model.layers.{}.mlp.experts.down_proj_bias",
           Transform::none);
  return table;
}

Status translate(HfConfig& config) {
  constexpr double kTheta = 150000.0;
  config.name("GptOssForCausalLM", "gpt_oss");
  KeyTable keys = dense_keys();
  assume(keys, {{"rms_norm_eps", "1e-5"}, {"head_dim", "64"}});
  for (const KeyRow& row : expert_keys("num_local_experts|num_experts", "intermediate_size"))
    keys.push_back(row);
  keys.push_back({"attention.sliding_window", "sliding_window", KeyKind::integer, "128"});
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"", "attention_bias", KeyKind::boolean, "true"});
  keys.push_back({"", "swiglu_alpha", KeyKind::real, "1.702"});
  keys.push_back({"", "swiglu_limit", KeyKind::real, "7.0"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  LITHE_RETURN_IF_ERROR(config.translate_windows(kPeriod));
  // To Transformers silence means a scaling.
  if (!config.exporting() && config.find("rope_scaling|rope_parameters") == nullptr) {
    const Json usual{{"rope_type", "yarn"},
                     {"factor", 32.0},
                     {"truncate", false},
                     {"original_max_position_embeddings", 4096}};
    return config.translate_rope_in(usual, kTheta);
  }
  LITHE_RETURN_IF_ERROR(config.translate_rope(kTheta));
  if (config.exporting() && config.find("rope_scaling") == nullptr)
    config.set("rope_scaling", Json{{"rope_type", "default"}});
  return {};
}

}  // namespace

const Family kGptOss{"gpt-oss", kHfNames, describe, weights, translate};

}  // namespace lithe::models
