// What inspect knows about a file: the model it describes, whether Lithe runs it, and the memory it would take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/model_file.h"
#include "models/arch_spec.h"
#include "tensor_table.h"

namespace lithe::app {

struct VocabularyFacts {
  std::string model, pre;
  std::uint64_t tokens = 0, merges = 0;
  std::optional<std::uint64_t> bos, eos;
};

struct ModelFacts {
  std::string architecture, name;        // empty: the file does not say
  std::optional<models::ArchSpec> spec;  // nothing: see problems
  std::optional<VocabularyFacts> vocabulary;
  std::uint64_t chat_template_bytes = 0;
  std::vector<TypeRow> types;             // tensors by type
  std::uint64_t elements = 0, bytes = 0;  // of all tensors
  std::vector<std::string>
      problems;  // why Lithe does not run it; empty: it does, as far as can be told unloaded

  std::vector<std::string> notes;  // what is odd about it and does not keep it from running

  double bits_per_weight() const { return elements == 0 ? 0.0 : 8.0 * double(bytes) / double(elements); }
};

/// Never fails: what is missing or not understood becomes a problem.
ModelFacts gather_facts(const formats::ModelFile& file);

/// Bytes of a running model. Weights and keys and values are exact; scratch is an estimate of a step's activations.
struct MemoryNeed {
  std::uint64_t weights = 0, kv_cache = 0, kv_per_token = 0, scratch = 0;
  std::uint64_t total() const { return weights + kv_cache + scratch; }
};

/// ctx: tokens of context in the cache; batch: tokens in one step. exhausted: the sizes overflow.
Result<MemoryNeed> memory_need(const formats::ModelFile& file, const models::ArchSpec& spec,
                               std::uint64_t ctx, std::uint64_t batch, DType kv_type);

}  // namespace lithe::app
