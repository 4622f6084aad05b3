#include "models/hf/config.h"

#include <algorithm>
#include <cmath>

#include "layers/rope.h"
#include "models/parameters.h"

namespace lithe::models {
namespace {

// The parts of "a|b|c".
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

const Json* find_path(const Json& object, std::string_view path) {
  const Json* at = &object;
  for (const std::string_view part : split(path, '.')) {
    at = find_member(*at, part);
    if (at == nullptr || at->is_null()) return nullptr;
  }
  return at;
}

Status wrong_kind(std::string_view names, const Json& value, std::string_view expected) {
  return corrupt("config.json: {} is {}, expected {}", names, value.dump().substr(0, 60), expected);
}

Result<double> number(const Json& object, std::string_view names, double fallback) {
  return HfConfig(object, "").real(names, fallback);
}

}  // namespace

const Json* HfConfig::find(std::string_view names) const {
  for (const std::string_view name : split(names, '|')) {
    if (const Json* value = find_path(*config_, name)) return value;
  }
  return nullptr;
}

bool HfConfig::is_null(std::string_view names) const {
  return std::ranges::any_of(split(names, '|'), [&](std::string_view name) {
    const Json* value = find_member(*config_, name);
    return value != nullptr && value->is_null();
  });
}

Result<std::int64_t> HfConfig::integer(std::string_view names, std::optional<std::int64_t> fallback) const {
  const Json* value = find(names);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return corrupt("config.json does not state {}", split(names, '|').front());
  }
  if (value->is_number_integer()) return value->get<std::int64_t>();
  if (value->is_number_float() && std::abs(value->get<double>()) < 0x1p53 &&
      value->get<double>() == std::floor(value->get<double>())) {
    return static_cast<std::int64_t>(value->get<double>());
  }
  return wrong_kind(names, *value, "a whole number");
}

Result<double> HfConfig::real(std::string_view names, std::optional<double> fallback) const {
  const Json* value = find(names);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return corrupt("config.json does not state {}", split(names, '|').front());
  }
  if (!value->is_number()) return wrong_kind(names, *value, "a number");
  return value->get<double>();
}

Result<bool> HfConfig::boolean(std::string_view names, bool fallback) const {
  const Json* value = find(names);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return wrong_kind(names, *value, "true or false");
  return value->get<bool>();
}

Result<std::string> HfConfig::text(std::string_view names, std::string_view fallback) const {
  const Json* value = find(names);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) return wrong_kind(names, *value, "a text");
  return value->get<std::string>();
}

void HfConfig::add(std::string_view key, formats::MetadataBuilder::Value value) {
  if (exporting()) return;
  metadata.add(fmt::format("{}.{}", architecture_, key), std::move(value));
}

bool HfConfig::has(std::string_view key) const {
  if (exporting()) return file_->metadata().contains(fmt::format("{}.{}", architecture_, key));
  return metadata.contains(fmt::format("{}.{}", architecture_, key));
}

const std::vector<std::string_view>* HfConfig::texts(std::string_view key) const {
  return file_->metadata().string_array(fmt::format("{}.{}", architecture_, key));
}

Status HfConfig::import_row(const KeyRow& row) {
  const Json* value = find(row.hf);
  if (row.gguf.empty()) {  // a fact
    if (value == nullptr) return {};
    for (const std::string_view allowed : split(row.value, '|')) {
      if (*value == Json::parse(allowed)) return {};
    }
    return unsupported("config.json: {} = {}, but '{}' runs with {} only", split(row.hf, '|').front(),
                       value->dump().substr(0, 60), architecture_, row.value);
  }
  if (value == nullptr && is_null(row.hf)) return {};  // said to be none, whatever silence means
  const Json absent = row.value.empty() ? Json() : Json::parse(row.value);
  if (value == nullptr && absent.is_null()) return {};
  const Json object{{"value", value == nullptr ? absent : *value}};
  const HfConfig one(object, "");
  const auto named = [&](auto result) {
    return result.ok() ? std::move(result)
                       : decltype(result)(std::move(result).status().with_context(std::string(row.hf)));
  };
  switch (row.kind) {
    case KeyKind::integer: {
      LITHE_ASSIGN_OR_RETURN(const std::int64_t number, named(one.integer("value")));
      if (number < 0 || number > UINT32_MAX) {
        return corrupt("config.json: {} = {} is out of range", split(row.hf, '|').front(), number);
      }
      add(row.gguf, static_cast<std::uint32_t>(number));
      return {};
    }
    case KeyKind::real: {
      LITHE_ASSIGN_OR_RETURN(const double number, named(one.real("value")));
      add(row.gguf, static_cast<float>(number));
      return {};
    }
    case KeyKind::boolean: {
      LITHE_ASSIGN_OR_RETURN(const bool flag, named(one.boolean("value", false)));
      add(row.gguf, flag);
      return {};
    }
    case KeyKind::text: {
      LITHE_ASSIGN_OR_RETURN(std::string words, named(one.text("value", "")));
      add(row.gguf, std::move(words));
      return {};
    }
  }
  return {};
}

Status HfConfig::translate(const KeyTable& table) {
  for (const KeyRow& row : table) LITHE_RETURN_IF_ERROR(exporting() ? export_row(row) : import_row(row));
  return {};
}

Status HfConfig::translate_rope(double theta, std::optional<double> share) {
  if (exporting()) return export_rope(share);
  static const Json kNone = Json::object();
  const Json* parameters = find("rope_parameters|rope_scaling");
  return translate_rope_in(parameters != nullptr && parameters->is_object() ? *parameters : kNone, theta,
                           share);
}

// `parameters` (newer files) may state everything; older ones have rope_theta and rope_scaling beside the rest.
Status HfConfig::translate_rope_in(const Json& parameters, double theta, std::optional<double> share) {
  LITHE_ASSIGN_OR_RETURN(theta, real("rope_theta|rotary_emb_base", theta));
  LITHE_ASSIGN_OR_RETURN(theta, number(parameters, "rope_theta", theta));
  add("rope.freq_base", static_cast<float>(theta));

  LITHE_ASSIGN_OR_RETURN(const std::int64_t hidden, integer("hidden_size|n_embd", 0));
  LITHE_ASSIGN_OR_RETURN(const std::int64_t heads, integer("num_attention_heads|n_head", 1));
  LITHE_ASSIGN_OR_RETURN(const std::int64_t head_dim,
                         integer("qk_rope_head_dim|head_dim", heads > 0 ? hidden / heads : 0));
  LITHE_ASSIGN_OR_RETURN(double part, real("partial_rotary_factor|rotary_pct", share.value_or(1.0)));
  LITHE_ASSIGN_OR_RETURN(part, number(parameters, "partial_rotary_factor", part));
  if (!(part > 0 && part <= 1)) return corrupt("config.json: partial_rotary_factor = {}", part);
  if (part != 1 && !share) {
    return unsupported("config.json: partial_rotary_factor = {}, but '{}' rotates all channels", part,
                       architecture_);
  }
  const auto dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * part) / 2 * 2;
  if (dim < 2 || dim > Limits::head_dim) return corrupt("config.json: {} rotated channels", dim);
  add("rope.dimension_count", static_cast<std::uint32_t>(dim));

  const Json* scaling = find("rope_scaling");
  if (find_path(parameters, "rope_type") != nullptr || find_path(parameters, "type") != nullptr)
    scaling = &parameters;
  if (scaling == nullptr) return {};
  if (!scaling->is_object()) return wrong_kind("rope_scaling", *scaling, "an object");
  return import_scaling(*scaling, theta, dim);
}

Status HfConfig::import_scaling(const Json& scaling, double theta, std::int64_t dim) {
  const HfConfig stated(scaling, "");
  LITHE_ASSIGN_OR_RETURN(std::string type, stated.text("rope_type|type", "default"));
  if (type == "default" || type == "mrope") return {};
  // Phi 3 has called it so.
  if (type == "su" || (type == "yarn" && stated.find("long_factor") != nullptr)) type = "longrope";
  const auto key = [&](std::string_view name) { return fmt::format("rope.scaling.{}", name); };
  LITHE_ASSIGN_OR_RETURN(const std::int64_t longest, integer("max_position_embeddings", 0));
  LITHE_ASSIGN_OR_RETURN(std::int64_t original,
                         integer("original_max_position_embeddings", type == "longrope" ? longest : 0));
  LITHE_ASSIGN_OR_RETURN(original, stated.integer("original_max_position_embeddings", original));
  if (original == 0) original = longest;
  if (original < 1 || original > Limits::context)
    return corrupt("config.json: a rotary scaling from a context of {}", original);
  const double stretch = static_cast<double>(longest) / static_cast<double>(original);
  LITHE_ASSIGN_OR_RETURN(const double factor, stated.real("factor", type == "longrope" ? stretch : 1.0));
  if (!(factor > 0 && factor < Limits::scaling))
    return corrupt("config.json: a rotary scaling by {}", factor);
  const auto original_length = static_cast<std::uint32_t>(original);

  if (type == "linear") {
    add(key("type"), "linear");
    add(key("factor"), static_cast<float>(factor));
  } else if (type == "dynamic") {
    // GGUF has no name for it, and other programs stop at a name that they do not know.
    add(key("dynamic_factor"), static_cast<float>(factor));
    add(key("original_context_length"), static_cast<std::uint32_t>(longest));
  } else if (type == "yarn") {
    LITHE_RETURN_IF_ERROR(import_yarn(stated, factor, original));
  } else if (type == "llama3") {
    layers::RopeSpec spec{.dim = static_cast<int>(dim), .theta = theta};
    const std::vector<float> plain = layers::rope_frequencies(spec);
    spec.scaling = layers::RopeScaling::llama3;
    spec.factor = factor;
    spec.original_context = original;
    LITHE_ASSIGN_OR_RETURN(spec.low_freq_factor, stated.real("low_freq_factor", 1.0));
    LITHE_ASSIGN_OR_RETURN(spec.high_freq_factor, stated.real("high_freq_factor", 4.0));
    if (!(spec.high_freq_factor > spec.low_freq_factor))
      return corrupt("config.json: rope_scaling of type llama3 with its factors out of order");
    const std::vector<float> scaled = layers::rope_frequencies(spec);
    StatedTensor tensor{"rope_freqs.weight", {}};
    for (std::size_t i = 0; i < plain.size(); ++i) tensor.values.push_back(plain[i] / scaled[i]);
    tensors.push_back(std::move(tensor));
  } else if (type == "longrope") {
    add(key("type"), "longrope");
    add(key("original_context_length"), original_length);
    const double by_length =
        factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original)));
    LITHE_ASSIGN_OR_RETURN(const double magnitude, stated.real("attention_factor", by_length));
    add(key("attn_factor"), static_cast<float>(magnitude));
    for (const auto& [name, from] : {std::pair{"rope_factors_long.weight", "long_factor"},
                                     std::pair{"rope_factors_short.weight", "short_factor"}}) {
      StatedTensor tensor{name, {}};
      const Json* list = find_path(scaling, from);
      if (list == nullptr || !list->is_array() || std::ssize(*list) != dim / 2) {
        return corrupt("config.json: rope_scaling.{} should be a list of {} numbers", from, dim / 2);
      }
      for (const Json& item : *list) {
        if (!item.is_number()) return wrong_kind(from, item, "a number");
        tensor.values.push_back(static_cast<float>(item.get<double>()));
      }
      tensors.push_back(std::move(tensor));
    }
  } else {
    return unsupported(
        "config.json: rope_scaling of type '{}' does not run (linear, dynamic, yarn, llama3, longrope do)",
        type);
  }
  return {};
}

Status HfConfig::import_yarn(const HfConfig& stated, double factor, std::int64_t original) {
  const auto key = [&](std::string_view name) { return fmt::format("rope.scaling.{}", name); };
  add(key("type"), "yarn");
  add(key("factor"), static_cast<float>(factor));
  add(key("original_context_length"), static_cast<std::uint32_t>(original));
  LITHE_ASSIGN_OR_RETURN(const double fast, stated.real("beta_fast", 32.0));
  LITHE_ASSIGN_OR_RETURN(const double slow, stated.real("beta_slow", 1.0));
  add(key("yarn_beta_fast"), static_cast<float>(fast));
  add(key("yarn_beta_slow"), static_cast<float>(slow));
  // GGUF has no name for it: what a family's files mean by silence there, its description knows.
  LITHE_ASSIGN_OR_RETURN(const bool truncate, stated.boolean("truncate", true));
  add(key("yarn_truncate"), truncate);
  const auto logarithm = [&](double scale) {
    return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
  };
  LITHE_ASSIGN_OR_RETURN(const double mscale, stated.real("mscale", 0.0));
  LITHE_ASSIGN_OR_RETURN(const double all, stated.real("mscale_all_dim", 0.0));
  double magnitude = mscale != 0 && all != 0 ? logarithm(mscale) / logarithm(all) : logarithm(1.0);
  LITHE_ASSIGN_OR_RETURN(magnitude, stated.real("attention_factor", magnitude));
  // GGUF's factor comes on top of the usual logarithm.
  // Where both are given, and alike, a model scales its scores instead, and its family knows.
  const bool cancelled = all != 0 && magnitude == 1.0;
  if (magnitude != logarithm(1.0) && !cancelled)
    add(key("attn_factor"), static_cast<float>(magnitude / logarithm(1.0)));
  if (all != 0) add(key("yarn_log_multiplier"), static_cast<float>(0.1 * all));
  return {};
}

Status HfConfig::check_local_rope() const {
  const Json* local = find("rope_parameters.sliding_attention");
  if (exporting() || local == nullptr) return {};
  const HfConfig stated(*local, "");
  LITHE_ASSIGN_OR_RETURN(const std::string type, stated.text("rope_type|type", "default"));
  LITHE_ASSIGN_OR_RETURN(const double share, stated.real("partial_rotary_factor", 1.0));
  if (type == "default" && share == 1.0) return {};
  return unsupported(
      "config.json: rope_parameters.sliding_attention is {}, but '{}' rotates such layers unscaled",
      local->dump().substr(0, 80), architecture_);
}

Status HfConfig::translate_windows(std::int64_t period) {
  if (exporting()) {
    Json types = Json::array();
    for (const LayerSpec& layer : spec().layers)
      types.push_back(layer.window > 0 ? "sliding_attention" : "full_attention");
    set("layer_types", std::move(types));
    return {};
  }
  const Json* types = find("layer_types");
  if (types == nullptr) {
    LITHE_ASSIGN_OR_RETURN(const std::int64_t stated, integer("sliding_window_pattern", period));
    if (stated == period) return {};
    return unsupported("config.json: sliding_window_pattern = {}, but '{}' runs with {} only", stated,
                       architecture_, period);
  }
  if (!types->is_array()) return wrong_kind("layer_types", *types, "a list");
  LITHE_ASSIGN_OR_RETURN(const std::int64_t layers, integer("num_hidden_layers", std::ssize(*types)));
  if (std::ssize(*types) != layers)
    return corrupt("config.json: layer_types has {} entries for {} layers", types->size(), layers);
  std::vector<bool> slides;
  bool usual = true;
  for (const Json& type : *types) {
    if (type != "sliding_attention" && type != "full_attention")
      return wrong_kind("layer_types", type, "sliding_attention or full_attention");
    slides.push_back(type == "sliding_attention");
    usual &= slides.back() == (std::ssize(slides) % period != 0);
  }
  if (!usual) add("attention.sliding_window_pattern", std::move(slides));
  return {};
}

}  // namespace lithe::models
