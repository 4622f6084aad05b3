// modern-bert: ModernBERT. Norms before each branch, none before the first layer's attention; a gelu gate; no biases; a
// symmetric window in two of three layers, which rotate at a base of their own.
#include <array>

#include "models/families/dense.h"
#include "models/families/encoder.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 3> kHfNames{"ModernBertModel", "ModernBertForMaskedLM",
                                                   "ModernBertForSequenceClassification"};
constexpr std::int64_t kPeriod = 3;

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  LITHE_RETURN_IF_ERROR(describe_encoder(parameters, Pooling::mean, spec));
  spec.head_activation = HeadActivation::gelu;
  RopeSpec local{.kind = RopeKind::half, .dim = spec.ropes.front().dim};
  LITHE_ASSIGN_OR_RETURN(local.theta, parameters.real_or("rope.freq_base_swa", 1.0, Limits::theta, 10000.0));
  spec.ropes.push_back(local);
  LITHE_ASSIGN_OR_RETURN(const auto period, parameters.integer_or("attention.sliding_window_pattern", 1,
                                                                  Limits::layers, kPeriod));
  LITHE_ASSIGN_OR_RETURN(const std::string activation, parameters.text_or("hidden_activation", "gelu"));
  if (activation != "gelu" && activation != "silu")
    return unsupported("{}.hidden_activation '{}' does not run (gelu and silu do)", spec.family, activation);
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.activation = activation == "silu" ? Activation::silu : Activation::gelu_erf;
    const bool slides = layer.window > 0 && static_cast<std::int64_t>(i) % period != 0;
    // The file gives the whole width, half on each side.
    layer.window = slides ? layer.window / 2 + 1 : 0;
    layer.rope = slides ? 1 : 0;
  }
  return spec;
}

WeightTable weights(const ArchSpec& spec) {
  const std::string top = spec.labels > 0 ? "model." : "";
  WeightTable table = dense_weights(Transform::none);
  remove(table, {Role::output});
  rename(table, {{Role::embedding, top + "embeddings.tok_embeddings.weight"},
                 {Role::output_norm, top + "final_norm.weight"},
                 {Role::attn_norm, top + "layers.{}.attn_norm.weight"},
                 {Role::ffn_norm, top + "layers.{}.mlp_norm.weight"},
                 {Role::attn_out, top + "layers.{}.attn.Wo.weight"},
                 {Role::down, top + "layers.{}.mlp.Wo.weight"}});
  entry_of(table, Role::attn_norm).presence = Presence::optional;
  fuse(table, {Role::q, Role::k, Role::v}, "blk.{}.attn_qkv.weight", top + "layers.{}.attn.Wqkv.weight");
  fuse(table, {Role::gate, Role::up}, "blk.{}.ffn_up.weight", top + "layers.{}.mlp.Wi.weight");
  add_embedding_parts(table, "", top + "embeddings.norm.weight");
  add_classifier(table, spec, "head.dense.weight", "head.norm.weight", "classifier.weight");
  return table;
}

// Every so manieth layer sees all: said as a number, or layer by layer.
Status translate_period(HfConfig& config) {
  if (config.exporting())
    return config.translate({{"attention.sliding_window_pattern", "global_attn_every_n_layers"}});
  LITHE_ASSIGN_OR_RETURN(auto period, config.integer("global_attn_every_n_layers", kPeriod));
  if (const Json* types = config.find("layer_types"); types != nullptr && types->is_array()) {
    const auto fits = [&](std::int64_t every) {
      for (std::int64_t i = 0; i < std::ssize(*types); ++i) {
        if (((*types)[static_cast<std::size_t>(i)] == "full_attention") != (i % every == 0)) return false;
      }
      return true;
    };
    for (period = 1; period <= std::ssize(*types) && !fits(period);) ++period;
    if (period > std::ssize(*types)) return unsupported("config.json: layer_types without a period");
  }
  if (period < 1 || period > Limits::layers)
    return corrupt("config.json: global_attn_every_n_layers = {}", period);
  config.add("attention.sliding_window_pattern", static_cast<std::uint32_t>(period));
  return {};
}

// What the head reads: files that do not say mean the mean.
Status translate_head(HfConfig& config) {
  if (config.exporting()) {
    const bool mean = config.spec().head_pooling == Pooling::mean;
    if (config.spec().labels > 0) config.set("classifier_pooling", mean ? "mean" : "cls");
    return {};
  }
  if (!is_classifier(config)) return {};
  LITHE_ASSIGN_OR_RETURN(const std::string pooling, config.text("classifier_pooling", "cls"));
  if (pooling != "cls" && pooling != "mean")
    return unsupported("config.json: classifier_pooling = {} does not run (cls and mean do)", pooling);
  config.add("classifier.pooling_type",
             static_cast<std::uint32_t>(pooling == "cls" ? Pooling::cls : Pooling::mean));
  return {};
}

Status translate_ropes(HfConfig& config) {
  // As files before Transformers 5 state it, which newer ones read too.
  if (config.exporting()) return config.translate({{"rope.freq_base", "global_rope_theta", KeyKind::real}});
  LITHE_RETURN_IF_ERROR(config.check_local_rope());
  if (const Json* full = config.find("rope_parameters.full_attention"))
    return config.translate_rope_in(*full, 160000.0);
  LITHE_ASSIGN_OR_RETURN(const double theta, config.real("global_rope_theta", 160000.0));
  return config.translate_rope(theta);
}

Status translate(HfConfig& config) {
  KeyTable keys = layer_norm_keys("norm_eps");
  keys.push_back({"attention.sliding_window", "local_attention", KeyKind::integer, "128"});
  keys.push_back({"rope.freq_base_swa", "local_rope_theta|rope_parameters.sliding_attention.rope_theta",
                  KeyKind::real, "10000.0"});
  keys.push_back({"hidden_activation", "hidden_activation", KeyKind::text, R"("gelu")"});
  keys.push_back({"", "classifier_activation", KeyKind::text, R"("gelu")"});
  keys.push_back({"", "attention_bias", KeyKind::boolean, "false"});
  keys.push_back({"", "mlp_bias", KeyKind::boolean, "false"});
  keys.push_back({"", "norm_bias", KeyKind::boolean, "false"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  LITHE_RETURN_IF_ERROR(translate_period(config));
  LITHE_RETURN_IF_ERROR(translate_encoder(config, "ModernBert", "modernbert"));
  LITHE_RETURN_IF_ERROR(translate_head(config));
  return translate_ropes(config);
}

}  // namespace

const Family kModernBert{"modern-bert", kHfNames, describe, weights, translate};

}  // namespace lithe::models
