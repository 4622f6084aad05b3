// mamba2: layers of a state space mixer and nothing else. A sequence's past is a state of fixed size; its pages hold no keys.
#include <algorithm>
#include <array>

#include "models/families/dense.h"
#include "models/families/mixer.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"Mamba2ForCausalLM"};
constexpr std::uint32_t kContext = 1 << 20;  // nothing in the model ends there

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_frame(parameters));
  LayerSpec layer;
  layer.rope = kNoRope;
  LITHE_ASSIGN_OR_RETURN(layer.mamba, describe_mixer(parameters));
  std::ranges::fill(spec.layers, layer);
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  remove(table, {Role::q, Role::k, Role::v, Role::attn_out, Role::ffn_norm, Role::gate, Role::up, Role::down,
                 Role::rope_divisors, Role::rope_divisors_long, Role::rope_divisors_short});
  rename(table, {{Role::embedding, "backbone.embeddings.weight|backbone.embedding.weight"},
                 {Role::output_norm, "backbone.norm_f.weight"},
                 {Role::attn_norm, "backbone.layers.{}.norm.weight"}});
  add_mixer(table, "backbone.layers.{}.mixer.");
  return table;
}

Status translate(HfConfig& config) {
  config.name(kHfNames[0], "mamba2");
  LITHE_RETURN_IF_ERROR(config.translate({
      {"vocab_size", "vocab_size"},
      {"block_count", "num_hidden_layers"},
      {"embedding_length", "hidden_size"},
      {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon", KeyKind::real, "1e-5"},
      {"ssm.conv_kernel", "conv_kernel", KeyKind::integer, "4"},
      {"ssm.state_size", "state_size", KeyKind::integer, "128"},
      {"ssm.time_step_rank", "num_heads", KeyKind::integer, "128"},
      {"ssm.group_count", "n_groups", KeyKind::integer, "8"},
      {"", "hidden_act", KeyKind::text, R"("silu")"},
      {"", "use_bias", KeyKind::boolean, "false"},
  }));
  if (config.exporting()) {
    const layers::MambaSpec& mixer = config.spec().layers.front().mamba;
    if (mixer.inner() % config.spec().hidden != 0)
      return unsupported("a mixer of {} channels on a stream of {}", mixer.inner(), config.spec().hidden);
    config.set("head_dim", mixer.head_dim);
    config.set("expand", mixer.inner() / config.spec().hidden);
    config.set("use_conv_bias", config.has_tensor("blk.0.ssm_conv1d.bias"));
  }
  LITHE_RETURN_IF_ERROR(check_step_limit(config));
  LITHE_ASSIGN_OR_RETURN(const auto heads, config.integer("num_heads", 128));
  LITHE_ASSIGN_OR_RETURN(const auto head_dim, config.integer("head_dim", 64));
  if (heads < 1 || heads > Limits::heads || head_dim < 1 || head_dim > Limits::head_dim)
    return corrupt("config.json: {} heads of {} channels", heads, head_dim);
  config.add("ssm.inner_size", static_cast<std::uint32_t>(heads * head_dim));
  config.add("context_length", kContext);
  // To other programs these are absent only in a broken file.
  config.add("feed_forward_length", std::uint32_t{0});
  config.add("attention.head_count", std::uint32_t{0});
  return {};
}

}  // namespace

const Family kMamba2{"mamba2", kHfNames, describe, weights, translate};

}  // namespace lithe::models
