#include "models/families/mixer.h"

namespace lithe::models {

Result<layers::MambaSpec> describe_mixer(const Parameters& parameters) {
  constexpr std::int64_t kMostTaps = 16, kMostState = 4096;
  layers::MambaSpec mixer;
  LITHE_ASSIGN_OR_RETURN(const auto inner, parameters.integer("ssm.inner_size", 1, Limits::hidden));
  LITHE_ASSIGN_OR_RETURN(const auto heads, parameters.integer("ssm.time_step_rank", 1, Limits::heads));
  LITHE_ASSIGN_OR_RETURN(const auto groups, parameters.integer_or("ssm.group_count", 1, heads, 1));
  LITHE_ASSIGN_OR_RETURN(const auto state, parameters.integer("ssm.state_size", 1, kMostState));
  LITHE_ASSIGN_OR_RETURN(const auto taps, parameters.integer("ssm.conv_kernel", 1, kMostTaps));
  if (inner % heads != 0 || heads % groups != 0) {
    return corrupt("{}: a mixer of {} channels, {} heads and {} groups", parameters.architecture(), inner,
                   heads, groups);
  }
  mixer.heads = static_cast<int>(heads);
  mixer.head_dim = static_cast<int>(inner / heads);
  mixer.groups = static_cast<int>(groups);
  mixer.state = static_cast<int>(state);
  mixer.taps = static_cast<int>(taps);
  return mixer;
}

Status check_step_limit(const HfConfig& config) {
  const Json* limit = config.find("time_step_limit");
  const auto endless = [](const Json& end) {
    return (end.is_number() && end.get<double>() > 1e30) || end == Json{{"__float__", "Infinity"}};
  };
  if (limit == nullptr ||
      (limit->is_array() && limit->size() == 2 && (*limit)[0] == 0.0 && endless((*limit)[1])))
    return {};
  return unsupported("config.json: time_step_limit = {}, but a mixer runs without a limit only",
                     limit->dump().substr(0, 60));
}

void add_mixer(WeightTable& table, std::string_view prefix) {
  const auto add = [&](Role role, const char* gguf, std::string_view hf, Dim rows, Dim cols) -> WeightEntry& {
    table.push_back({.role = role,
                     .gguf = gguf,
                     .hf = std::string(prefix) + std::string(hf),
                     .rows = rows,
                     .cols = cols,
                     .where = is_recurrent});
    return table.back();
  };
  add(Role::ssm_in, "blk.{}.ssm_in.weight", "in_proj.weight", Dim::ssm_projected, Dim::hidden);
  add(Role::ssm_conv, "blk.{}.ssm_conv1d.weight", "conv1d.weight", Dim::ssm_convolved, Dim::ssm_taps);
  add(Role::ssm_conv_bias, "blk.{}.ssm_conv1d.bias", "conv1d.bias", Dim::none, Dim::ssm_convolved).presence =
      Presence::optional;
  add(Role::ssm_step_bias, "blk.{}.ssm_dt.bias", "dt_bias", Dim::none, Dim::ssm_heads);
  WeightEntry& decay = add(Role::ssm_decay, "blk.{}.ssm_a", "A_log", Dim::none, Dim::ssm_heads);
  decay.transform = Transform::negative_exp;
  decay.folds = Dim::ssm_heads;
  add(Role::ssm_skip, "blk.{}.ssm_d", "D", Dim::none, Dim::ssm_heads).folds = Dim::ssm_heads;
  add(Role::ssm_norm, "blk.{}.ssm_norm.weight", "norm.weight", Dim::none, Dim::ssm_inner).folds =
      Dim::ssm_groups;
  add(Role::ssm_out, "blk.{}.ssm_out.weight", "out_proj.weight", Dim::hidden, Dim::ssm_inner);
}

}  // namespace lithe::models
