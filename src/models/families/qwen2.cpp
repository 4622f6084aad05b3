// qwen2: Qwen 2 and 2.5. Biases on q, k and v; rotary pairs half a head apart.
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"Qwen2ForCausalLM"};

Result<ArchSpec> describe(const Parameters& parameters) {
  return describe_dense(parameters, RopeKind::half);
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  add_qkv_biases(table, Presence::required, Transform::none);
  return table;
}

Status translate(HfConfig& config) {
  config.name("Qwen2ForCausalLM", "qwen2");
  KeyTable keys = dense_keys();
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"", "use_sliding_window", KeyKind::boolean, "false"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  return config.translate_rope(10000.0);
}

}  // namespace

const Family kQwen2{"qwen2", kHfNames, describe, weights, translate};

}  // namespace lithe::models
