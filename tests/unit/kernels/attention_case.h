// Random attention problems over scattered pages, and their answer in f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/attention_reference.h"
#include "kernels/kernel_table.h"

namespace lithe::kernels {

struct AttentionShape {
  DType dtype = DType::f16;
  int kv_heads = 2, group = 1, key_dim = 64, value_dim = 64;
  std::int64_t tokens = 300;
  bool causal = true;
  std::int64_t window = 0;
  float soft_cap = 0;
  bool sinks = false;
  float shift = 0;  // added to every score
  bool f32_arithmetic = true;
  bool latent = false;

  std::string text() const {
    const char* name = dtype == DType::f32 ? "f32" : dtype == DType::f16 ? "f16" : "q8_0";
    return std::string(name) + " kv_heads " + std::to_string(kv_heads) + " group " + std::to_string(group) +
           " dims " + std::to_string(key_dim) + "/" + std::to_string(value_dim) + " tokens " +
           std::to_string(tokens) + (causal ? "" : " bidirectional") + " window " + std::to_string(window) +
           " cap " + std::to_string(soft_cap) + (sinks ? " sinks" : "") + (latent ? " latent" : "") +
           " shift " + std::to_string(shift);
  }
};

class AttentionCase {
 public:
  AttentionCase(const AttentionShape& wanted, std::uint64_t seed) : shape(wanted), rng_(seed) {
    const int q_heads = shape.kv_heads * shape.group;
    q_stride = q_heads * shape.key_dim + 3;  // odd: nothing may rely on alignment
    out_stride = q_heads * shape.value_dim + 5;
    k_stride = shape.kv_heads * shape.key_dim + 1;
    v_stride = shape.kv_heads * shape.value_dim + 2;
    fill(q, shape.tokens * q_stride);
    fill(k, shape.tokens * k_stride);
    fill(v, shape.tokens * v_stride);
    if (shape.shift != 0) {  // one channel that is 1 in every key makes a constant part of every score
      for (std::int64_t t = 0; t < shape.tokens; ++t) {
        for (int h = 0; h < shape.kv_heads; ++h) k[index(t * k_stride + h * shape.key_dim)] = 1;
        for (int h = 0; h < q_heads; ++h) q[index(t * q_stride + h * shape.key_dim)] = shape.shift / scale();
      }
    }
    fill(sinks, q_heads);
    scatter();
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape.key_dim)); }

  KvView view() {
    KvView kv;
    kv.shape = {shape.dtype, shape.kv_heads, shape.key_dim, shape.value_dim, shape.latent};
    kv.page_stride = page_stride;
    kv.base = pool.data() + page_offset;
    kv.table = table.data();
    return kv;
  }

  /// New places for all pages, every byte of them 0xff: NaN as f32 and as f16.
  void scatter() {
    const KvShape kv{shape.dtype, shape.kv_heads, shape.key_dim, shape.value_dim, shape.latent};
    const std::int64_t pages = (shape.tokens + kPageTokens - 1) / kPageTokens;
    page_offset = 64;
    page_stride = kv_layer_bytes(kv) + 128;
    pool.assign(static_cast<std::size_t>(2 * pages) * page_stride + page_offset, std::byte{0xff});
    std::vector<std::int32_t> all(static_cast<std::size_t>(2 * pages));
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[rng_.next_u64() % i]);
    table.assign(all.begin(), all.begin() + pages);
  }

  void store(const KernelTable& kernels, std::int64_t position, std::int64_t count) {
    kernels.attention.store(view(), k.data() + position * k_stride, k_stride, v.data() + position * v_stride,
                            v_stride, position, count);
  }

  /// Rows [begin, end) asking the first `keys` keys; results go to out, which must hold every row.
  AttentionJob job(std::int64_t begin, std::int64_t end, std::int64_t keys, std::vector<float>& out) {
    AttentionJob job;
    job.kv = view();
    job.q = q.data() + begin * q_stride;
    job.q_stride = q_stride;
    job.out = out.data() + begin * out_stride;
    job.out_stride = out_stride;
    job.q_heads = shape.kv_heads * shape.group;
    job.rows = end - begin;
    job.first_position = begin;
    job.key_count = keys;
    job.causal = shape.causal;
    job.window = shape.window;
    job.scale = scale();
    job.soft_cap = shape.soft_cap;
    job.f32_arithmetic = shape.f32_arithmetic;
    job.sinks = shape.sinks ? sinks.data() : nullptr;
    return job;
  }
  std::vector<float> blank() const {
    return std::vector<float>(static_cast<std::size_t>(shape.tokens * out_stride), -7.0f);
  }

  /// The answer in f64 from the keys and values as stored, for the first and last rows and every fifth between
  /// (f64 loops are slow); NaN for the others.
  std::vector<double> exact() {
    std::vector<double> out(static_cast<std::size_t>(shape.tokens * out_stride),
                            std::numeric_limits<double>::quiet_NaN());
    std::vector<float> keys(index(shape.tokens * shape.key_dim)),
        values(index(shape.tokens * shape.value_dim));
    std::vector<float> scratch = blank();
    const AttentionJob all = job(0, shape.tokens, shape.tokens, scratch);
    for (int head = 0; head < all.q_heads; ++head) {
      for (std::int64_t t = 0; t < shape.tokens; ++t) {
        load_key(all.kv, head / shape.group, t, keys.data() + t * shape.key_dim);
        load_value(all.kv, head / shape.group, t, values.data() + t * shape.value_dim);
      }
      for (std::int64_t row = 0; row < shape.tokens; row += row < 20 || row > shape.tokens - 20 ? 1 : 5) {
        exact_line(all, head, row, keys, values, out.data() + row * out_stride + head * shape.value_dim);
      }
    }
    return out;
  }

  AttentionShape shape;
  std::vector<float> q, k, v, sinks;
  std::int64_t q_stride, out_stride, k_stride, v_stride;
  std::vector<std::byte> pool;
  std::vector<std::int32_t> table;
  std::size_t page_offset = 0, page_stride = 0;

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

  void fill(std::vector<float>& x, std::int64_t n) {
    x.resize(index(n));
    for (float& value : x) value = static_cast<float>(rng_.normal());
  }

  void exact_line(const AttentionJob& all, int head, std::int64_t row, const std::vector<float>& keys,
                  const std::vector<float>& values, double* out) const {
    const KeyRange seen = visible_keys(all, row);
    const float* query = q.data() + row * q_stride + head * shape.key_dim;
    std::vector<double> scores;
    double max =
        shape.sinks ? static_cast<double>(sinks[index(head)]) : -std::numeric_limits<double>::infinity();
    for (std::int64_t j = seen.begin; j < seen.end; ++j) {
      double score = 0;
      for (int i = 0; i < shape.key_dim; ++i) {
        score += static_cast<double>(query[i]) * static_cast<double>(keys[index(j * shape.key_dim + i)]);
      }
      score *= static_cast<double>(scale());
      const auto cap = static_cast<double>(shape.soft_cap);
      if (cap > 0) score = cap * std::tanh(score / cap);
      scores.push_back(score);
      max = std::max(max, score);
    }
    double sum = shape.sinks ? std::exp(static_cast<double>(sinks[index(head)]) - max) : 0;
    for (double& score : scores) sum += score = std::exp(score - max);
    for (int i = 0; i < shape.value_dim; ++i) {
      double total = 0;
      for (std::int64_t j = seen.begin; j < seen.end; ++j) {
        total += scores[index(j - seen.begin)] * static_cast<double>(values[index(j * shape.value_dim + i)]);
      }
      out[i] = sum > 0 ? total / sum : 0;
    }
  }

  Rng rng_;
};

/// Scratch of exactly the size a kernel asked for, aligned to 64 bytes and full of NaN.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : memory_(bytes + 64, std::byte{0xff}), bytes_(bytes) {}
  std::span<std::byte> span() {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    return {memory_.data() + (64 - at % 64) % 64, bytes_};
  }

 private:
  std::vector<std::byte> memory_;
  std::size_t bytes_;
};

inline std::vector<AttentionShape> attention_shapes() {
  std::vector<AttentionShape> shapes;
  const int dims[][2] = {{64, 64}, {80, 80}, {96, 96}, {128, 128}, {40, 40}, {33, 17}, {64, 48}, {7, 5}};
  const int groups[] = {1, 3, 4};
  const std::int64_t tokens[] = {300, 1, 257, 32, 520, 31};
  const std::int64_t windows[] = {0, 1, 5, 0, 100000, 40, 0};
  int i = 0;
  for (const DType dtype : {DType::f32, DType::f16, DType::q8_0}) {
    for (const auto& dim : dims) {
      for (const int group : groups) {
        AttentionShape shape;
        shape.dtype = dtype;
        shape.group = group;
        shape.kv_heads = 1 + i % 2;
        shape.key_dim = dim[0];
        shape.value_dim = dim[1];
        shape.tokens = tokens[i % 6];
        shape.window = windows[i % 7];
        shape.soft_cap = i % 5 == 3 ? 20.0f : 0.0f;
        shape.sinks = i % 4 == 2;
        shape.causal = i % 9 != 8;
        shapes.push_back(shape);
        ++i;
      }
    }
  }
  // Values that are channels of the keys.
  const int latent_dims[][2] = {{40, 32}, {27, 19}, {72, 64}, {33, 33}, {16, 1}};
  for (const DType dtype : {DType::f32, DType::f16, DType::q8_0}) {
    for (const auto& dim : latent_dims) {
      AttentionShape shape;
      shape.dtype = dtype;
      shape.latent = true;
      shape.kv_heads = 1 + i % 5 / 4;
      shape.group = groups[i % 3] * 4;
      shape.key_dim = dim[0];
      shape.value_dim = dim[1];
      shape.tokens = tokens[i % 6];
      shape.window = windows[i % 7];
      shape.causal = i % 4 != 3;
      shapes.push_back(shape);
      ++i;
    }
  }
  // A group larger than a register tile and one larger than a flash tile.
  for (const int group : {14, 200}) {
    AttentionShape shape;
    shape.group = group;
    shape.kv_heads = 1;
    shape.tokens = group == 200 ? 40 : 290;
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace lithe::kernels
