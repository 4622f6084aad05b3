// command-r and cohere2: Command R, R+, R7B, Aya. Both branches read the same stream through one layer norm without a bias;
// rotary pairs are neighbours; logits are scaled. cohere2: every fourth layer sees everything and has no positions, the
// others have a window.
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kCohereNames{"CohereForCausalLM"};
constexpr std::array<std::string_view, 1> kCohere2Names{"Cohere2ForCausalLM"};
constexpr std::size_t kLayersOfPlus = 64;  // Command R+, whose files do not state its norms on q and k

Result<ArchSpec> describe_both(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::interleaved));
  spec.norm = spec.qk_norm_kind = NormKind::layer;
  LITHE_ASSIGN_OR_RETURN(const double scale, parameters.real_or("logit_scale", 1e-6, 1e6, 1.0));
  spec.logit_scale = static_cast<float>(scale);
  for (LayerSpec& layer : spec.layers) layer.residual = Residual::parallel;
  return spec;
}

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_both(parameters));
  LITHE_ASSIGN_OR_RETURN(const bool norms,
                         parameters.flag_or("attention.qk_norm", spec.layers.size() >= kLayersOfPlus));
  if (norms) {
    for (LayerSpec& layer : spec.layers) layer.qk_norm = QkNorm::each_head;
  }
  return spec;
}

Result<ArchSpec> describe2(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_both(parameters));
  LITHE_RETURN_IF_ERROR(describe_windows(parameters, 4, spec));
  for (LayerSpec& layer : spec.layers) {
    if (layer.window == 0) layer.rope = kNoRope;
  }
  return spec;
}

WeightTable weights(const ArchSpec& spec) {
  WeightTable table = dense_weights(Transform::none);
  remove(table, {Role::ffn_norm});
  if (spec.layers.front().qk_norm == QkNorm::each_head) {
    add_qk_norms(table, Dim::head_dim, Dim::head_dim);
    entry_of(table, Role::q_norm).rows = Dim::heads;
    entry_of(table, Role::k_norm).rows = Dim::kv_heads;
  }
  return table;
}

KeyTable keys() {
  KeyTable keys = layer_norm_keys("layer_norm_eps");
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  keys.push_back({"logit_scale", "logit_scale", KeyKind::real, "0.0625"});
  return keys;
}

Status translate(HfConfig& config) {
  config.name("CohereForCausalLM", "cohere");
  KeyTable table = keys();
  table.push_back({"attention.qk_norm", "use_qk_norm", KeyKind::boolean, "false"});
  LITHE_RETURN_IF_ERROR(config.translate(table));
  return config.translate_rope(500000.0);
}

Status translate2(HfConfig& config) {
  config.name("Cohere2ForCausalLM", "cohere2");
  KeyTable table = keys();
  table.push_back({"attention.sliding_window", "sliding_window", KeyKind::integer, "4096"});
  LITHE_RETURN_IF_ERROR(config.translate(table));
  LITHE_RETURN_IF_ERROR(config.translate_windows(4));
  return config.translate_rope(10000.0);
}

}  // namespace

const Family kCommandR{"command-r", kCohereNames, describe, weights, translate};
const Family kCohere2{"cohere2", kCohere2Names, describe2, weights, translate2};

}  // namespace lithe::models
