#include "models/family.h"

#include <array>

namespace lithe::models {

// A function's static, not a namespace's: other files' constants may not be there yet when ours are made.
std::span<const Family> families() {
  static const std::array all{kLlama,    kQwen2,    kQwen3,      kCohere2,   kCommandR, kFalcon,
                              kGemma,    kGemma2,   kGemma3,     kGlm4,      kGpt2,     kGptNeoX,
                              kGptOss,   kGranite,  kGraniteMoe, kOlmo2,     kOlmoe,    kPhi3,
                              kQwen2Moe, kQwen3Moe, kSmolLm3,    kStarcoder2};
  return all;
}

Result<const Family*> find_family(std::string_view name) {
  std::string known;
  for (const Family& family : families()) {
    if (family.name == name) return &family;
    known += known.empty() ? "" : ", ";
    known += family.name;
  }
  return unsupported("architecture '{}' is not one that Lithe runs (those are: {})", name, known);
}

Result<const Family*> find_hf_family(std::string_view architecture) {
  std::string known;
  for (const Family& family : families()) {
    for (const std::string_view name : family.hf_architectures) {
      if (name == architecture) return &family;
      known += known.empty() ? "" : ", ";
      known += name;
    }
  }
  return unsupported("architecture {} is not one that Lithe runs (those are: {})", architecture, known);
}

}  // namespace lithe::models
