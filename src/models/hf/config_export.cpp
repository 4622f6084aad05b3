// From GGUF's parameters to a config.json: the other direction of config.cpp.
#include <algorithm>
#include <array>
#include <cmath>

#include "layers/rope.h"
#include "models/hf/config.h"

namespace lithe::models {
namespace {

std::string_view first_of(std::string_view names) {
  return names.substr(0, names.find('|'));
}

// Files hold 32-bit numbers: 1e-5 is not to become 9.999999747378752e-06.
double shortest(double value) {
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(narrow) == value ? Json::parse(fmt::format("{}", narrow)).get<double>() : value;
}

// The one number that a list holds; null: several.
template <typename T>
Json only(const std::vector<T>& list) {
  const bool alike = std::ranges::all_of(list, [&](const T& item) { return item == list.front(); });
  return list.empty() || !alike ? Json() : Json(list.front());
}

Json json_of(const formats::GgufValue& value) {
  return std::visit(
      [](const auto& held) -> Json {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, double>) return shortest(held);
        if constexpr (std::is_same_v<T, std::string_view>) return std::string(held);
        if constexpr (std::is_same_v<T, std::vector<std::int64_t>> || std::is_same_v<T, std::vector<double>>)
          return only(held);
        if constexpr (std::is_arithmetic_v<T>) return held;
        return {};
      },
      value);
}

// Llama 3's scaling is published as three numbers and a length; GGUF keeps what they make of the angles. The published
// ones are tried, and whatever makes the same is the same.
Result<Json> llama3_scaling(const RopeSpec& rope, const std::vector<float>& divisors) {
  RopeSpec plain{.dim = rope.dim, .theta = rope.theta};
  const std::vector<float> frequencies = layers::rope_frequencies(plain);
  RopeSpec tried = plain;
  tried.scaling = RopeScaling::llama3;
  tried.factor = static_cast<double>(*std::ranges::max_element(divisors));
  for (const auto& [low, high] : {std::pair{1.0, 4.0}, std::pair{1.0, 2.0}, std::pair{1.0, 8.0}}) {
    for (std::int64_t original = 16; original <= std::int64_t{1} << 20; original *= 2) {
      tried.low_freq_factor = low;
      tried.high_freq_factor = high;
      tried.original_context = original;
      const std::vector<float> scaled = layers::rope_frequencies(tried);
      const auto fits = [&](std::size_t i) {
        return std::fabs(frequencies[i] / scaled[i] - divisors[i]) <= 1e-6f * divisors[i];
      };
      bool all = true;
      for (std::size_t i = 0; i < divisors.size(); ++i) all = all && fits(i);
      if (!all) continue;
      return Json{{"rope_type", "llama3"},
                  {"factor", tried.factor},
                  {"low_freq_factor", low},
                  {"high_freq_factor", high},
                  {"original_max_position_embeddings", original}};
    }
  }
  return unsupported("rope_freqs.weight holds angles that no rope_scaling of config.json gives");
}

}  // namespace

void HfConfig::set(std::string_view name, Json value) {
  Json* at = &written_;
  for (std::size_t dot; (dot = name.find('.')) != std::string_view::npos; name.remove_prefix(dot + 1))
    at = &(*at)[std::string(name.substr(0, dot))];
  (*at)[std::string(name)] = std::move(value);
}

void HfConfig::name(std::string_view architecture, std::string_view model_type) {
  if (!exporting()) return;
  set("architectures", Json::array({std::string(architecture)}));
  set("model_type", std::string(model_type));
}

Status HfConfig::export_row(const KeyRow& row) {
  const std::string_view name = first_of(row.hf);
  if (row.gguf.empty()) {  // a fact
    Json value = Json::parse(first_of(row.value));
    if (!value.is_null()) set(name, std::move(value));
    return {};
  }
  const std::string key = fmt::format("{}.{}", architecture_, row.gguf);
  const formats::GgufValue* stated = file_->metadata().find(key);
  if (stated == nullptr)
    return {};  // describe() and Transformers have their own idea; whoever exports compares them
  Json value = json_of(*stated);
  if (value.is_null())
    return unsupported("{} differs from layer to layer, which config.json cannot say", key);
  if (value == 0 && (row.gguf == "attention.sliding_window" || row.gguf.ends_with("softcapping")))
    value = nullptr;  // none of it
  set(name, std::move(value));
  return {};
}

Result<std::vector<float>> HfConfig::divisors(std::string_view name) const {
  const formats::GgufTensor* tensor = file_->find_tensor(name);
  if (tensor == nullptr || tensor->format == nullptr) return std::vector<float>();
  std::vector<std::byte> scratch;
  LITHE_ASSIGN_OR_RETURN(const auto data, file_->slice(*tensor, 0, scratch));
  std::vector<float> values(static_cast<std::size_t>(tensor->elements()));
  tensor->format->decode(data.data(), static_cast<std::int64_t>(values.size()), values.data());
  return values;
}

// As files before Transformers 5 state it, which newer ones read too: rope_theta, rope_scaling, partial_rotary_factor.
Status HfConfig::export_rope(std::optional<double> share) {
  if (spec().ropes.empty()) return {};
  const RopeSpec& rope = spec().ropes.front();
  const auto attending =
      std::ranges::find_if(spec().layers, [](const LayerSpec& each) { return each.heads > 0; });
  if (attending == spec().layers.end()) return {};
  const LayerSpec& layer = *attending;
  const int head_dim = layer.latent.rank > 0 ? layer.latent.rope_dim : layer.head_dim;
  set("rope_theta", shortest(rope.theta));
  // Transformers rounds the product down.
  double part = static_cast<double>(rope.dim) / head_dim;
  if (static_cast<int>(head_dim * part) < rope.dim) part = std::nextafter(part, 1.0);
  if (part != 1.0 && !share)
    return unsupported("{} of {} channels rotate, and Transformers' '{}' rotates all", rope.dim, head_dim,
                       architecture_);
  if (part != 1.0 || share.value_or(1.0) != 1.0) set("partial_rotary_factor", part);
  LITHE_ASSIGN_OR_RETURN(Json scaling, exported_scaling(rope));
  if (!scaling.is_null()) set("rope_scaling", std::move(scaling));
  return {};
}

// null: none.
Result<Json> HfConfig::exported_scaling(const RopeSpec& rope) const {
  switch (rope.scaling) {
    case RopeScaling::none:
    case RopeScaling::llama3: {
      LITHE_ASSIGN_OR_RETURN(const std::vector<float> stated, divisors("rope_freqs.weight"));
      if (stated.empty()) return Json();
      return llama3_scaling(rope, stated);
    }
    case RopeScaling::linear:
      return Json{{"rope_type", "linear"}, {"factor", shortest(rope.factor)}};
    case RopeScaling::dynamic:
      return Json{{"rope_type", "dynamic"}, {"factor", shortest(rope.factor)}};
    case RopeScaling::yarn: {
      Json scaling{{"rope_type", "yarn"},
                   {"factor", shortest(rope.factor)},
                   {"beta_fast", shortest(rope.beta_fast)},
                   {"beta_slow", shortest(rope.beta_slow)},
                   {"original_max_position_embeddings", rope.original_context},
                   {"attention_factor", rope.magnitude}};
      if (!rope.truncate) scaling["truncate"] = false;
      LITHE_ASSIGN_OR_RETURN(const auto logarithm, file_->metadata().optional_float(
                                                       architecture_ + ".rope.scaling.yarn_log_multiplier"));
      if (logarithm) scaling["mscale_all_dim"] = shortest(static_cast<float>(10.0 * *logarithm));
      return scaling;
    }
    case RopeScaling::longrope: {
      LITHE_ASSIGN_OR_RETURN(const std::vector<float> far, divisors("rope_factors_long.weight"));
      LITHE_ASSIGN_OR_RETURN(const std::vector<float> near, divisors("rope_factors_short.weight"));
      if (far.empty() || near.empty()) return Json();
      Json scaling{{"rope_type", "longrope"}, {"attention_factor", rope.magnitude}};
      for (const float divisor : far)
        scaling["long_factor"].push_back(shortest(static_cast<double>(divisor)));
      for (const float divisor : near)
        scaling["short_factor"].push_back(shortest(static_cast<double>(divisor)));
      return scaling;
    }
  }
  return Json();
}

}  // namespace lithe::models
