// The families of models that Lithe runs, in one explicit table. A family is a description: parameters to
// ArchSpec, and which tensors it has. docs/adding-a-model.md walks through a new one.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "models/arch_spec.h"
#include "models/hf/config.h"
#include "models/parameters.h"
#include "models/weight_table.h"

namespace lithe::models {

struct Family {
  std::string_view name;                               // general.architecture
  std::span<const std::string_view> hf_architectures;  // "LlamaForCausalLM", ...
  /// Everything but the vocabulary's size and the rope divisors, which the tensors tell.
  Result<ArchSpec> (*describe)(const Parameters& parameters);
  WeightTable (*weights)(const ArchSpec& spec);
  /// What config.json says, as the parameters that describe() reads.
  Status (*translate)(HfConfig& config);
};

std::span<const Family> families();
/// unsupported: names the architecture and those that are known.
Result<const Family*> find_family(std::string_view name);

/// The same by the name of a Transformers class.
Result<const Family*> find_hf_family(std::string_view architecture);

// One line per family; each lies in families/NAME.cpp.
extern const Family kBert, kModernBert, kNomicBert, kCohere2, kCommandR, kDeepseek, kDeepseek2, kFalcon,
    kGemma, kGemma2, kGemma3, kGlm4, kGpt2, kGptNeoX, kGptOss, kGranite, kGraniteHybrid, kGraniteMoe, kLlama,
    kMamba2, kOlmo2, kOlmoe, kPhi3, kQwen2, kQwen2Moe, kQwen3, kQwen3Moe, kSmolLm3, kStableLm, kStarcoder2;

}  // namespace lithe::models
