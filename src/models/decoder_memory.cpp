// What a step takes of scratch, priced before it is run. Follows decoder.cpp and layers/ allocation by allocation; the test
// "ScratchIsPriced" compares it with what passes really take.
#include <algorithm>

#include "base/checked.h"
#include "layers/prepared.h"
#include "models/decoder.h"

namespace lithe::models {
namespace {

using layers::prepared_bytes;
using layers::ScratchNeed;

// Each allocation of an arena begins at a cache line.
constexpr std::uint64_t kRounding = 32 * layers::kCacheLine;

std::uint64_t floats(std::int64_t rows, std::int64_t width) {
  return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(width) * sizeof(float);
}

ScratchNeed feed_scratch(const kernels::KernelTable& table, const DecoderLayer& layer, std::int64_t rows) {
  if (layer.moe) return layer.moe.scratch(table, rows);
  const std::int64_t width = layer.ffn.up.out_features();
  return {floats(rows, layer.ffn.gate ? 2 * width : width) +
              std::max(prepared_bytes(table, rows, {&layer.ffn.gate, &layer.ffn.up}),
                       prepared_bytes(table, rows, {&layer.ffn.down})),
          floats(1, width)};
}

// What the matrices of latent attention read.
std::uint64_t latent_inputs(const kernels::KernelTable& table, const DecoderLayer& layer, std::int64_t rows) {
  const LatentWeights& latent = layer.latent;
  if (!latent) return 0;
  const std::int64_t all = rows * std::ssize(latent.keys);
  return std::max({prepared_bytes(table, rows, {&latent.q_down, &latent.down, &layer.q}),
                   prepared_bytes(table, rows, {&layer.q}),
                   prepared_bytes(table, all, {&latent.keys.front()}),
                   prepared_bytes(table, all, {&latent.values.front()})});
}

}  // namespace

ScratchNeed Decoder::scratch_need(const StepShape& step) const {
  const kernels::KernelTable& table = context_.kernels();
  ScratchNeed need{0, std::max(layers::ExecContext::kLeastWorkerScratch, table.matmul_scratch_bytes())};
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    const DecoderLayer& layer = weights_.layers[i];
    const LayerSpec& shape = spec_.layers[i];
    const std::uint64_t branch = joins_directly(shape) ? 0 : floats(step.rows, spec_.hidden);
    const LatentSpec& latent = shape.latent;
    const std::int64_t heads_rows = step.rows * shape.heads;
    const std::uint64_t moved =
        layer.latent ? floats(step.rows, latent.query_rank + shape.head_dim) +
                           floats(heads_rows, 2 * latent.rank + shape.head_dim + latent.value_dim)
                     : 0;
    const std::uint64_t kept = branch + moved +
                               floats(step.rows, layer.q.out_features() + layer.k.out_features() +
                                                     layer.v.out_features() + layer.attn_out.in_features());
    if (layer.mamba) {
      const ScratchNeed mixer = layer.mamba.scratch(table, step.rows);
      const bool feeds = layer.moe || layer.ffn.up;
      const ScratchNeed ffn = feeds ? feed_scratch(table, layer, step.rows) : ScratchNeed{};
      need.arena = std::max(need.arena, branch + std::max(mixer.arena, ffn.arena));
      need.per_worker = std::max({need.per_worker, mixer.per_worker, ffn.per_worker});
      continue;
    }
    kernels::AttentionJob job;
    job.kv.shape = kv_.shape(i);
    job.q_heads = job_heads(shape);
    job.rows = step.rows;
    job.key_count = std::max(step.keys, step.rows);
    job.first_position = job.key_count - job.rows;
    ScratchNeed attention = layers::attention_scratch(context_, attention_, job);
    attention.arena *= static_cast<std::uint64_t>(ceil_div(shape.heads, job.q_heads));
    const ScratchNeed ffn = feed_scratch(table, layer, step.rows);
    const std::uint64_t passing =
        std::max({prepared_bytes(table, step.rows, {&layer.q, &layer.k, &layer.v}),
                  prepared_bytes(table, step.rows, {&layer.attn_out}), latent_inputs(table, layer, step.rows),
                  attention.arena, ffn.arena});
    need.arena = std::max(need.arena, kept + passing);
    need.per_worker = std::max(
        {need.per_worker, attention.per_worker, ffn.per_worker, floats(1, layer.attn_out.in_features())});
  }
  need.arena = std::max(need.arena, prepared_bytes(table, step.logit_rows, {&weights_.head}));
  need.arena += floats(step.rows, spec_.hidden) + kRounding;
  need.per_worker = std::max(need.per_worker, floats(1, spec_.hidden));
  return need;
}

std::uint64_t Decoder::scratch_bytes(const StepShape& step) const {
  const ScratchNeed need = scratch_need(step);
  std::uint64_t tables = 0;
  for (const RopeSpec& rope : spec_.ropes) tables += floats(2 * step.keys, rope.dim / 2);
  return need.arena + need.per_worker * static_cast<std::uint64_t>(context_.threads()) + tables +
         floats(step.logit_rows, spec_.vocab);
}

Status Decoder::reserve(const StepShape& step) {
  return context_.reserve(scratch_need(step));
}

}  // namespace lithe::models
