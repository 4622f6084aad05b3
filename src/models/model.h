// A model ready to run: its description, its packed weights, one forward pass.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "formats/model_file.h"
#include "kernels/kernel_table.h"
#include "layers/attention.h"
#include "layers/context.h"
#include "layers/linear.h"
#include "models/arch_spec.h"
#include "models/batch.h"

namespace lithe::models {

enum class Precision : std::uint8_t { automatic, f32 };  // f32: full-fidelity activations
using layers::AttentionMode;                             // flash, naive, chunked

struct ModelOptions {
  Precision precision = Precision::automatic;
  AttentionMode attention = AttentionMode::flash;
  DType kv_dtype = DType::f16;                    // f32, f16, q8_0
  const kernels::KernelTable* kernels = nullptr;  // null: the default of this machine
  bool check_tensors = false;                     // look for NaN and Inf while loading
  std::int64_t context = 0;                       // the length that a run may reach; 0: the trained one
};

/// Bytes by purpose, for `inspect`, `bench` and the log.
struct ModelMemory {
  std::uint64_t weights = 0;         // packed weights
  std::uint64_t kv_page = 0;         // one page of kernels::kPageTokens tokens, all layers
  std::uint64_t state = 0;           // of one sequence, beside its pages: recurrent layers
  std::uint64_t peak_attention = 0;  // largest attention scratch since the load or reset_peak_attention()
  std::uint64_t peak_scratch = 0;    // largest that passes took of the arena, and what workers hold
};

/// Not thread-safe: one forward() at a time. The pool must outlive it.
class Model {
 public:
  /// Errors name the parameter or tensor. Unused tensors are a warning with their names.
  static Result<Model> load(const formats::ModelFile& file, const ModelOptions& options, ThreadPool& pool);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const ArchSpec& spec() const;
  const ModelOptions& options() const;
  ModelMemory memory() const;
  void reset_peak_attention();
  /// Bytes of weights that a pass over `rows` tokens reads: the bandwidth floor of decode. Of a mixture the experts that
  /// so many tokens meet when each expert is as likely as the others.
  double pass_bytes(std::int64_t rows) const;
  /// Multiply-adds per token in the layers / in the head: the arithmetic floor of prefill. Of a mixture those of the experts
  /// that a token meets.
  std::uint64_t layer_macs() const;
  std::uint64_t head_macs() const;
  /// Of layer_macs(), those that only tokens whose logits are wanted take: the last layer behind its keys and values.
  std::uint64_t last_macs() const;

  /// Every matrix that multiplies, in the order of Linear::id(): what an Observer's numbers mean.
  std::vector<const layers::Linear*> linears() const;
  /// Sees the activations of every forward() from now on; null: nobody. With an observer all rows go through
  /// the last layer, wanted or not.
  void set_observer(layers::Observer* observer);

  /// A page pool of this model's shape.
  Result<kvcache::PagePool> make_pool(std::int64_t tokens) const;

  /// Bytes that steps up to this size take beside the weights and the cache: activations, attention's scratch of all
  /// threads, positions' tables, logits.
  std::uint64_t scratch_bytes(const StepShape& step) const;
  /// Sets the scratch aside, untouched, so that no step has to find memory on its way. resource_exhausted.
  Status reserve(const StepShape& step);

  /// Runs the batch: stores keys and values, commits them to each cache, and writes
  /// logits: [batch.logit_rows.size(), spec().vocab]. invalid_argument: token id out of range;
  /// resource_exhausted: a step larger than any that was reserved for found no memory, and nothing was committed; of
  /// recurrent models the sequences stand at their beginning again.
  Status forward(const Batch& batch, std::span<float> logits);

  /// As forward(), for the rows that the layers give instead of their logits: [batch.logit_rows.size(), spec().hidden],
  /// through the last norm. An encoder's batch has whole texts and the bidirectional mask, and is committed as any other.
  Status encode(const Batch& batch, std::span<float> rows);
  /// The classification head on one row: [spec().hidden] -> [spec().labels].
  void classify(std::span<const float> row, std::span<float> scores);

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lithe::models
