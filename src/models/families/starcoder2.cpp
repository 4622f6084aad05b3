// starcoder2: layer norms, biases everywhere, a plain feed-forward layer.
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"Starcoder2ForCausalLM"};

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  describe_layer_norms(spec);
  for (LayerSpec& layer : spec.layers) {
    layer.ffn = FfnKind::plain;
    layer.activation = Activation::gelu_tanh;
  }
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  remove(table, {Role::gate});
  entry_of(table, Role::up).hf = "model.layers.{}.mlp.c_fc.weight";
  entry_of(table, Role::down).hf = "model.layers.{}.mlp.c_proj.weight";
  add_qkv_biases(table, Presence::required, Transform::none);
  add_biases(table,
             {Role::output_norm, Role::attn_norm, Role::ffn_norm, Role::attn_out, Role::up, Role::down},
             Presence::required);
  return table;
}

Status translate(HfConfig& config) {
  config.name("Starcoder2ForCausalLM", "starcoder2");
  KeyTable keys = layer_norm_keys("norm_epsilon");
  keys.push_back({"", "hidden_act", KeyKind::text, R"("gelu_pytorch_tanh")"});
  keys.push_back({"", "use_bias", KeyKind::boolean, "true"});
  keys.push_back({"attention.sliding_window", "sliding_window"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  return config.translate_rope(10000.0);
}

}  // namespace

const Family kStarcoder2{"starcoder2", kHfNames, describe, weights, translate};

}  // namespace lithe::models
