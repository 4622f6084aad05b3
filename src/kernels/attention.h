// Attention over a paged KV cache, and how the cache's pages lie in memory.
//
// A page holds kPageTokens tokens of one sequence, for all layers: page -> layer -> kv head -> keys, then
// values. Keys are interleaved by 16 like the rows of a packed matrix, so that a SIMD lane owns one key and
// walks head_dim in order; values are rows. Scores, softmax and the weighted sum therefore have an order
// fixed by the key's position:
//   * a query's keys are cut into blocks of kKeyBlock at fixed absolute positions;
//   * each block gives (max, sum, unnormalised output) on its own, relative to its own max;
//   * blocks are merged in ascending order.
// Decode may compute blocks on several threads and prefill many rows at once: the bits are the same (promise
// 1). A query reads keys and values as stored (rounded to the cache's type, and for integer products to codes with a scale
// of each row's own), those of its own chunk too.
// Sources: FlashAttention-2 (2307.08691) alg. 1; Flash-decoding (Dao et al. 2023); Rabe & Staats
// (2112.05682); PagedAttention (2309.06180).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/block_format.h"

namespace lithe::kernels {

inline constexpr int kPageTokens = 32;  // tokens per page
inline constexpr int kKeyBlock = 256;   // keys per softmax block, a multiple of kPageTokens

/// One layer's keys and values.
struct KvShape {
  DType dtype = DType::f16;  // f32, f16 or q8_0
  int kv_heads = 0;
  int key_dim = 0;    // head_dim of keys and queries
  int value_dim = 0;  // head_dim of values
  /// Latent attention: a token's value is the first value_dim channels of its key, so pages hold keys alone.
  bool latent = false;
};
/// Bytes of one layer in one page, a multiple of 64.
std::size_t kv_layer_bytes(const KvShape& shape);

/// One layer of one sequence: page i of the sequence lies at base + table[i] * page_stride.
struct KvView {
  KvShape shape;
  std::byte* base = nullptr;            // already at this layer
  std::size_t page_stride = 0;          // bytes between pages of the pool
  const std::int32_t* table = nullptr;  // [ceil(length / kPageTokens)]
};

/// Rows of one sequence asking the same cache.
struct AttentionJob {
  KvView kv;
  const float* q = nullptr;  // [rows, q_stride], head h at h * key_dim; rope already applied
  float* out = nullptr;      // [rows, out_stride], head h at h * value_dim
  std::int64_t q_stride = 0, out_stride = 0;
  int q_heads = 0;  // multiple of kv_heads; heads of a group share a kv head
  std::int64_t rows = 0;
  std::int64_t first_position = 0;  // of row 0; row r sees keys [0, first_position + r] when causal
  std::int64_t key_count = 0;       // keys in the cache, those of these rows included
  bool causal = true;
  std::int64_t window =
      0;  // > 0: row at p sees only keys j with p - window < j, and j < p + window when not causal
  float scale = 1.0f;            // on q.k
  float soft_cap = 0.0f;         // > 0: s = cap * tanh(s / cap)
  const float* sinks = nullptr;  // [q_heads] extra logits without a value, or null
  /// On a table with integer tiles: decode f16 and q8_0 pages and multiply in f32 all the same, instead of rounding
  /// queries to 8 bits and weights to 16 (q8_0), or queries, keys, values and weights to 13 to 15 bits (f16).
  /// --precision f32. f32 pages always use f32.
  bool f32_arithmetic = false;
};

/// The keys that row `row` of a job sees: [begin, end), empty when begin == end.
struct KeyRange {
  std::int64_t begin = 0, end = 0;
};
inline KeyRange visible_keys(const AttentionJob& job, std::int64_t row) {
  const std::int64_t position = job.first_position + row;
  KeyRange keys{0, job.key_count};
  if (job.causal && position + 1 < keys.end) keys.end = position + 1;
  if (job.window > 0 && position - job.window + 1 > 0) keys.begin = position - job.window + 1;
  if (job.window > 0 && !job.causal && position + job.window < keys.end) keys.end = position + job.window;
  if (keys.begin > keys.end) keys.begin = keys.end;
  return keys;
}

struct AttentionKernels {
  /// Stores keys and values of tokens [position, position + count) into their pages.
  /// k: [count, k_stride] with kv head h at h * key_dim; v likewise with value_dim, and not read if the shape is latent.
  void (*store)(const KvView& kv, const float* k, std::int64_t k_stride, const float* v,
                std::int64_t v_stride, std::int64_t position, std::int64_t count);

  std::size_t (*scratch_bytes)(const KvShape& shape, int q_heads);
  /// All query heads of kv head `kv_head` for rows [row_begin, row_end): flash, blocks in order.
  void (*flash)(const AttentionJob& job, int kv_head, std::int64_t row_begin, std::int64_t row_end,
                std::span<std::byte> scratch);
  /// Flash-decoding: key block `block` (keys from block * kKeyBlock on) alone, for rows [row_begin, row_end)
  /// and all query heads of `kv_head`. partials: [rows][q_heads / kv_heads][2 + value_dim] = max, sum,
  /// output; max is -inf when the row sees no key of the block.
  void (*partial)(const AttentionJob& job, int kv_head, std::int64_t row_begin, std::int64_t row_end,
                  std::int64_t block, float* partials, std::span<std::byte> scratch);
  /// Merges the partials of `blocks` blocks, in ascending order and `stride` floats apart, into job.out: the
  /// same bits as flash() when every block with a visible key is among them.
  void (*merge)(const AttentionJob& job, int kv_head, std::int64_t row_begin, std::int64_t row_end,
                std::int64_t blocks, const float* partials, std::int64_t stride);

  /// The measured alternatives. naive: all scores of a head at once, [rows, key_count] floats of scratch;
  /// chunked (Rabe & Staats): query chunks of 64 and big key chunks. Always in f32: flash's result
  /// within its rounding, not its bits.
  std::size_t (*naive_scratch_bytes)(const AttentionJob& job);
  void (*naive)(const AttentionJob& job, int q_head, std::span<std::byte> scratch);
  std::size_t (*chunked_scratch_bytes)(const AttentionJob& job);
  void (*chunked)(const AttentionJob& job, int q_head, std::span<std::byte> scratch);
};

}  // namespace lithe::kernels
