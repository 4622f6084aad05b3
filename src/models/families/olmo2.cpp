// olmo2: OLMo 2 and 3. Norms after the branches instead of before, and over all heads of q and of k at once. OLMo 3: a
// window in three of four layers, which rotate without the scaling of the others.
#include <algorithm>
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 2> kHfNames{"Olmo2ForCausalLM", "Olmo3ForCausalLM"};
constexpr std::int64_t kPeriod = 4;

bool slides(const ArchSpec& spec) {
  return std::ranges::any_of(spec.layers, [](const LayerSpec& layer) { return layer.window > 0; });
}

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  for (LayerSpec& layer : spec.layers) {
    layer.qk_norm = QkNorm::whole;
    layer.post_norm = true;
  }
  if (!slides(spec)) return spec;
  LITHE_RETURN_IF_ERROR(describe_windows(parameters, kPeriod, spec));
  const RopeSpec& far = spec.ropes.front();
  RopeSpec near{.kind = far.kind, .dim = far.dim};
  LITHE_ASSIGN_OR_RETURN(near.theta, parameters.real_or("rope.freq_base_swa", 1.0, Limits::theta, far.theta));
  spec.ropes.push_back(near);
  for (LayerSpec& layer : spec.layers) {
    if (layer.window > 0) layer.rope = 1;
  }
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  remove(table, {Role::attn_norm, Role::ffn_norm});
  add_post_norms(table, "post_attention_layernorm", "post_feedforward_layernorm");
  add_qk_norms(table, Dim::q_out, Dim::k_out);
  return table;
}

// Which of the two a directory is, only its class tells; and a config.json of OLMo 3 without layer_types or a window has the
// usual ones.
Result<bool> is_third(const HfConfig& config) {
  if (config.exporting()) return slides(config.spec());
  LITHE_ASSIGN_OR_RETURN(const std::string type, config.text("model_type", "olmo2"));
  return type == "olmo3";
}

Status translate_rope3(HfConfig& config) {
  constexpr double kTheta = 500000.0;
  // Stated for both kinds of layers, or Transformers takes a base of its own for one.
  if (config.exporting()) {
    config.set("rope_parameters.full_attention.rope_theta", config.spec().ropes.front().theta);
    config.set("rope_parameters.sliding_attention.rope_theta", config.spec().ropes.back().theta);
    return config.translate_rope(kTheta);
  }
  LITHE_RETURN_IF_ERROR(config.check_local_rope());
  const Json* full = config.find("rope_parameters.full_attention");
  return full != nullptr ? config.translate_rope_in(*full, kTheta) : config.translate_rope(kTheta);
}

Status translate(HfConfig& config) {
  LITHE_ASSIGN_OR_RETURN(const bool third, is_third(config));
  if (third) {
    config.name("Olmo3ForCausalLM", "olmo3");
  } else {
    config.name("Olmo2ForCausalLM", "olmo2");
  }
  KeyTable keys = dense_keys();
  assume(keys, {{"rms_norm_eps", "1e-5"}});
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  if (third) {
    keys.push_back({"attention.sliding_window", "sliding_window", KeyKind::integer, "4096"});
    keys.push_back({"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta", KeyKind::real});
  }
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  if (!third) return config.translate_rope(10000.0);
  LITHE_RETURN_IF_ERROR(config.translate_windows(kPeriod));
  return translate_rope3(config);
}

}  // namespace

const Family kOlmo2{"olmo2", kHfNames, describe, weights, translate};

}  // namespace lithe::models
