// From a parsed file to a described model with packed weights: every tensor found, shaped as the description
// says, and accounted for.
#pragma once

#include "base/status.h"
#include "base/thread_pool.h"
#include "formats/model_file.h"
#include "kernels/kernel_table.h"
#include "models/arch_spec.h"
#include "models/binding.h"
#include "models/decoder.h"
#include "models/family.h"

namespace lithe::models {

/// What a file's parameters and tensors are, before anything is packed.
struct DescribedModel {
  const Family* family = nullptr;
  ArchSpec spec;
  WeightTable table;
  Binding binding;  // of the table's rows
};
/// context: the length that a run may reach; 0: the trained one. Errors name the parameter or tensor.
Result<DescribedModel> describe_model(const formats::ModelFile& file, std::int64_t context = 0);

struct LoadOptions {
  bool full_precision = false;  // f32 activations everywhere
  bool check_tensors = false;   // refuse NaN and Inf
  std::int64_t context = 0;     // the length that a run may reach; 0: the trained one
};

struct LoadedModel {
  ArchSpec spec;
  DecoderWeights weights;
};

/// Packs with all threads and releases the file's pages behind. Errors name the parameter or tensor; unused
/// tensors are a warning with their names.
Result<LoadedModel> load_model(const formats::ModelFile& file, const LoadOptions& options,
                               const kernels::KernelTable& kernels, ThreadPool& pool);

}  // namespace lithe::models
