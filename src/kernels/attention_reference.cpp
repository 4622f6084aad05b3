#include "kernels/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/fill.h"
#include "kernels/kv_layout.h"
#include "tensor/half.h"

namespace lithe::kernels {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

void store_f16(std::byte* at, float value) {
  const std::uint16_t bits = f32_to_f16(value);
  std::memcpy(at, &bits, 2);
}
float load_f16(const std::byte* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, 2);
  return f16_to_f32(bits);
}

// A group's scale as stored: finite for any finite values, NaN if one is not.
float group_scale(const float* x, int count) {
  float largest = 0, fault = 0;
  for (int i = 0; i < count; ++i) {
    largest = std::max(largest, std::fabs(x[i]));
    fault += x[i] * 0.0f;
  }
  return f16_to_f32(f32_to_f16(fault == 0 ? std::min(largest / 127.0f, 65504.0f) : fault));
}
int encode(float x, float inverse_scale) {
  const float code = x * inverse_scale;
  return std::isnan(code) ? 0 : static_cast<int>(std::nearbyint(std::clamp(code, -127.0f, 127.0f)));
}

void store_key_q8(std::byte* panel, const KvLayout& layout, int lane, const float* k, int dim) {
  for (int group = 0; group < layout.key_groups; ++group) {
    const int begin = group * 32, end = std::min(begin + 32, dim);
    const float scale = group_scale(k + begin, end - begin), inverse = scale > 0 ? 1.0f / scale : 0.0f;
    for (int channel = begin; channel < (end + 3) / 4 * 4; ++channel) {
      const int code = channel < end ? encode(k[channel], inverse) : 0;
      panel[static_cast<std::size_t>(channel / 4) * 64 + static_cast<std::size_t>(lane * 4 + channel % 4)] =
          static_cast<std::byte>(code + 128);
    }
    store_f16(panel + layout.key_scales + static_cast<std::size_t>(group * kKeyLanes + lane) * 2, scale);
  }
}

void store_value_q8(std::byte* values, std::byte* scales, const KvLayout& layout, std::size_t token,
                    const float* v, int dim) {
  const float scale = group_scale(v, dim), inverse = scale > 0 ? 1.0f / scale : 0.0f;
  std::byte* codes = values + token / 4 * 4 * layout.value_row_bytes + token % 4;
  for (std::size_t channel = 0; channel < layout.value_row_bytes; ++channel) {
    const int code = channel < static_cast<std::size_t>(dim) ? encode(v[channel], inverse) : 0;
    codes[channel * 4] = static_cast<std::byte>(static_cast<std::int8_t>(code));
  }
  store_f16(scales + token * 2, scale);
}

void store_key(std::byte* panel, const KvShape& shape, const KvLayout& layout, int lane, const float* k) {
  if (shape.dtype == DType::q8_0) return store_key_q8(panel, layout, lane, k, shape.key_dim);
  for (int channel = 0; channel < shape.key_dim; ++channel) {
    const auto element = static_cast<std::size_t>(channel) * kKeyLanes + static_cast<std::size_t>(lane);
    if (shape.dtype == DType::f32) {
      std::memcpy(panel + element * 4, k + channel, 4);
    } else {
      store_f16(panel + element * 2, k[channel]);
    }
  }
}

// Channels [0, count) of one key.
void load_channels(const KvView& kv, int kv_head, std::int64_t position, int count, float* out) {
  const KvLayout layout(kv.shape);
  const auto token = static_cast<std::size_t>(position % kPageTokens), lane = token % kKeyLanes;
  const std::byte* panel =
      KvHead(kv, layout, kv_head).page(position / kPageTokens) + token / kKeyLanes * layout.key_panel_bytes;
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(count); ++channel) {
    switch (kv.shape.dtype) {
      case DType::f32:
        std::memcpy(out + channel, panel + (channel * kKeyLanes + lane) * 4, 4);
        break;
      case DType::f16:
        out[channel] = load_f16(panel + (channel * kKeyLanes + lane) * 2);
        break;
      default: {
        const int code = static_cast<int>(panel[channel / 4 * 64 + lane * 4 + channel % 4]) - 128;
        out[channel] = static_cast<float>(code) *
                       load_f16(panel + layout.key_scales + (channel / 32 * kKeyLanes + lane) * 2);
      }
    }
  }
}

void store_value(std::byte* page, const KvShape& shape, const KvLayout& layout, std::size_t token,
                 const float* v) {
  std::byte* values = page + layout.values;
  std::byte* row = values + token * layout.value_row_bytes;
  switch (shape.dtype) {
    case DType::q8_0:
      return store_value_q8(values, page + layout.value_scales, layout, token, v, shape.value_dim);
    case DType::f32:
      std::memcpy(row, v, layout.value_row_bytes);
      return;
    default:
      for (int channel = 0; channel < shape.value_dim; ++channel) {
        store_f16(row + static_cast<std::size_t>(channel) * 2, v[channel]);
      }
  }
}

// One query head of one row, seen from the loops below.
struct Line {
  const AttentionJob& job;
  int head, kv_head;
  const float* q;
  float* out;
};
Line line_of(const AttentionJob& job, int head, std::int64_t row) {
  return {job, head, head / (job.q_heads / job.kv.shape.kv_heads),
          job.q + row * job.q_stride + std::int64_t{head} * job.kv.shape.key_dim,
          job.out + row * job.out_stride + std::int64_t{head} * job.kv.shape.value_dim};
}

// scratch of every function below: a key, a value, then scores.
struct Scratch {
  float *key, *value, *state, *scores;
};
Scratch carve(std::span<std::byte> bytes, const KvShape& shape) {
  auto* at = reinterpret_cast<float*>(bytes.data());
  return {at, at + shape.key_dim, at + shape.key_dim + shape.value_dim,
          at + shape.key_dim + 2 * shape.value_dim + 2};
}
std::size_t scratch_with_scores(const KvShape& shape, std::int64_t scores) {
  return static_cast<std::size_t>(shape.key_dim + 2 * (shape.value_dim + 1) + scores) * sizeof(float);
}

// partial = [max, sum, output[value_dim]] of keys [begin, end), relative to their own max.
void attend(const Line& line, std::int64_t begin, std::int64_t end, float* partial, const Scratch& scratch) {
  const AttentionJob& job = line.job;
  const int key_dim = job.kv.shape.key_dim, value_dim = job.kv.shape.value_dim;
  float max = kMinusInfinity, sum = 0, *output = partial + 2;
  bool fault = false;
  for (std::int64_t j = begin; j < end; ++j) {
    load_key(job.kv, line.kv_head, j, scratch.key);
    float score = 0;
    for (int i = 0; i < key_dim; ++i) score += line.q[i] * scratch.key[i];
    score *= job.scale;
    if (job.soft_cap > 0) score = job.soft_cap * std::tanh(score / job.soft_cap);
    scratch.scores[j - begin] = score;
    max = std::max(max, score);  // drops NaN
    fault |= std::isnan(score);
  }
  if (fault && max == kMinusInfinity) max = 0;  // the sum becomes NaN
  std::fill(output, output + value_dim, 0.0f);
  for (std::int64_t j = begin; j < end; ++j) {
    const float p = std::exp(scratch.scores[j - begin] - max);
    load_value(job.kv, line.kv_head, j, scratch.value);
    for (int i = 0; i < value_dim; ++i) output[i] += p * scratch.value[i];
    sum += p;
  }
  partial[0] = max;
  partial[1] = sum;
}

// (max, sum, output) merged with part = [max, sum, output].
void merge_into(float& max, float& sum, float* output, const float* part, int value_dim) {
  if (part[0] == kMinusInfinity) return;
  const float higher = std::max(max, part[0]);
  const float old_factor = std::exp(max - higher), new_factor = std::exp(part[0] - higher);
  max = higher;
  sum = sum * old_factor + part[1] * new_factor;
  for (int i = 0; i < value_dim; ++i) output[i] = output[i] * old_factor + part[2 + i] * new_factor;
}
void merge_into(float* state, const float* part, int value_dim) {
  merge_into(state[0], state[1], state + 2, part, value_dim);
}

void clear_state(float* state, int value_dim) {
  std::fill(state, state + value_dim + 2, 0.0f);
  state[0] = kMinusInfinity;
}

// out = output / sum, the head's sink counted in; zeros when nothing was seen. output may be line.out.
void finish(const Line& line, float max, float sum, const float* output) {
  float factor = 1;
  if (line.job.sinks != nullptr) {
    const float sink = line.job.sinks[line.head], higher = std::max(max, sink);
    factor = std::exp(max - higher);
    sum = sum * factor + std::exp(sink - higher);
  }
  for (int i = 0; i < line.job.kv.shape.value_dim; ++i) {
    line.out[i] = sum == 0 ? 0.0f : output[i] * factor / sum;  // a NaN comes out as one
  }
}
void finish(const Line& line, const float* state) {
  finish(line, state[0], state[1], state + 2);
}

std::size_t flash_scratch_bytes(const KvShape& shape, int /*q_heads*/) {
  return scratch_with_scores(shape, kKeyBlock) +
         static_cast<std::size_t>(shape.value_dim + 2) * sizeof(float);
}

void flash(const AttentionJob& job, int kv_head, std::int64_t row_begin, std::int64_t row_end,
           std::span<std::byte> bytes) {
  const int group = job.q_heads / job.kv.shape.kv_heads, value_dim = job.kv.shape.value_dim;
  const Scratch scratch = carve(bytes, job.kv.shape);
  float* part = scratch.scores + kKeyBlock;
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const KeyRange keys = visible_keys(job, row);
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const Line line = line_of(job, head, row);
      clear_state(scratch.state, value_dim);
      for (std::int64_t begin = keys.begin; begin < keys.end; begin = (begin / kKeyBlock + 1) * kKeyBlock) {
        attend(line, begin, std::min(keys.end, (begin / kKeyBlock + 1) * kKeyBlock), part, scratch);
        merge_into(scratch.state, part, value_dim);
      }
      finish(line, scratch.state);
    }
  }
}

void partial(const AttentionJob& job, int kv_head, std::int64_t row_begin, std::int64_t row_end,
             std::int64_t block, float* partials, std::span<std::byte> bytes) {
  const int group = job.q_heads / job.kv.shape.kv_heads;
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const KeyRange keys = visible_keys(job, row);
    const std::int64_t begin = std::max(keys.begin, block * kKeyBlock);
    const std::int64_t end = std::max(begin, std::min(keys.end, (block + 1) * kKeyBlock));
    for (int g = 0; g < group; ++g, partials += job.kv.shape.value_dim + 2) {
      attend(line_of(job, kv_head * group + g, row), begin, end, partials, carve(bytes, job.kv.shape));
    }
  }
}

void merge(const AttentionJob& job, int kv_head, std::int64_t row_begin, std::int64_t row_end,
           std::int64_t blocks, const float* partials, std::int64_t stride) {
  const int group = job.q_heads / job.kv.shape.kv_heads, value_dim = job.kv.shape.value_dim;
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    for (int g = 0; g < group; ++g, partials += value_dim + 2) {
      const Line line = line_of(job, kv_head * group + g, row);
      float max = kMinusInfinity, sum = 0;
      std::fill(line.out, line.out + value_dim, 0.0f);
      for (std::int64_t block = 0; block < blocks; ++block) {
        const float* part = partials + block * stride;
        merge_into(max, sum, line.out, part, value_dim);
      }
      finish(line, max, sum, line.out);
    }
  }
}

std::size_t naive_scratch_bytes(const AttentionJob& job) {
  return scratch_with_scores(job.kv.shape, job.rows * job.key_count);
}

void naive(const AttentionJob& job, int q_head, std::span<std::byte> bytes) {
  Scratch scratch = carve(bytes, job.kv.shape);
  for (std::int64_t row = 0; row < job.rows; ++row) {
    const KeyRange keys = visible_keys(job, row);
    const Line line = line_of(job, q_head, row);
    attend(line, keys.begin, keys.end, scratch.state, scratch);
    finish(line, scratch.state);
    scratch.scores += job.key_count;
  }
}

constexpr std::int64_t kChunkKeys = 1024;

std::size_t chunked_scratch_bytes(const AttentionJob& job) {
  return scratch_with_scores(job.kv.shape, kChunkKeys) +
         static_cast<std::size_t>(job.kv.shape.value_dim + 2) * sizeof(float);
}

void chunked(const AttentionJob& job, int q_head, std::span<std::byte> bytes) {
  const Scratch scratch = carve(bytes, job.kv.shape);
  const int value_dim = job.kv.shape.value_dim;
  float* part = scratch.scores + kChunkKeys;
  for (std::int64_t row = 0; row < job.rows; ++row) {
    const KeyRange keys = visible_keys(job, row);
    const Line line = line_of(job, q_head, row);
    clear_state(scratch.state, value_dim);
    for (std::int64_t begin = keys.begin; begin < keys.end; begin += kChunkKeys) {
      attend(line, begin, std::min(keys.end, begin + kChunkKeys), part, scratch);
      merge_into(scratch.state, part, value_dim);
    }
    finish(line, scratch.state);
  }
}

}  // namespace

void reference_store(const KvView& kv, const float* k, std::int64_t k_stride, const float* v,
                     std::int64_t v_stride, std::int64_t position, std::int64_t count) {
  const KvLayout layout(kv.shape);
  for (int kv_head = 0; kv_head < kv.shape.kv_heads; ++kv_head) {
    const KvHead head(kv, layout, kv_head);
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t token = (position + t) % kPageTokens;
      std::byte* page = head.page((position + t) / kPageTokens);
      store_key(page + static_cast<std::size_t>(token / kKeyLanes) * layout.key_panel_bytes, kv.shape, layout,
                static_cast<int>(token % kKeyLanes),
                k + t * k_stride + std::int64_t{kv_head} * kv.shape.key_dim);
      if (kv.shape.latent) continue;
      store_value(page, kv.shape, layout, static_cast<std::size_t>(token),
                  v + t * v_stride + std::int64_t{kv_head} * kv.shape.value_dim);
    }
  }
}

void load_key(const KvView& kv, int kv_head, std::int64_t position, float* out) {
  load_channels(kv, kv_head, position, kv.shape.key_dim, out);
}

void load_value(const KvView& kv, int kv_head, std::int64_t position, float* out) {
  if (kv.shape.latent) return load_channels(kv, kv_head, position, kv.shape.value_dim, out);
  const KvLayout layout(kv.shape);
  const auto token = static_cast<std::size_t>(position % kPageTokens);
  const std::byte* page = KvHead(kv, layout, kv_head).page(position / kPageTokens);
  const std::byte* row = page + layout.values + token * layout.value_row_bytes;
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(kv.shape.value_dim); ++channel) {
    switch (kv.shape.dtype) {
      case DType::f32:
        std::memcpy(out + channel, row + channel * 4, 4);
        break;
      case DType::f16:
        out[channel] = load_f16(row + channel * 2);
        break;
      default: {
        const auto code = static_cast<std::int8_t>(
            page[layout.values + token / 4 * 4 * layout.value_row_bytes + channel * 4 + token % 4]);
        out[channel] = static_cast<float>(code) * load_f16(page + layout.value_scales + token * 2);
      }
    }
  }
}

void fill_attention_reference(KernelTable& table) {
  table.attention = {reference_store, flash_scratch_bytes,   flash,  partial, merge, naive_scratch_bytes,
                     naive,           chunked_scratch_bytes, chunked};
}

}  // namespace lithe::kernels
