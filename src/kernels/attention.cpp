// Attention: rows of a job against a kv head's blocks of keys, from the register tiles of attention_tiles-inl.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cpp"
#include "kernels/simd_targets.h"

#include <optional>

#include <hwy/foreach_target.h>

#include "kernels/attention_blocks-inl.h"
#include "kernels/attention_int16-inl.h"
#include "kernels/attention_int8-inl.h"
#include "kernels/attention_scratch-inl.h"
#include "kernels/attention_store-inl.h"
#include "kernels/attention_tiles-inl.h"
#include "kernels/fill.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

// Lines that flash takes through the blocks together: they share the decoding of a block.
constexpr std::int64_t kFlashLines = 192;

const float* query_of(const AttentionJob& job, std::int64_t row, int head) {
  return job.q + row * job.q_stride + std::int64_t{head} * job.kv.shape.key_dim;
}

// The query of one line, scaled for scores in base 2, into its place in a tile (see kQueryChunk).
void scale_query(const AttentionJob& job, std::int64_t row, int head, float* out) {
  static_assert(kQueryChunk % kLanes == 0);
  const float* q = query_of(job, row, head);
  const auto scale = hn::Set(Floats(), job.scale * kLog2E);
  const std::int64_t dim = job.kv.shape.key_dim;
  for (std::int64_t i = 0; i < dim; i += kLanes) {
    const auto x = dim - i >= kLanes ? hn::LoadU(Floats(), q + i) : load_first(q + i, dim - i);
    hn::Store(hn::Mul(x, scale), Floats(),
              out + i / kQueryChunk * kQueryChunk * kTileLines + i % kQueryChunk);
  }
}

// out = output / sum, the head's sink counted in; zeros when nothing was seen.
void finish_line(const AttentionJob& job, std::int64_t row, int head, float max, float sum,
                 const float* output) {
  const Floats d;
  float factor = 1;
  if (job.sinks != nullptr) {
    const float sink = job.sinks[head] * kLog2E, higher = std::max(max, sink);
    factor = hn::GetLane(exp2(hn::Set(d, max - higher)));
    sum = sum * factor + hn::GetLane(exp2(hn::Set(d, sink - higher)));
  }
  const std::int64_t dim = job.kv.shape.value_dim;
  float* out = job.out + row * job.out_stride + std::int64_t{head} * dim;
  // Not `sum > 0`: a NaN must come out as one.
  const auto weight = hn::Set(d, sum == 0 ? 0.0f : factor / sum);
  std::int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) hn::StoreU(hn::Mul(hn::LoadU(d, output + i), weight), d, out + i);
  if (i < dim) store_first(hn::Mul(load_first(output + i, dim - i), weight), out + i, dim - i);
}

// --- flash -----------------------------------------------------------------------------------------------------

// Rows [row_begin, row_end) of a group of heads, at most kFlashLines lines (or one row), going through blocks.
class FlashTile {
 public:
  FlashTile(const AttentionJob& job, int kv_head, std::int64_t row_begin, std::int64_t row_end,
            std::span<std::byte> scratch)
      : job_(job),
        reader_(job.kv, kv_head),
        group_(job.q_heads / job.kv.shape.kv_heads),
        kv_head_(kv_head),
        row_begin_(row_begin),
        lines_((row_end - row_begin) * group_) {
    Carver carver(scratch);
    const KvShape& shape = job.kv.shape;
    state_ = take_state(carver, lines_, shape.value_dim);
    part_ = take_state(carver, kTileLines, shape.value_dim);
    scores_ = carver.take(kTileLines * ScoreStride::value);
    seen_ = {visible_keys(job, row_begin).begin, visible_keys(job, row_end - 1).end};
#if HWY_TARGET == HWY_AVX3
    const auto set_queries = [&](auto& tile) {
      for (std::int64_t line = 0; line < lines_; ++line) {
        tile.set_query(line, query_of(job, row(line), head(line)), job.scale * kLog2E);
      }
    };
    if (!job.f32_arithmetic && shape.dtype == DType::q8_0 && !shape.latent) {
      set_queries(int8_.emplace(shape, lines_, carver));
      return;
    }
    if (!job.f32_arithmetic && shape.dtype == DType::f16) {
      set_queries(int16_.emplace(shape, lines_, carver));
      return;
    }
#endif
    q_ = carver.take(tiles(lines_) * kTileLines * padded(shape.key_dim));
    keys_ = carver.take(kKeyBlock * shape.key_dim);
    values_ = carver.take(kKeyBlock * padded(shape.value_dim));
    for (std::int64_t line = 0; line < lines_; ++line) {
      scale_query(job, row(line), head(line), tile_query(line) + line % kTileLines * kQueryChunk);
    }
  }

  static std::int64_t floats(const KvShape& shape, std::int64_t lines) {
    const std::int64_t f32 = tiles(lines) * kTileLines * padded(shape.key_dim) +
                             padded(kKeyBlock * shape.key_dim) + kKeyBlock * padded(shape.value_dim);
    std::int64_t own = f32;
#if HWY_TARGET == HWY_AVX3
    own = std::max({own, Int8FlashTile::floats(shape, lines), Int16FlashTile::floats(shape, lines)});
#endif
    return own + state_floats(lines, shape.value_dim) + state_floats(kTileLines, shape.value_dim) +
           kTileLines * ScoreStride::value;
  }

  std::int64_t row(std::int64_t line) const { return row_begin_ + line / group_; }
  int head(std::int64_t line) const { return static_cast<int>(kv_head_ * group_ + line % group_); }
  std::int64_t lines() const { return lines_; }
  const State& state() const { return state_; }
  KeyRange seen() const { return seen_; }
  void clear_state() { clear(state_, lines_); }

  /// emit(first line, count, part) for every register tile of lines. The rows see a key of the block.
  template <typename F>
  void attend(std::int64_t block, F emit) {
    const std::int64_t origin = block * kKeyBlock;
    const BlockRange range{block, std::max<std::int64_t>(0, seen_.begin - origin),
                           std::min<std::int64_t>(kKeyBlock, seen_.end - origin)};
    const bool once = lines_ <= kTileLines;  // decoding into scratch would not be shared
    if (once) reader_.touch(range, seen_.end);
#if HWY_TARGET == HWY_AVX3
    const auto attend_codes = [&](auto& codes) {
      for_lines(origin, emit,
                [&](TileRange& tile) { codes.attend(tile, job_.soft_cap * kLog2E, scores_, part_); });
    };
    if (int8_) {
      int8_->set_block(reader_, range, part_.stride);
      return attend_codes(*int8_);
    }
    if (int16_) {
      int16_->set_block(reader_, range, !once);
      return attend_codes(*int16_);
    }
#endif
    if (job_.kv.shape.dtype == DType::f32 && reader_.in_place_possible()) {
      attend_floats(reader_.in_place<float>(range), origin, emit);
    } else if (job_.kv.shape.dtype == DType::f16 && once && reader_.in_place_possible()) {
      attend_floats(reader_.in_place<Half>(range), origin, emit);
    } else {
      attend_floats(reader_.decoded(range, keys_, values_), origin, emit);
    }
  }

 private:
  template <typename F, typename Body>
  void for_lines(std::int64_t origin, F emit, Body body) {
    for (std::int64_t line = 0; line < lines_; line += kTileLines) {
      TileRange tile;
      tile.line = line;
      tile.count = static_cast<int>(std::min<std::int64_t>(kTileLines, lines_ - line));
      for (int l = 0; l < tile.count; ++l) {
        const KeyRange keys = visible_keys(job_, row(line + l));
        tile.begin[l] = std::clamp<std::int64_t>(keys.begin - origin, 0, kKeyBlock);
        tile.end[l] = std::clamp<std::int64_t>(keys.end - origin, tile.begin[l], kKeyBlock);
      }
      clear(part_, tile.count);
      body(tile);
      emit(line, tile.count, part_);
    }
  }

  template <typename T, typename F>
  void attend_floats(const Block<T>& block, std::int64_t origin, F emit) {
    for_lines(origin, emit, [&](TileRange& tile) { attend_tile(block, tile); });
  }

  template <typename T>
  void attend_tile(const Block<T>& block, TileRange& tile) {
    std::int64_t first = kKeyBlock, last = 0;
    for (int l = 0; l < tile.count; ++l) {
      if (tile.begin[l] == tile.end[l]) continue;
      first = std::min(first, tile.begin[l]);
      last = std::max(last, tile.end[l]);
    }
    if (first >= last) return;
    score_lines(tile_query(tile.line), tile.count, job_.kv.shape.key_dim, block, first, last, scores_,
                ScoreStride());
    for (int l = 0; l < tile.count; ++l) {
      if (tile.begin[l] == tile.end[l]) continue;
      const MaxSum result =
          softmax_line(scores_ + l * ScoreStride::value, tile.begin[l], tile.end[l], job_.soft_cap * kLog2E);
      part_.max[l] = result.max;
      part_.sum[l] = result.sum;
      if (result.max == kMinusInfinity) tile.end[l] = tile.begin[l];
    }
    weigh_lines(scores_, ScoreStride(), tile.count, block, tile.begin, tile.end, part_.stride, part_.output);
  }

  float* tile_query(std::int64_t line) const {
    return q_ + line / kTileLines * kTileLines * padded(job_.kv.shape.key_dim);
  }

  const AttentionJob& job_;
  BlockReader reader_;
  std::int64_t group_;
  int kv_head_;
  std::int64_t row_begin_, lines_;
  KeyRange seen_;
  float *q_ = nullptr, *scores_ = nullptr, *keys_ = nullptr, *values_ = nullptr;
  State state_, part_;
#if HWY_TARGET == HWY_AVX3
  std::optional<Int8FlashTile> int8_;    // on the codes of q8_0 pages
  std::optional<Int16FlashTile> int16_;  // on f16 pages as codes
#endif
};

std::int64_t flash_lines(std::int64_t group) {
  return std::max<std::int64_t>(1, kFlashLines / group) * group;
}

std::size_t scratch_bytes(const KvShape& shape, int q_heads) {
  return static_cast<std::size_t>(FlashTile::floats(shape, flash_lines(q_heads / shape.kv_heads))) *
         sizeof(float);
}

void flash(const AttentionJob& job, int kv_head, std::int64_t row_begin, std::int64_t row_end,
           std::span<std::byte> scratch) {
  const std::int64_t group = job.q_heads / job.kv.shape.kv_heads, step = flash_lines(group) / group;
  for (std::int64_t row = row_begin; row < row_end; row += step) {
    FlashTile tile(job, kv_head, row, std::min(row_end, row + step), scratch);
    tile.clear_state();
    const State& state = tile.state();
    for (std::int64_t block = tile.seen().begin / kKeyBlock; block * kKeyBlock < tile.seen().end; ++block) {
      tile.attend(block, [&](std::int64_t line, int count, const State& part) {
        merge_lines(tile_of(state, line), part, count, state.stride);
      });
    }
    for (std::int64_t line = 0; line < tile.lines(); ++line) {
      const State at = tile_of(state, line / kTileLines * kTileLines);
      finish_line(job, tile.row(line), tile.head(line), at.max[line % kTileLines], at.sum[line % kTileLines],
                  state.output + line * state.stride);
    }
  }
}

void partial(const AttentionJob& job, int kv_head, std::int64_t row_begin, std::int64_t row_end,
             std::int64_t block, float* partials, std::span<std::byte> scratch) {
  const std::int64_t group = job.q_heads / job.kv.shape.kv_heads, step = flash_lines(group) / group;
  const std::int64_t value_dim = job.kv.shape.value_dim;
  for (std::int64_t row = row_begin; row < row_end; row += step) {
    FlashTile tile(job, kv_head, row, std::min(row_end, row + step), scratch);
    const bool nothing = tile.seen().begin >= (block + 1) * kKeyBlock ||
                         tile.seen().end <= block * kKeyBlock || tile.seen().begin == tile.seen().end;
    if (nothing) {
      std::fill(partials, partials + tile.lines() * (value_dim + 2), 0.0f);
      for (std::int64_t line = 0; line < tile.lines(); ++line)
        partials[line * (value_dim + 2)] = kMinusInfinity;
    } else {
      tile.attend(block, [&](std::int64_t line, int count, const State& part) {
        for (int l = 0; l < count; ++l) {
          float* out = partials + (line + l) * (value_dim + 2);
          out[0] = part.max[l];
          out[1] = part.sum[l];
          std::memcpy(out + 2, part.output + l * part.stride,
                      static_cast<std::size_t>(value_dim) * sizeof(float));
        }
      });
    }
    partials += tile.lines() * (value_dim + 2);
  }
}

void merge(const AttentionJob& job, int kv_head, std::int64_t row_begin, std::int64_t row_end,
           std::int64_t blocks, const float* partials, std::int64_t stride) {
  const int group = job.q_heads / job.kv.shape.kv_heads;
  const std::int64_t value_dim = job.kv.shape.value_dim;
  HWY_ALIGN float max[kLineSlots], sum[kLineSlots], part_max[kLineSlots], part_sum[kLineSlots];
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    for (int first = 0; first < group; first += kTileLines) {
      const int count = std::min(kTileLines, group - first);
      // The state's output lives in job.out.
      float* out = job.out + row * job.out_stride + (std::int64_t{kv_head} * group + first) * value_dim;
      std::fill(max, max + kLineSlots, kMinusInfinity);
      std::fill(part_max, part_max + kLineSlots, kMinusInfinity);
      std::fill(sum, sum + kLineSlots, 0.0f);
      std::fill(part_sum, part_sum + kLineSlots, 0.0f);
      std::fill(out, out + count * value_dim, 0.0f);
      for (std::int64_t block = 0; block < blocks; ++block) {
        const float* part = partials + block * stride + ((row - row_begin) * group + first) * (value_dim + 2);
        for (int l = 0; l < count; ++l) {
          part_max[l] = part[l * (value_dim + 2)];
          part_sum[l] = part[l * (value_dim + 2) + 1];
        }
        // merge_lines only reads the part.
        const State from{part_max, part_sum, const_cast<float*>(part + 2), value_dim + 2};
        merge_lines({max, sum, out, value_dim}, from, count, value_dim);
      }
      for (int l = 0; l < count; ++l) {
        finish_line(job, row, kv_head * group + first + l, max[l], sum[l], out + l * value_dim);
      }
    }
  }
}

// --- the measured alternatives -----------------------------------------------------------------------------------------

// Rows and keys that are materialised together.
struct Chunk {
  std::int64_t rows, keys;
};
constexpr Chunk kChunk{64, 1024};  // of chunked

std::int64_t materialised_floats(const AttentionJob& job, const Chunk& chunk) {
  const KvShape& shape = job.kv.shape;
  const std::int64_t stride = (chunk.keys + kKeyBlock - 1) / kKeyBlock * kKeyBlock + 16;
  return chunk.rows * stride + kTileLines * padded(shape.key_dim) +
         2 * state_floats(chunk.rows, shape.value_dim) + padded(kKeyBlock * shape.key_dim) +
         kKeyBlock * padded(shape.value_dim);
}

// One head: scores of chunk.rows rows and chunk.keys keys in memory, then their softmax, then the weighted sum. The
// textbook computes a score for every pair and masks afterwards, and so does this where all keys are one chunk;
// chunks that no row sees are skipped.
void materialised(const AttentionJob& job, int head, const Chunk& chunk, std::span<std::byte> scratch) {
  const KvShape& shape = job.kv.shape;
  const BlockReader reader(job.kv, head / (job.q_heads / shape.kv_heads));
  const std::int64_t stride = (chunk.keys + kKeyBlock - 1) / kKeyBlock * kKeyBlock + 16;
  Carver carver(scratch);
  float* const scores = carver.take(chunk.rows * stride);
  float* const q = carver.take(kTileLines * padded(shape.key_dim));
  const State state = take_state(carver, chunk.rows, shape.value_dim);
  const State part = take_state(carver, chunk.rows, shape.value_dim);
  float* const keys = carver.take(kKeyBlock * shape.key_dim);
  float* const values = carver.take(kKeyBlock * padded(shape.value_dim));

  for (std::int64_t row = 0; row < job.rows; row += chunk.rows) {
    const std::int64_t rows = std::min(chunk.rows, job.rows - row);
    const KeyRange seen{visible_keys(job, row).begin, visible_keys(job, row + rows - 1).end};
    clear(state, rows);
    for (std::int64_t origin = 0; origin < job.key_count; origin += chunk.keys) {
      const std::int64_t count = std::min(chunk.keys, job.key_count - origin);
      if (seen.end <= origin || seen.begin >= origin + count) continue;
      const auto for_blocks = [&](auto body) {
        for (std::int64_t at = 0; at < count; at += kKeyBlock) {
          const BlockRange range{(origin + at) / kKeyBlock, 0, std::min<std::int64_t>(kKeyBlock, count - at)};
          const Block<float> block = reader.decoded(range, keys, values);
          for (std::int64_t r = 0; r < rows; r += kTileLines) {
            body(block, at, range.end, r, static_cast<int>(std::min<std::int64_t>(kTileLines, rows - r)));
          }
        }
      };
      for_blocks([&](const Block<float>& block, std::int64_t at, std::int64_t end, std::int64_t r, int tile) {
        for (int l = 0; l < tile; ++l) scale_query(job, row + r + l, head, q + l * kQueryChunk);
        score_lines(q, tile, shape.key_dim, block, 0, end, scores + r * stride + at, stride);
      });
      clear(part, rows);
      for (std::int64_t r = 0; r < rows; ++r) {
        const KeyRange mine = visible_keys(job, row + r);
        const std::int64_t begin = std::clamp<std::int64_t>(mine.begin - origin, 0, count);
        const std::int64_t end = std::clamp<std::int64_t>(mine.end - origin, begin, count);
        float* s = scores + r * stride;
        const State tile = tile_of(part, r / kTileLines * kTileLines);
        const MaxSum result =
            begin < end ? softmax_line(s, begin, end, job.soft_cap * kLog2E) : MaxSum{kMinusInfinity, 0};
        tile.max[r % kTileLines] = result.max;
        tile.sum[r % kTileLines] = result.sum;
        const bool none = result.max == kMinusInfinity;
        std::fill(s, s + (none ? count : begin), 0.0f);
        std::fill(s + (none ? count : end), s + count, 0.0f);
      }
      for_blocks([&](const Block<float>& block, std::int64_t at, std::int64_t end, std::int64_t r, int tile) {
        std::int64_t begins[kTileLines] = {}, ends[kTileLines];
        std::fill(ends, ends + tile, end);
        weigh_lines(scores + r * stride + at, stride, tile, block, begins, ends, part.stride,
                    part.output + r * part.stride);
      });
      for (std::int64_t r = 0; r < rows; r += kTileLines) {
        merge_lines(tile_of(state, r), tile_of(part, r),
                    static_cast<int>(std::min<std::int64_t>(kTileLines, rows - r)), state.stride);
      }
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const State at = tile_of(state, r / kTileLines * kTileLines);
      finish_line(job, row + r, head, at.max[r % kTileLines], at.sum[r % kTileLines],
                  state.output + r * state.stride);
    }
  }
}

Chunk naive_chunk(const AttentionJob& job) {
  return {job.rows, std::max<std::int64_t>(1, job.key_count)};
}

std::size_t naive_scratch_bytes(const AttentionJob& job) {
  return static_cast<std::size_t>(materialised_floats(job, naive_chunk(job))) * sizeof(float);
}
void naive(const AttentionJob& job, int q_head, std::span<std::byte> scratch) {
  materialised(job, q_head, naive_chunk(job), scratch);
}
std::size_t chunked_scratch_bytes(const AttentionJob& job) {
  return static_cast<std::size_t>(materialised_floats(job, kChunk)) * sizeof(float);
}
void chunked(const AttentionJob& job, int q_head, std::span<std::byte> scratch) {
  materialised(job, q_head, kChunk, scratch);
}

void fill_attention(KernelTable& table) {
  table.attention = {store, scratch_bytes,         flash,  partial, merge, naive_scratch_bytes,
                     naive, chunked_scratch_bytes, chunked};
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lithe::kernels {

LITHE_DEFINE_FILL(fill_attention)

}  // namespace lithe::kernels
#endif
