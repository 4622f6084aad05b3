#include "models/hf/beside.h"

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/text.h"

namespace lithe::models {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 16;
constexpr std::string_view kUsualFolder = "1_Pooling";
constexpr std::array<std::pair<std::string_view, Pooling>, 3> kModes{
    {{"mean", Pooling::mean}, {"cls", Pooling::cls}, {"lasttoken", Pooling::last}}};

// null: there is no such file.
Result<Json> read_json(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return Json();
  LITHE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostBytes));
  auto json = parse_json(text);
  if (!json.ok()) return std::move(json).status().with_context(shown_path(path));
  return json;
}

// The folder of the pooling: what modules.json says, or the usual one.
Result<std::string> find_pooling(const std::filesystem::path& folder) {
  constexpr std::array<std::string_view, 3> kKnown{"Transformer", "Pooling", "Normalize"};
  LITHE_ASSIGN_OR_RETURN(const Json modules, read_json(folder / "modules.json"));
  std::string pooling(kUsualFolder);
  if (modules.is_null()) return pooling;
  if (!modules.is_array()) return corrupt("modules.json is no list");
  for (const Json& module : modules) {
    const HfConfig stated(module, "");
    LITHE_ASSIGN_OR_RETURN(const std::string type, stated.text("type", ""));
    LITHE_ASSIGN_OR_RETURN(const std::string path, stated.text("path", ""));
    const std::string_view name = std::string_view(type).substr(type.rfind('.') + 1);
    if (std::ranges::find(kKnown, name) == kKnown.end())
      return unsupported("modules.json: a module {} does not run ({} do)", in_quotes(name),
                         fmt::join(kKnown, ", "));
    if (name != "Pooling") continue;
    if (path.find('/') != std::string::npos || path == ".." || path.find('\0') != std::string::npos)
      return corrupt("modules.json: the pooling lies in {}", in_quotes(path));
    pooling = path;
  }
  return pooling;
}

Result<std::string> pooling_of(const Json& json) {
  constexpr std::string_view kPrefix = "pooling_mode_";
  const HfConfig stated(json, "");
  LITHE_ASSIGN_OR_RETURN(std::string chosen, stated.text("pooling_mode", ""));
  for (const auto& [key, value] : json.items()) {
    if (!std::string_view(key).starts_with(kPrefix) || value != true) continue;
    std::string mode = key.substr(kPrefix.size());
    if (const std::size_t end = mode.rfind("_token"); end != std::string::npos) mode.resize(end);
    if (!chosen.empty() && chosen != mode)
      return unsupported("poolings side by side ({} and {})", in_quotes(chosen), in_quotes(mode));
    chosen = std::move(mode);
  }
  return chosen;
}

}  // namespace

Status check_quantization(const HfConfig& config) {
  constexpr std::array<std::string_view, 5> kMethods{"fp8", "fbgemm_fp8", "modelopt", "compressed-tensors",
                                                     "mxfp4"};
  constexpr std::array<std::string_view, 3> kFormats{"float-quantized", "naive-quantized", "dense"};
  const Json* quantization = config.find("quantization_config");
  if (quantization == nullptr) return {};
  const bool unnamed = quantization->is_object() && find_member(*quantization, "quant_method") == nullptr &&
                       (find_member(*quantization, "load_in_4bit") != nullptr ||
                        find_member(*quantization, "load_in_8bit") != nullptr);
  LITHE_ASSIGN_OR_RETURN(const std::string method,
                         config.text("quantization_config.quant_method", unnamed ? "bitsandbytes" : ""));
  if (!method.empty() && std::ranges::find(kMethods, method) == kMethods.end()) {
    return unsupported(
        "config.json: weights quantised by {} do not run ({} do): take the model it was made of, or a GGUF "
        "version",
        in_quotes(method), fmt::join(kMethods, ", "));
  }
  LITHE_ASSIGN_OR_RETURN(const std::string format, config.text("quantization_config.format", "dense"));
  if (method == "compressed-tensors" && std::ranges::find(kFormats, format) == kFormats.end())
    return unsupported("config.json: weights of compressed-tensors in the format {} do not run ({} do)",
                       in_quotes(format), fmt::join(kFormats, ", "));
  return {};
}

Status check_direction(HfConfig& config, bool causal) {
  if (!causal) return config.translate({{"", "is_decoder", KeyKind::boolean, "false"}});
  return config.translate({{"", "is_causal", KeyKind::boolean, "true"},
                           {"", "use_bidirectional_attention", KeyKind::boolean, "false"},
                           {"", "is_encoder_decoder", KeyKind::boolean, "false"}});
}

Status import_sentence_parts(const std::filesystem::path& folder, HfConfig& config) {
  if (config.has("pooling_type")) return {};
  LITHE_ASSIGN_OR_RETURN(const std::string place, find_pooling(folder));
  LITHE_ASSIGN_OR_RETURN(const Json json, read_json(folder / place / "config.json"));
  if (!json.is_object()) return json.is_null() ? Status() : corrupt("{}/config.json is no object", place);
  const auto mode = pooling_of(json);
  if (!mode.ok()) return Status(mode.status()).with_context(place + "/config.json");
  if (mode->empty()) return {};
  for (const auto& [name, pooling] : kModes) {
    if (*mode != name) continue;
    config.add("pooling_type", static_cast<std::uint32_t>(pooling));
    return {};
  }
  return unsupported("{}/config.json: pooling by {} does not run (mean, cls and lasttoken do)", place,
                     in_quotes(*mode));
}

std::vector<HfFile> sentence_parts(Pooling pooling, std::int64_t hidden) {
  const auto mode = std::ranges::find(kModes, pooling, [](const auto& each) { return each.second; });
  if (mode == kModes.end()) return {};
  const auto module = [](int index, std::string_view path, std::string_view kind) {
    return Json{{"idx", index},
                {"name", std::to_string(index)},
                {"path", path},
                {"type", fmt::format("sentence_transformers.models.{}", kind)}};
  };
  const Json modules = Json::array({module(0, "", "Transformer"), module(1, kUsualFolder, "Pooling")});
  const auto flag = [&](std::string_view name) { return mode->first == name; };
  const Json settings{
      {"word_embedding_dimension", hidden},        {"pooling_mode_cls_token", flag("cls")},
      {"pooling_mode_mean_tokens", flag("mean")},  {"pooling_mode_lasttoken", flag("lasttoken")},
      {"pooling_mode_max_tokens", false},          {"pooling_mode_mean_sqrt_len_tokens", false},
      {"pooling_mode_weightedmean_tokens", false}, {"include_prompt", true}};
  return {{"modules.json", modules.dump(2) + "\n"},
          {std::string(kUsualFolder) + "/config.json", settings.dump(2) + "\n"}};
}

}  // namespace lithe::models
