// phi3: Phi 3, 3.5, 4 and 4-mini. q, k and v are one matrix, gate and up another; long contexts rotate by factors that
// differ below and above the original length (LongRoPE).
#include <array>

#include "models/families/dense.h"
#include "models/family.h"

namespace lithe::models {
namespace {

constexpr std::array<std::string_view, 1> kHfNames{"Phi3ForCausalLM"};

Result<ArchSpec> describe(const Parameters& parameters) {
  LITHE_ASSIGN_OR_RETURN(ArchSpec spec, describe_dense(parameters, RopeKind::half));
  // Files with factors do not name the scaling.
  RopeSpec& rope = spec.ropes.front();
  if (rope.scaling == RopeScaling::none) {
    rope.scaling = RopeScaling::longrope;
    LITHE_ASSIGN_OR_RETURN(
        rope.original_context,
        parameters.integer_or("rope.scaling.original_context_length", 1, Limits::context, spec.context));
    LITHE_ASSIGN_OR_RETURN(rope.magnitude,
                           parameters.real_or("rope.scaling.attn_factor", 0.0, Limits::scaling, 1.0));
  }
  return spec;
}

WeightTable weights(const ArchSpec&) {
  WeightTable table = dense_weights(Transform::none);
  fuse(table, {Role::q, Role::k, Role::v}, "blk.{}.attn_qkv.weight",
       "model.layers.{}.self_attn.qkv_proj.weight");
  fuse(table, {Role::gate, Role::up}, "blk.{}.ffn_up.weight", "model.layers.{}.mlp.gate_up_proj.weight");
  return table;
}

Status translate(HfConfig& config) {
  config.name("Phi3ForCausalLM", "phi3");
  KeyTable keys = dense_keys();
  assume(keys, {{"rms_norm_eps", "1e-5"}});
  keys.push_back({"", "hidden_act", KeyKind::text, R"("silu")"});
  keys.push_back({"attention.sliding_window", "sliding_window", KeyKind::integer, "0"});
  LITHE_RETURN_IF_ERROR(config.translate(keys));
  LITHE_RETURN_IF_ERROR(config.translate_rope(10000.0, 1.0));
  if (config.exporting()) {
    config.set("original_max_position_embeddings", config.spec().ropes.front().original_context > 0
                                                       ? config.spec().ropes.front().original_context
                                                       : config.spec().context);
    return {};
  }
  if (config.has("rope.scaling.original_context_length")) return {};
  LITHE_ASSIGN_OR_RETURN(const auto longest, config.integer("max_position_embeddings"));
  config.add("rope.scaling.original_context_length", static_cast<std::uint32_t>(longest));
  return {};
}

}  // namespace

const Family kPhi3{"phi3", kHfNames, describe, weights, translate};

}  // namespace lithe::models
