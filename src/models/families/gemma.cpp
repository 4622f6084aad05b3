// gemma, gemma2, gemma3 (text). Embeddings are scaled by the root of the hidden size, norms are trained as a distance from
// 1, the gate is gelu, the head is the embedding. gemma2: norms before and after each branch, soft-capped scores and
// logits, a window in every other layer. gemma3: norms on q and k, a window in five of six layers, which rotate at a base
// of their own.
#include <array>
#include <cmath>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kGemmaNames{"GemmaForCausalLM"};
constexpr std::array<std::string_view, 1> kGemma2Names{"Gemma2ForCausalLM"};
constexpr std::array<std::string_view, 2> kGemma3Names{"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"};
constexpr std::int64_t kGemma2Window = 4096;

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  for (LayerSpec& layer : spec.layers) layer.activation = Activation::gelu_tanh;
  return spec;
}

// Scores are scaled by the head's size; in the largest model, whose files do not say so, by hidden / heads.
Status describe_scale(const Parameters& parameters, std::size_t largest, ArchSpec& spec) {
  const LayerSpec& first = spec.layers.front();
  const double unit =
      spec.layers.size() == largest ? static_cast<double>(spec.hidden) / first.heads : first.head_dim;
  LITHE_ASSIGN_OR_RETURN(const double scale,
                         parameters.real_or("attention.scale", 1e-6, 1e3, 1.0 / std::sqrt(unit)));
  for (LayerSpec& layer : spec.layers) layer.attention_scale = static_cast<float>(scale);
  return {};
}

struct Caps {
  double scores = 0, logits = 0;
};

Status describe_caps(const Parameters& parameters, Caps usual, ArchSpec& spec) {
  LITHE_ASSIGN_OR_RETURN(const double scores,
                         parameters.real_or("attn_logit_softcapping", 0.0, 1e4, usual.scores));
  LITHE_ASSIGN_OR_RETURN(const double logits,
                         parameters.real_or("final_logit_softcapping", 0.0, 1e4, usual.logits));
  spec.logit_soft_cap = static_cast<float>(logits);
  for (LayerSpec& layer : spec.layers) layer.soft_cap = static_cast<float>(scores);
  return {};
}

Result<ArchSpec> describe2(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe(parameters));
  LITHE_RETURN_IF_ERROR(describe_scale(parameters, 46, spec));
  // The first files stated neither caps nor windows.
  LITHE_RETURN_IF_ERROR(describe_caps(parameters, {50.0, 30.0}, spec));
  if (!parameters.has("attention.sliding_window")) {
    for (LayerSpec& layer : spec.layers) layer.window = kGemma2Window;
  }
  LITHE_RETURN_IF_ERROR(describe_windows(parameters, 2, spec));
  for (LayerSpec& layer : spec.layers) layer.post_norm = true;
  return spec;
}

Result<ArchSpec> describe3(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe(parameters));
  LITHE_RETURN_IF_ERROR(describe_scale(parameters, 62, spec));
  LITHE_RETURN_IF_ERROR(describe_caps(parameters, {}, spec));
  LITHE_RETURN_IF_ERROR(describe_windows(parameters, 6, spec));
  RopeSpec local{.kind = RopeKind::half, .dim = spec.ropes.front().dim};
  LITHE_ASSIGN_OR_RETURN(local.theta, parameters.real_or("rope.freq_base_swa", 1.0, Limits::theta, 10000.0));
  spec.ropes.push_back(local);
  for (LayerSpec& layer : spec.layers) {
    layer.post_norm = true;
    layer.qk_norm = QkNorm::per_head;
    if (layer.window > 0) layer.rope = 1;
  }
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  for (const Role role : {Role::output_norm, Role::attn_norm, Role::ffn_norm}) {
    entry_of(table, role).transform = Transform::add_one;
  }
  return table;
}

WeightTable weights2(const ArchSpec& spec) {
  WeightTable table = weights(spec);
  add_post_norms(table, "post_attention_layernorm", "post_feedforward_layernorm");
  entry_of(table, Role::attn_post_norm).transform = Transform::add_one;
  entry_of(table, Role::ffn_post_norm).transform = Transform::add_one;
  entry_of(table, Role::ffn_norm).hf = "model.layers.{}.pre_feedforward_layernorm.weight";
  return table;
}

WeightTable weights3(const ArchSpec& spec) {
  WeightTable table = weights2(spec);
  add_qk_norms(table, Dim::head_dim, Dim::head_dim);
  entry_of(table, Role::q_norm).transform = Transform::add_one;
  entry_of(table, Role::k_norm).transform = Transform::add_one;
  return table;
}

KeyTable keys() {
  KeyTable keys = dense_keys();
  assume(keys, {{"head_dim", "256"}});
  keys.push_back({"", "hidden_activation", KeyKind::text, R"("gelu_pytorch_tanh")"});
  keys.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  return keys;
}

Status translate(HfConfig& config) {
  config.name("GemmaForCausalLM", "gemma");
  KeyTable table = keys();
  // Its first files say "gelu" and were trained with the other.
  table.push_back({"", "hidden_act", KeyKind::text, R"("gelu_pytorch_tanh"|"gelu_new"|"gelu")"});
  LITHE_RETURN_IF_ERROR(config.translate(table));
  return config.translate_rope(10000.0);
}

Status translate_scale(HfConfig& config) {
  if (config.exporting()) {
    const double scale = static_cast<double>(config.spec().layers.front().attention_scale);
    const double unit = 1 / (scale * scale);
    const auto whole = static_cast<std::int64_t>(std::round(unit));  // which Transformers insists on
    if (std::abs(unit - static_cast<double>(whole)) > 1e-5 * unit)
      return unsupported("attention.scale = {} has no query_pre_attn_scalar", scale);
    config.set("query_pre_attn_scalar", whole);
    return {};
  }
  LITHE_ASSIGN_OR_RETURN(const double unit, config.real("query_pre_attn_scalar", 256.0));
  if (!(unit > 0)) return corrupt("config.json: query_pre_attn_scalar = {}", unit);
  config.add("attention.scale", static_cast<float>(1.0 / std::sqrt(unit)));
  return {};
}

Status translate2(HfConfig& config) {
  config.name("Gemma2ForCausalLM", "gemma2");
  KeyTable table = keys();
  table.push_back({"attn_logit_softcapping", "attn_logit_softcapping", KeyKind::real, "50.0"});
  table.push_back({"final_logit_softcapping", "final_logit_softcapping", KeyKind::real, "30.0"});
  table.push_back({"attention.sliding_window", "sliding_window", KeyKind::integer, "4096"});
  LITHE_RETURN_IF_ERROR(config.translate(table));
  for (const std::string_view cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (config.is_null(cap)) config.add(cap, 0.0f);  // none, where silence in GGUF means the usual
  }
  if (config.is_null("sliding_window")) config.add("attention.sliding_window", std::uint32_t{0});
  LITHE_RETURN_IF_ERROR(config.translate_windows(2));
  LITHE_RETURN_IF_ERROR(translate_scale(config));
  return config.translate_rope(10000.0);
}

Status translate3(HfConfig& config) {
  config.name("Gemma3ForCausalLM", "gemma3_text");
  KeyTable table = keys();
  assume(table, {{"vocab_size", "262208"},
                 {"num_hidden_layers", "26"},
                 {"max_position_embeddings", "131072"},
                 {"hidden_size", "2304"},
                 {"intermediate_size", "9216"},
                 {"num_attention_heads", "8"},
                 {"num_key_value_heads", "4"}});  // what the files with a vision part leave out
  table.push_back({"", "attn_logit_softcapping", KeyKind::real, "null"});
  table.push_back({"final_logit_softcapping", "final_logit_softcapping", KeyKind::real});
  table.push_back({"attention.sliding_window", "sliding_window", KeyKind::integer, "4096"});
  table.push_back({"rope.freq_base_swa", "rope_local_base_freq|rope_parameters.sliding_attention.rope_theta",
                   KeyKind::real, "10000.0"});
  LITHE_RETURN_IF_ERROR(config.translate(table));
  LITHE_RETURN_IF_ERROR(config.translate_windows(6));
  LITHE_RETURN_IF_ERROR(translate_scale(config));
  LITHE_RETURN_IF_ERROR(config.check_local_rope());
  const Json* full = config.find("rope_parameters.full_attention");
  return full != nullptr ? config.translate_rope_in(*full, 1000000.0) : config.translate_rope(1000000.0);
}

}  // namespace

const Family kGemma{"gemma", kGemmaNames, describe, weights, translate};
const Family kGemma2{"gemma2", kGemma2Names, describe2, weights2, translate2};
const Family kGemma3{"gemma3", kGemma3Names, describe3, weights3, translate3};

}  // namespace lithe::models
