// smollm3: llama whose every fourth layer has no positions at all (NoPE, 2305.19466).
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"SmolLM3ForCausalLM"};
constexpr std::size_t kPeriod = 4;

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::interleaved));
  for (std::size_t i = kPeriod - 1; i < spec.layers.size(); i += kPeriod) spec.layers[i].rope = kNoRope;
  return spec;
}

WeightTable weights(const ArchSpec&) {
  return dense_weights(Transform::pair_heads);
}

Status translate(HfConfig& config) {
  config.name("SmolLM3ForCausalLM", "smollm3");
  KeyTable keys = dense_keys();
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"", "mlp_bias", KeyKind::boolean, "false"});
  keys.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  keys.push_back({"", "use_sliding_window", KeyKind::boolean, "false"});
  keys.push_back({"", "no_rope_layer_interval", KeyKind::integer, "4"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  if (const Json* rotated = config.find("no_rope_layers")) {  // 1: this layer rotates
    if (!rotated->is_array()) return corrupt("config.json: no_rope_layers is no list");
    for (std::size_t i = 0; i < rotated->size(); ++i) {
      if ((*rotated)[i] != Json((i + 1) % kPeriod != 0 ? 1 : 0)) {
        return unsupported("config.json: no_rope_layers is not every fourth layer");
      }
    }
  }
  return config.translate_rope(2000000.0);
}

}  // namespace

const Family kSmolLm3{"smollm3", kHfNames, describe, weights, translate};

}  // namespace lithe::models
