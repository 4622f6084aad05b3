// One forward pass for every described decoder: the weights as bound from a file, and the walk of a batch
// through them. Promise 1 rests here on three habits: rows never meet except in attention, work is cut only
// where kernels promise equal bits, and keys and values are read back as the cache stores them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "layers/attention.h"
#include "layers/context.h"
#include "layers/ffn.h"
#include "layers/linear.h"
#include "layers/mamba.h"
#include "layers/moe.h"
#include "layers/norm.h"
#include "layers/rope.h"
#include "models/arch_spec.h"
#include "models/batch.h"

namespace lithe::models {

/// See LatentSpec. With them q reads the short vector of the query.
struct LatentWeights {
  layers::Linear q_down;                     // [query_rank, hidden], or none
  layers::Norm q_norm, norm;                 // of the two short vectors
  layers::Linear down;                       // [rank + rope_dim, hidden]
  std::vector<layers::Linear> keys, values;  // a head each: [rank, plain_dim] and [value_dim, rank]

  explicit operator bool() const { return static_cast<bool>(down); }
};

struct DecoderLayer {
  layers::Norm attn_norm, attn_post_norm, q_norm, k_norm, ffn_norm, ffn_post_norm;  // empty: none
  layers::Linear q, k, v, attn_out;
  LatentWeights latent;      // instead of k and v
  layers::Mamba mamba;       // instead of attention
  std::vector<float> sinks;  // [heads], or empty
  layers::Ffn ffn;
  layers::Moe moe;  // or this

  /// All its matrices that multiply; of a mixture those of every expert.
  std::vector<const layers::Linear*> linears() const;
};

/// Everything that a forward pass reads. The packed bytes lie in `memory`, in the order they are read.
struct DecoderWeights {
  layers::WeightMemory memory;
  layers::Linear embedding, position_embedding;  // the latter only where positions are learned
  std::vector<float> token_types;                // [types, hidden], or empty
  layers::Norm embedding_norm;                   // or empty
  std::vector<DecoderLayer> layers;
  layers::Norm output_norm;
  layers::Linear cls,
      cls_out;  // of an encoder's classification head: [hidden, hidden] or none, [labels, hidden]
  layers::Norm cls_norm;
  layers::Linear head;  // shares the embedding's bytes when tied

  /// All matrices that multiply, in the order of their ids.
  std::vector<const layers::Linear*> linears() const;
};

/// How keys and values of all layers lie in a page, and the states of recurrent layers beside the pages.
class CacheLayout {
 public:
  CacheLayout() = default;
  CacheLayout(const ArchSpec& spec, DType dtype);
  std::size_t page_bytes() const { return page_bytes_; }
  const kernels::KvShape& shape(std::size_t layer) const { return shapes_[layer]; }
  std::size_t offset(std::size_t layer) const { return offsets_[layer]; }
  std::size_t state_floats() const { return state_floats_; }  // of a sequence
  std::size_t state_offset(std::size_t layer) const { return state_offsets_[layer]; }

 private:
  std::vector<kernels::KvShape> shapes_;
  std::vector<std::size_t> offsets_;
  std::size_t page_bytes_ = 0;
  std::vector<std::size_t> state_offsets_;  // in floats
  std::size_t state_floats_ = 0;
};

class Decoder {
 public:
  Decoder(ArchSpec spec, DecoderWeights weights, layers::AttentionMode attention, DType kv_dtype,
          ThreadPool& pool, const kernels::KernelTable& kernels);

  const ArchSpec& spec() const { return spec_; }
  const DecoderWeights& weights() const { return weights_; }
  const CacheLayout& cache_layout() const { return kv_; }
  layers::ExecContext& context() { return context_; }
  const layers::ExecContext& context() const { return context_; }

  /// See Model::scratch_bytes and Model::reserve.
  std::uint64_t scratch_bytes(const StepShape& step) const;
  Status reserve(const StepShape& step);

  /// See Model::forward.
  Status forward(const Batch& batch, std::span<float> logits);
  /// See Model::encode and Model::classify.
  Status encode(const Batch& batch, std::span<float> rows);
  void classify(std::span<const float> row, std::span<float> scores);

 private:
  struct Tile;
  struct Run;
  struct Pass;
  layers::ScratchNeed scratch_need(const StepShape& step) const;
  Status check(const Batch& batch) const;
  void run_layers(Pass& pass);
  void begin(Pass& pass);
  void embed(Pass& pass);
  void run_layer(Pass& pass, std::size_t index);
  void attend(Pass& pass, std::size_t index, float* branch);
  void mix(Pass& pass, std::size_t index, float* branch);
  void attend_latent(Pass& pass, std::size_t index, float* branch);
  void ask_cache(Pass& pass, std::size_t index, const float* q, std::int64_t q_stride, float* out,
                 std::int64_t out_stride);
  void store(const Pass& pass, std::size_t index, FunctionRef<void(std::int64_t row)> prepare, const float* k,
             std::int64_t k_stride, const float* v, std::int64_t v_stride);
  bool narrows(const Pass& pass, std::size_t index) const;
  static int job_heads(const LayerSpec& shape);
  kernels::KvView view(const Pass& pass, std::size_t index, std::size_t sequence) const;
  void feed(Pass& pass, std::size_t index, float* branch);
  void join(Pass& pass, const float* branch, const layers::Norm& post, Residual residual);
  bool joins_directly(const LayerSpec& shape) const;
  void keep_wanted_rows(Pass& pass);
  void compute_logits(Pass& pass, std::span<float> logits);

  ArchSpec spec_;
  DecoderWeights weights_;
  layers::AttentionMode attention_;
  CacheLayout kv_;
  std::vector<layers::RopeTable> ropes_;
  layers::ExecContext context_;
};

}  // namespace lithe::models
