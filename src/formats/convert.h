// From one GGUF file to another of a given type: which tensor gets which type, and the work itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "formats/gguf.h"

namespace lithe::formats {

/// What happens to one tensor.
struct PlannedTensor {
  const GgufTensor* source = nullptr;
  const GgufType* type = nullptr;    // of the output
  const GgufType* wanted = nullptr;  // the type that its rows do not divide into, if `type` stands in for it
  std::uint64_t bytes = 0;           // of the output
  bool copied = false;               // same type: its bytes go over as they are

  bool requantised() const { return !copied && source->format != nullptr && source->format->quantized(); }
};

struct ConversionPlan {
  DType target = DType::f32;
  std::vector<PlannedTensor> tensors;  // in the order of the source, the shards of a split joined
  std::uint64_t bytes = 0;             // of all tensors' data
  std::uint64_t elements = 0;

  double bits_per_weight() const {
    return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
  }
};

/// Chooses a type for each tensor as users of llama.cpp expect it.
/// * Vectors, norms, routers and other small or delicate tensors keep the type they have.
/// * The others get `target`. For a quantised target, unless `pure`, the output head (or the embedding it is tied to)
///   gets Q6_K, or Q8_0 where that is the target or its rows do not divide into the target's blocks.
/// * Where the target's block does not divide the row, BlockFormat::fallback.
/// unsupported: a tensor that must be converted has a type Lithe does not decode.
/// The plan borrows the file's tensors.
Result<ConversionPlan> plan_conversion(const ModelFile& file, DType target, bool pure);

/// Called after each piece of work with the bytes of the source done since the last call and the tensor's name, from
/// one thread. Returning false cancels the conversion.
using ConvertProgress = FunctionRef<bool(std::uint64_t source_bytes, std::string_view tensor)>;

/// Carries a plan out. `output` appears whole or not at all. Metadata goes over byte for byte, apart from the file type
/// and what described the source's split and alignment. Same bytes whatever the number of threads.
/// corrupt: a value that is not finite, or too large for the output's type, with its tensor, row and column.
Status convert(const ModelFile& file, const ConversionPlan& plan, const std::filesystem::path& output,
               ThreadPool& pool, ConvertProgress progress);

}  // namespace lithe::formats
