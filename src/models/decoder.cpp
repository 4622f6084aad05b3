#include "models/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "layers/embedding.h"

namespace lithe::models {
namespace {

using kernels::AttentionJob;
using kernels::KernelTable;
using layers::Norm;
using layers::Product;

// So few rows are rotated and stored faster by one worker than a parallel region begins.
constexpr std::size_t kSerialTiles = 2;

// Rows of one sequence that lie in one page: a unit of work that no other worker's stores touch.
struct Tile {
  std::int64_t row = 0, count = 0, position = 0;
  std::size_t sequence = 0;
};

// Consecutive rows of one sequence that ask the cache.
struct Run {
  std::int64_t row = 0, count = 0, position = 0;
  std::size_t sequence = 0;
};

void rotate_heads(const KernelTable& table, const layers::RopeTable& rope, const Norm& norm,
                  std::int64_t position, std::int64_t heads, std::int64_t head_dim, float* x) {
  if (norm) {
    for (std::int64_t head = 0; head < heads; ++head)
      norm.apply(table, x + head * head_dim, x + head * head_dim);
  }
  if (rope.enabled()) {
    table.rope(x, heads, head_dim, rope.dim(), rope.cos(position), rope.sin(position), rope.interleaved());
  }
}

}  // namespace

std::vector<const layers::Linear*> DecoderWeights::linears() const {
  std::vector<const layers::Linear*> all;
  for (const DecoderLayer& layer : layers) {
    for (const layers::Linear* linear :
         {&layer.q, &layer.k, &layer.v, &layer.attn_out, &layer.ffn.gate, &layer.ffn.up, &layer.ffn.down}) {
      if (*linear) all.push_back(linear);
    }
  }
  all.push_back(&head);
  return all;
}

CacheLayout::CacheLayout(const ArchSpec& spec, DType dtype) {
  for (const LayerSpec& layer : spec.layers) {
    shapes_.push_back({dtype, layer.kv_heads, layer.head_dim, layer.value_dim});
    offsets_.push_back(page_bytes_);
    page_bytes_ += kernels::kv_layer_bytes(shapes_.back());
  }
}

// The state of one forward().
struct Decoder::Pass {
  const Batch& batch;
  std::int64_t rows = 0;                  // still alive: all, or from the last layer on those wanted
  float* x = nullptr;                     // [rows, hidden], the residual stream
  std::vector<std::int64_t> first{};      // first new position of each sequence
  std::vector<std::int64_t> positions{};  // [rows]
  std::vector<Tile> tiles{};              // of all rows of the batch
  std::vector<Run> runs{};                // of the rows alive
  bool only_wanted = false;               // x holds the wanted rows alone
};

Decoder::Decoder(ArchSpec spec, DecoderWeights weights, layers::AttentionMode attention, DType kv_dtype,
                 ThreadPool& pool, const KernelTable& kernels)
    : spec_(std::move(spec)),
      weights_(std::move(weights)),
      attention_(attention),
      kv_(spec_, kv_dtype),
      rope_(spec_.rope),
      context_(pool, kernels) {}

Status Decoder::check(const Batch& batch, std::span<const float> logits) const {
  const auto rows = static_cast<std::int64_t>(batch.tokens.size());
  std::int64_t next = 0;
  for (const BatchSequence& sequence : batch.sequences) {
    LITHE_CHECK(sequence.cache != nullptr && sequence.begin == next && sequence.count > 0);
    const auto room = static_cast<std::int64_t>(sequence.cache->pages().size()) * kernels::kPageTokens;
    LITHE_CHECK(sequence.cache->length() + sequence.count <= room);
    LITHE_CHECK(sequence.cache->pool().page_bytes() == kv_.page_bytes());
    next += sequence.count;
  }
  LITHE_CHECK(next == rows);
  LITHE_CHECK(
      std::ranges::is_sorted(batch.logit_rows, std::ranges::less_equal{}) &&
      (batch.logit_rows.empty() || (batch.logit_rows.front() >= 0 && batch.logit_rows.back() < rows)));
  LITHE_CHECK(logits.size() == batch.logit_rows.size() * static_cast<std::size_t>(spec_.vocab));
  for (const std::int32_t token : batch.tokens) {
    if (token < 0 || token >= spec_.vocab) {
      return invalid("token id {} has no row in the model's embedding of {} rows", token, spec_.vocab);
    }
  }
  if (batch.mask == MaskKind::tree) return unsupported("tree masks are not there yet");
  return {};
}

void Decoder::begin(Pass& pass) {
  const Batch& batch = pass.batch;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    const std::int64_t first = sequence.cache->length(), end = first + sequence.count;
    pass.first.push_back(first);
    pass.runs.push_back({sequence.begin, sequence.count, first, i});
    for (std::int64_t position = first; position < end;) {
      const std::int64_t stop = std::min(end, (position / kernels::kPageTokens + 1) * kernels::kPageTokens);
      pass.tiles.push_back({sequence.begin + position - first, stop - position, position, i});
      position = stop;
    }
    for (std::int64_t position = first; position < end; ++position) pass.positions.push_back(position);
    most = std::max(most, end);
  }
  rope_.extend(most);
  pass.x = context_.arena().take<float>(pass.rows * spec_.hidden);
  layers::embed(context_, weights_.embedding, batch.tokens, spec_.embedding_scale, pass.x);
}

Status Decoder::forward(const Batch& batch, std::span<float> logits) {
  LITHE_RETURN_IF_ERROR(check(batch, logits));
  if (batch.tokens.empty()) return {};
  context_.arena().reset();
  Pass pass{.batch = batch, .rows = static_cast<std::int64_t>(batch.tokens.size())};
  begin(pass);
  for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) run_layer(pass, layer);
  for (const BatchSequence& sequence : batch.sequences) sequence.cache->commit(sequence.count);
  compute_logits(pass, logits);
  return {};
}

void Decoder::run_layer(Pass& pass, std::size_t index) {
  layers::ScratchArena::Scope scope(context_.arena());
  attend(pass, index);
  if (pass.rows == 0) return;
  const DecoderLayer& layer = weights_.layers[index];
  const auto normalise = [&](std::int64_t row, float* out) {
    layer.ffn_norm.apply(context_.kernels(), pass.x + row * spec_.hidden, out);
  };
  const FunctionRef<void(std::int64_t, float*)> make(normalise);
  layer.ffn.run(context_, {.rows = pass.rows, .cols = spec_.hidden, .make = &make}, pass.x, spec_.hidden,
                true);
  if (layers::Observer* observer = context_.observer()) {
    observer->on_layer_output(static_cast<int>(index), pass.x, pass.rows, spec_.hidden);
  }
}

// x += output projection of the attention of norm(x). In the last layer every row must leave its keys and
// values behind, but only the rows whose logits are wanted go on from there.
void Decoder::attend(Pass& pass, std::size_t index) {
  const DecoderLayer& layer = weights_.layers[index];
  const LayerSpec& shape = spec_.layers[index];
  const KernelTable& table = context_.kernels();
  const std::int64_t q_width = layer.q.out_features(), k_width = layer.k.out_features(),
                     v_width = layer.v.out_features(), out_width = layer.attn_out.in_features();
  float* const q = context_.arena().take<float>(pass.rows * q_width);
  float* const k = context_.arena().take<float>(pass.rows * k_width);
  float* const v = context_.arena().take<float>(pass.rows * v_width);
  const auto normalise = [&](std::int64_t row, float* out) {
    layer.attn_norm.apply(table, pass.x + row * spec_.hidden, out);
  };
  const FunctionRef<void(std::int64_t, float*)> make(normalise);
  const auto view = [&](std::size_t sequence) {
    const kvcache::SequenceCache& cache = *pass.batch.sequences[sequence].cache;
    return kernels::KvView{kv_.shape(index), cache.pool().base() + kv_.offset(index),
                           cache.pool().page_bytes(), cache.pages().data()};
  };
  const auto rotate_query = [&](std::int64_t row) {
    rotate_heads(table, rope_, layer.q_norm, pass.positions[static_cast<std::size_t>(row)], shape.heads,
                 shape.head_dim, q + row * q_width);
  };

  const bool narrow = index + 1 == weights_.layers.size() && context_.observer() == nullptr &&
                      std::ssize(pass.batch.logit_rows) < pass.rows;
  const std::array products{Product{&layer.k, k, k_width}, Product{&layer.v, v, v_width},
                            Product{&layer.q, q, q_width}};
  multiply(context_, {.rows = pass.rows, .cols = spec_.hidden, .make = &make},
           std::span(products).first(narrow ? 2 : 3));
  const auto place = [&](std::int64_t index_of_tile, int) {
    const Tile& tile = pass.tiles[static_cast<std::size_t>(index_of_tile)];
    for (std::int64_t row = tile.row; row < tile.row + tile.count; ++row) {
      rotate_heads(table, rope_, layer.k_norm, pass.positions[static_cast<std::size_t>(row)], shape.kv_heads,
                   shape.head_dim, k + row * k_width);
      if (!narrow) rotate_query(row);
    }
    table.attention.store(view(tile.sequence), k + tile.row * k_width, k_width, v + tile.row * v_width,
                          v_width, tile.position, tile.count);
  };
  if (pass.tiles.size() <= kSerialTiles && pass.rows <= static_cast<std::int64_t>(kSerialTiles)) {
    for (std::int64_t tile = 0; tile < std::ssize(pass.tiles); ++tile) place(tile, 0);
  } else {
    context_.pool().parallel_for(std::ssize(pass.tiles), place);
  }
  if (narrow) {
    keep_wanted_rows(pass);
    if (pass.rows == 0) return;
    multiply(context_, {.rows = pass.rows, .cols = spec_.hidden, .make = &make}, std::span(products).last(1));
    context_.pool().parallel_for(pass.rows, [&](std::int64_t row, int) { rotate_query(row); });
  }

  float* const attended = context_.arena().take<float>(pass.rows * out_width);
  std::vector<AttentionJob> jobs;
  jobs.reserve(pass.runs.size());
  for (const Run& run : pass.runs) {
    const std::int64_t first = pass.first[run.sequence];
    jobs.push_back({.kv = view(run.sequence),
                    .q = q + run.row * q_width,
                    .out = attended + run.row * out_width,
                    .q_stride = q_width,
                    .out_stride = out_width,
                    .q_heads = shape.heads,
                    .rows = run.count,
                    .first_position = run.position,
                    .key_count = first + pass.batch.sequences[run.sequence].count,
                    .causal = pass.batch.mask == MaskKind::causal,
                    .window = shape.window,
                    .scale = shape.attention_scale,
                    .soft_cap = shape.soft_cap,
                    .f32_arithmetic = layer.attn_out.arithmetic() == kernels::Arithmetic::f32});
  }
  layers::attention(context_, attention_, jobs);
  const std::array output{Product{&layer.attn_out, pass.x, spec_.hidden, true}};
  multiply(context_, {.x = attended, .stride = out_width, .rows = pass.rows, .cols = out_width}, output);
}

// From here on pass.x, positions and runs describe the wanted rows alone.
void Decoder::keep_wanted_rows(Pass& pass) {
  const std::vector<std::int64_t>& wanted = pass.batch.logit_rows;
  std::vector<std::int64_t> positions;
  std::vector<Run> runs;
  std::size_t sequence = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::int64_t row = wanted[i];
    // Ascending, so a row moves to a place that is not needed any more.
    if (row != static_cast<std::int64_t>(i)) {
      std::copy_n(pass.x + row * spec_.hidden, spec_.hidden,
                  pass.x + static_cast<std::int64_t>(i) * spec_.hidden);
    }
    while (row >= pass.batch.sequences[sequence].begin + pass.batch.sequences[sequence].count) ++sequence;
    const std::int64_t position = pass.positions[static_cast<std::size_t>(row)];
    positions.push_back(position);
    if (!runs.empty() && runs.back().sequence == sequence &&
        runs.back().position + runs.back().count == position) {
      ++runs.back().count;
    } else {
      runs.push_back({static_cast<std::int64_t>(i), 1, position, sequence});
    }
  }
  pass.rows = std::ssize(wanted);
  pass.positions = std::move(positions);
  pass.runs = std::move(runs);
  pass.only_wanted = true;
}

void Decoder::compute_logits(Pass& pass, std::span<float> logits) {
  const std::vector<std::int64_t>& wanted = pass.batch.logit_rows;
  if (wanted.empty()) return;
  const auto normalise = [&](std::int64_t index, float* out) {
    const std::int64_t row = pass.only_wanted ? index : wanted[static_cast<std::size_t>(index)];
    weights_.output_norm.apply(context_.kernels(), pass.x + row * spec_.hidden, out);
  };
  const FunctionRef<void(std::int64_t, float*)> make(normalise);
  const std::array products{Product{&weights_.head, logits.data(), spec_.vocab}};
  multiply(context_, {.rows = std::ssize(wanted), .cols = spec_.hidden, .make = &make}, products);
  if (spec_.logit_scale != 1.0f) {
    context_.kernels().scale(logits.data(), spec_.logit_scale, static_cast<std::int64_t>(logits.size()));
  }
}

}  // namespace lithe::models
