#include "models/family.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"

namespace lithe::models {

// A function's static, not a namespace's: other files' constants may not be there yet when ours are made.
std::span<const Family> families() {
  static const std::array all{kLlama,      kQwen2,      kQwen3,         kCohere2,   kCommandR, kBert,
                              kModernBert, kNomicBert,  kDeepseek,      kDeepseek2, kFalcon,   kGemma,
                              kGemma2,     kGemma3,     kGlm4,          kGpt2,      kGptNeoX,  kGptOss,
                              kGranite,    kGraniteMoe, kGraniteHybrid, kMamba2,    kOlmo2,    kOlmoe,
                              kPhi3,       kQwen2Moe,   kQwen3Moe,      kSmolLm3,   kStableLm, kStarcoder2};
  return all;
}

namespace {

constexpr std::size_t kLongestName = 64;  // of a file's, as far as it is compared

// What tells names of classes apart: "LlamaForCausalLM" -> "Llama".
std::string_view stem(std::string_view name) {
  return name.substr(0, std::min(name.find("For"), kLongestName));
}

// "... the nearest that runs is 'qwen3'", or all of them where none is like it.
Status unknown(std::string_view name, const std::vector<std::string_view>& known) {
  std::vector<std::string_view> stems;
  stems.reserve(known.size());
  for (const std::string_view each : known) stems.push_back(stem(each));
  const std::string_view nearest = nearest_name(stem(name), stems);
  if (edit_distance(stem(name), nearest) * 2 <= nearest.size()) {
    const auto at = static_cast<std::size_t>(std::ranges::find(stems, nearest) - stems.begin());
    return unsupported("architecture {} is not one that Lithe runs: the nearest that runs is {}",
                       in_quotes(name), in_quotes(known[at]));
  }
  return unsupported("architecture {} is not one that Lithe runs (those are: {})", in_quotes(name),
                     fmt::join(known, ", "));
}

}  // namespace

Result<const Family*> find_family(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Family& family : families()) {
    if (family.name == name) return &family;
    known.push_back(family.name);
  }
  return unknown(name, known);
}

Result<const Family*> find_hf_family(std::string_view architecture) {
  std::vector<std::string_view> known;
  for (const Family& family : families()) {
    for (const std::string_view name : family.hf_architectures) {
      if (name == architecture) return &family;
      known.push_back(name);
    }
  }
  return unknown(architecture, known);
}

}  // namespace lithe::models
