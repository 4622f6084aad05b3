#include "models/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "layers/embedding.h"
#include "models/decoder_pass.h"

namespace lithe::models {
namespace {

using kernels::AttentionJob;
using kernels::KernelTable;
using layers::Norm;
using layers::Product;

// So few rows are rotated and stored faster by one worker than a parallel region begins.
constexpr std::size_t kSerialTiles = 2;

// What a branch reads x through. Parallel branches of which only one has a norm share it.
const Norm& pre_norm(const LayerSpec& shape, const Norm& own, const Norm& other) {
  return own || shape.residual != Residual::parallel ? own : other;
}

void normalise_heads(const KernelTable& table, QkNorm kind, const Norm& norm, std::int64_t heads,
                     std::int64_t head_dim, float* x) {
  if (kind == QkNorm::whole) return norm.apply(table, x, x);
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t part = kind == QkNorm::each_head ? head * head_dim : 0;
    norm.apply_part(table, part, head_dim, x + head * head_dim, x + head * head_dim);
  }
}

}  // namespace

std::vector<const layers::Linear*> DecoderLayer::linears() const {
  std::vector<const layers::Linear*> all;
  const auto add = [&](std::initializer_list<const layers::Linear*> some) {
    for (const layers::Linear* linear : some) {
      if (*linear) all.push_back(linear);
    }
  };
  add({&mamba.in, &mamba.out, &latent.q_down, &latent.down, &q, &k, &v, &attn_out, &ffn.gate, &ffn.up,
       &ffn.down});
  for (const layers::Linear& linear : latent.keys) add({&linear});
  for (const layers::Linear& linear : latent.values) add({&linear});
  add({&moe.router});
  for (std::size_t i = 0; i < moe.up.size(); ++i) add({&moe.gate[i], &moe.up[i], &moe.down[i]});
  add({&moe.shared.gate, &moe.shared.up, &moe.shared.down, &moe.shared_gate});
  return all;
}

std::vector<const layers::Linear*> DecoderWeights::linears() const {
  std::vector<const layers::Linear*> all;
  for (const DecoderLayer& layer : layers) {
    const auto own = layer.linears();
    all.insert(all.end(), own.begin(), own.end());
  }
  all.push_back(&head);
  return all;
}

CacheLayout::CacheLayout(const ArchSpec& spec, DType dtype) {
  for (const LayerSpec& layer : spec.layers) {
    shapes_.push_back({dtype, layer.kv_heads, layer.head_dim, layer.value_dim, layer.latent.rank > 0});
    offsets_.push_back(page_bytes_);
    page_bytes_ += kernels::kv_layer_bytes(shapes_.back());
    state_offsets_.push_back(state_floats_);
    if (layer.mamba.heads > 0) state_floats_ += static_cast<std::size_t>(layer.mamba.state_floats());
  }
  page_bytes_ = std::max(page_bytes_,
                         std::size_t{layers::kCacheLine});  // pages count tokens even where nothing attends
}

Decoder::Decoder(ArchSpec spec, DecoderWeights weights, layers::AttentionMode attention, DType kv_dtype,
                 ThreadPool& pool, const KernelTable& kernels)
    : spec_(std::move(spec)),
      weights_(std::move(weights)),
      attention_(attention),
      kv_(spec_, kv_dtype),
      context_(pool, kernels) {
  for (const RopeSpec& rope : spec_.ropes) ropes_.emplace_back(rope, spec_.usable_context);
}

Status Decoder::check(const Batch& batch) const {
  const auto rows = static_cast<std::int64_t>(batch.tokens.size());
  std::int64_t next = 0;
  for (const BatchSequence& sequence : batch.sequences) {
    LITHE_CHECK(sequence.cache != nullptr && sequence.begin == next && sequence.count > 0);
    const auto room = static_cast<std::int64_t>(sequence.cache->pages().size()) * kernels::kPageTokens;
    LITHE_CHECK(sequence.cache->length() + sequence.count <= room);
    LITHE_CHECK(sequence.cache->pool().page_bytes() == kv_.page_bytes());
    LITHE_CHECK(sequence.cache->state().size() == kv_.state_floats());
    next += sequence.count;
  }
  LITHE_CHECK(next == rows);
  LITHE_CHECK(
      std::ranges::is_sorted(batch.logit_rows, std::ranges::less_equal{}) &&
      (batch.logit_rows.empty() || (batch.logit_rows.front() >= 0 && batch.logit_rows.back() < rows)));
  LITHE_CHECK(spec_.causal || batch.mask == MaskKind::bidirectional);
  LITHE_CHECK(batch.types.empty() || batch.types.size() == batch.tokens.size());
  for (const BatchSequence& sequence : batch.sequences) {
    const std::int64_t end = sequence.cache->length() + sequence.count;
    if (spec_.learned_positions > 0 && end > spec_.learned_positions) {
      return invalid("{} tokens are more than the {} positions that the model has learned", end,
                     spec_.learned_positions);
    }
  }
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
  for (layers::RopeTable& rope : ropes_) rope.extend(most);
  pass.x = context_.arena().take<float>(pass.rows * spec_.hidden);
  embed(pass);
}

void Decoder::embed(Pass& pass) {
  layers::embed(context_, weights_.embedding, pass.batch.tokens, spec_.embedding_scale, pass.x);
  if (!weights_.position_embedding && weights_.token_types.empty() && !weights_.embedding_norm) return;
  const auto bytes = static_cast<std::size_t>(spec_.hidden) * sizeof(float);
  context_.reserve_worker_scratch(bytes);
  context_.pool().parallel_for(pass.rows, [&](std::int64_t row, int worker) {
    float* const x = pass.x + row * spec_.hidden;
    if (!weights_.token_types.empty()) {
      const std::int64_t type =
          pass.batch.types.empty() ? 0 : pass.batch.types[static_cast<std::size_t>(row)];
      context_.kernels().add(x, weights_.token_types.data() + type * spec_.hidden, spec_.hidden);
    }
    if (weights_.position_embedding) {
      auto* const learned = reinterpret_cast<float*>(context_.worker_scratch(worker).data());
      kernels::unpack_row(weights_.position_embedding.weights(),
                          pass.positions[static_cast<std::size_t>(row)], learned);
      context_.kernels().add(x, learned, spec_.hidden);
    }
    if (weights_.embedding_norm) weights_.embedding_norm.apply(context_.kernels(), x, x);
  });
}

void Decoder::run_layers(Pass& pass) {
  context_.arena().reset();
  begin(pass);
  for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) run_layer(pass, layer);
  for (const BatchSequence& sequence : pass.batch.sequences) sequence.cache->commit(sequence.count);
}

Status Decoder::forward(const Batch& batch, std::span<float> logits) {
  LITHE_CHECK(logits.size() == batch.logit_rows.size() * static_cast<std::size_t>(spec_.vocab));
  LITHE_RETURN_IF_ERROR(check(batch));
  if (batch.tokens.empty()) return {};
  Pass pass{.batch = batch, .rows = static_cast<std::int64_t>(batch.tokens.size())};
  run_layers(pass);
  compute_logits(pass, logits);
  return {};
}

Status Decoder::encode(const Batch& batch, std::span<float> rows) {
  LITHE_CHECK(rows.size() == batch.logit_rows.size() * static_cast<std::size_t>(spec_.hidden));
  LITHE_RETURN_IF_ERROR(check(batch));
  if (batch.tokens.empty()) return {};
  Pass pass{.batch = batch, .rows = static_cast<std::int64_t>(batch.tokens.size())};
  run_layers(pass);
  for (std::size_t i = 0; i < batch.logit_rows.size(); ++i) {
    const std::int64_t row = pass.only_wanted ? static_cast<std::int64_t>(i) : batch.logit_rows[i];
    float* const to = rows.data() + static_cast<std::int64_t>(i) * spec_.hidden;
    if (weights_.output_norm) {
      weights_.output_norm.apply(context_.kernels(), pass.x + row * spec_.hidden, to);
    } else {
      std::copy_n(pass.x + row * spec_.hidden, spec_.hidden, to);
    }
  }
  return {};
}

void Decoder::classify(std::span<const float> row, std::span<float> scores) {
  context_.arena().reset();
  const std::int64_t hidden = spec_.hidden;
  float* const x = context_.arena().take<float>(hidden);
  std::copy_n(row.data(), hidden, x);
  if (weights_.cls) {
    const std::array dense{Product{&weights_.cls, x, hidden}};
    multiply(context_, {.x = row.data(), .stride = hidden, .rows = 1, .cols = hidden}, dense);
    if (spec_.head_activation == HeadActivation::tanh) {
      for (std::int64_t i = 0; i < hidden; ++i) x[i] = std::tanh(x[i]);
    } else {
      context_.kernels().activate(Activation::gelu_erf, x, nullptr, hidden, x);
    }
  }
  if (weights_.cls_norm) weights_.cls_norm.apply(context_.kernels(), x, x);
  const std::array out{Product{&weights_.cls_out, scores.data(), spec_.labels}};
  multiply(context_, {.x = x, .stride = hidden, .rows = 1, .cols = hidden}, out);
}

// Whether what a branch gives is added to the residual stream as it is, so that it needs no place of its own.
bool Decoder::joins_directly(const LayerSpec& shape) const {
  return shape.residual == Residual::sequential && !shape.post_norm && spec_.residual_scale == 1.0f;
}

void Decoder::run_layer(Pass& pass, std::size_t index) {
  layers::ScratchArena::Scope scope(context_.arena());
  const DecoderLayer& layer = weights_.layers[index];
  const LayerSpec& shape = spec_.layers[index];
  float* const branch =
      joins_directly(shape) ? nullptr : context_.arena().take<float>(pass.rows * spec_.hidden);
  if (layer.mamba) {
    mix(pass, index, branch);
  } else if (layer.latent) {
    attend_latent(pass, index, branch);
  } else {
    attend(pass, index, branch);
  }
  if (pass.rows == 0) return;
  if (!layer.moe && !layer.ffn.up) {  // a mixer alone
    if (branch != nullptr) join(pass, branch, layer.attn_post_norm, shape.residual);
  } else if (shape.residual == Residual::parallel) {
    feed(pass, index, nullptr);  // reads the stream before it adds to it
    join(pass, branch, {}, Residual::sequential);
  } else {
    if (branch != nullptr) join(pass, branch, layer.attn_post_norm, shape.residual);
    feed(pass, index, branch);
    if (branch != nullptr) join(pass, branch, layer.ffn_post_norm, shape.residual);
  }
  if (layers::Observer* observer = context_.observer()) {
    observer->on_layer_output(static_cast<int>(index), pass.x, pass.rows, spec_.hidden);
  }
}

// The feed-forward layer's result into `branch`, or added to the residual stream without one.
void Decoder::feed(Pass& pass, std::size_t index, float* branch) {
  const DecoderLayer& layer = weights_.layers[index];
  const LayerSpec& shape = spec_.layers[index];
  const Norm& norm = pre_norm(shape, layer.ffn_norm, layer.attn_norm);
  const auto normalise = [&](std::int64_t row, float* out) {
    norm.apply(context_.kernels(), pass.x + row * spec_.hidden, out);
  };
  const FunctionRef<void(std::int64_t, float*)> make(normalise);
  layers::LinearInput input{.x = pass.x,
                            .stride = spec_.hidden,
                            .rows = pass.rows,
                            .cols = spec_.hidden,
                            .make = norm ? &make : nullptr};
  float* const out = branch == nullptr ? pass.x : branch;
  if (layer.moe) {
    layer.moe.run(context_, static_cast<int>(index), input, out, spec_.hidden, branch == nullptr);
  } else {
    layer.ffn.run(context_, input, out, spec_.hidden, branch == nullptr);
  }
}

// Adds a branch's result to the residual stream, normalised and scaled as the architecture says.
void Decoder::join(Pass& pass, const float* branch, const Norm& post, Residual residual) {
  const KernelTable& table = context_.kernels();
  const std::int64_t hidden = spec_.hidden;
  context_.reserve_worker_scratch(static_cast<std::size_t>(hidden) * sizeof(float));
  context_.pool().parallel_for(pass.rows, [&](std::int64_t row, int worker) {
    float* const x = pass.x + row * hidden;
    auto* const given = reinterpret_cast<float*>(context_.worker_scratch(worker).data());
    std::copy_n(branch + row * hidden, hidden, given);
    if (residual == Residual::after_add) {
      table.add(x, given, hidden);
      if (post) post.apply(table, x, x);
      return;
    }
    if (post) post.apply(table, given, given);
    if (spec_.residual_scale != 1.0f) table.scale(given, spec_.residual_scale, hidden);
    table.add(x, given, hidden);
  });
}

// The output projection of the attention of norm(x), into `branch` or added to x without one. In the last layer every
// row must leave its keys and values behind, but only the rows whose logits are wanted go on from there.
void Decoder::attend(Pass& pass, std::size_t index, float* branch) {
  const DecoderLayer& layer = weights_.layers[index];
  const LayerSpec& shape = spec_.layers[index];
  const KernelTable& table = context_.kernels();
  const Norm& norm = pre_norm(shape, layer.attn_norm, layer.ffn_norm);
  const std::int64_t q_width = layer.q.out_features(), k_width = layer.k.out_features(),
                     v_width = layer.v.out_features(), out_width = layer.attn_out.in_features();
  float* const q = context_.arena().take<float>(pass.rows * q_width);
  float* const k = context_.arena().take<float>(pass.rows * k_width);
  float* const v = context_.arena().take<float>(pass.rows * v_width);
  const auto normalise = [&](std::int64_t row, float* out) {
    norm.apply(table, pass.x + row * spec_.hidden, out);
  };
  const FunctionRef<void(std::int64_t, float*)> make(normalise);
  const auto input = [&] {
    return layers::LinearInput{.x = pass.x,
                               .stride = spec_.hidden,
                               .rows = pass.rows,
                               .cols = spec_.hidden,
                               .make = norm ? &make : nullptr};
  };
  const layers::RopeTable* const rope =
      shape.rope == kNoRope ? nullptr : &ropes_[static_cast<std::size_t>(shape.rope)];
  const auto rotate = [&](const Norm& own, std::int64_t row, std::int64_t heads, float* x) {
    if (own) normalise_heads(table, shape.qk_norm, own, heads, shape.head_dim, x);
    if (rope == nullptr || !rope->enabled()) return;
    const std::int64_t position = pass.positions[static_cast<std::size_t>(row)];
    table.rope(x, heads, shape.head_dim, rope->dim(), rope->cos(position), rope->sin(position),
               rope->interleaved());
  };
  const auto rotate_query = [&](std::int64_t row) {
    rotate(layer.q_norm, row, shape.heads, q + row * q_width);
  };

  const bool narrow = narrows(pass, index);
  const std::array products{Product{&layer.k, k, k_width}, Product{&layer.v, v, v_width},
                            Product{&layer.q, q, q_width}};
  multiply(context_, input(), std::span(products).first(narrow ? 2 : 3));
  const auto prepare = [&](std::int64_t row) {
    rotate(layer.k_norm, row, shape.kv_heads, k + row * k_width);
    if (!narrow) rotate_query(row);
  };
  store(pass, index, prepare, k, k_width, v, v_width);
  if (narrow) {
    keep_wanted_rows(pass);
    if (pass.rows == 0) return;
    multiply(context_, input(), std::span(products).last(1));
    context_.pool().parallel_for(pass.rows, [&](std::int64_t row, int) { rotate_query(row); });
  }

  float* const attended = context_.arena().take<float>(pass.rows * out_width);
  ask_cache(pass, index, q, q_width, attended, out_width);
  const std::array output{
      Product{&layer.attn_out, branch == nullptr ? pass.x : branch, spec_.hidden, branch == nullptr}};
  multiply(context_, {.x = attended, .stride = out_width, .rows = pass.rows, .cols = out_width}, output);
}

// The recurrent mixer in attention's place. In the last layer too the state must see every row, but only the rows whose
// logits are wanted go on from there.
void Decoder::mix(Pass& pass, std::size_t index, float* branch) {
  layers::ScratchArena::Scope scope(context_.arena());
  const DecoderLayer& layer = weights_.layers[index];
  const auto normalise = [&](std::int64_t row, float* out) {
    layer.attn_norm.apply(context_.kernels(), pass.x + row * spec_.hidden, out);
  };
  const FunctionRef<void(std::int64_t, float*)> make(normalise);
  std::vector<layers::MambaRun> runs;
  runs.reserve(pass.batch.sequences.size());
  for (const BatchSequence& sequence : pass.batch.sequences) {
    runs.push_back(
        {sequence.begin, sequence.count, sequence.cache->state().data() + kv_.state_offset(index)});
  }
  const layers::Mamba::Mixed mixed =
      layer.mamba.mix(context_, {.rows = pass.rows, .cols = spec_.hidden, .make = &make}, runs);
  std::vector<std::int64_t> rows = pass.batch.logit_rows;
  if (narrows(pass, index)) {
    keep_wanted_rows(pass);
  } else {
    rows.resize(static_cast<std::size_t>(pass.rows));
    std::iota(rows.begin(), rows.end(), std::int64_t{0});
  }
  if (rows.empty()) return;
  layer.mamba.project(context_, mixed, rows, branch == nullptr ? pass.x : branch, spec_.hidden,
                      branch == nullptr);
}

// In the last layer every row must leave its keys and values behind, but only the rows whose logits are wanted go on.
bool Decoder::narrows(const Pass& pass, std::size_t index) const {
  return index + 1 == weights_.layers.size() && context_.observer() == nullptr &&
         std::ssize(pass.batch.logit_rows) < pass.rows;
}

kernels::KvView Decoder::view(const Pass& pass, std::size_t index, std::size_t sequence) const {
  const kvcache::SequenceCache& cache = *pass.batch.sequences[sequence].cache;
  return kernels::KvView{kv_.shape(index), cache.pool().base() + kv_.offset(index), cache.pool().page_bytes(),
                         cache.pages().data()};
}

// Keys and values of all rows into their pages, each row `prepare`d first.
void Decoder::store(const Pass& pass, std::size_t index, FunctionRef<void(std::int64_t row)> prepare,
                    const float* k, std::int64_t k_stride, const float* v, std::int64_t v_stride) {
  const auto place = [&](std::int64_t index_of_tile, int) {
    const Tile& tile = pass.tiles[static_cast<std::size_t>(index_of_tile)];
    for (std::int64_t row = tile.row; row < tile.row + tile.count; ++row) prepare(row);
    context_.kernels().attention.store(view(pass, index, tile.sequence), k + tile.row * k_stride, k_stride,
                                       v + tile.row * v_stride, v_stride, tile.position, tile.count);
  };
  if (pass.tiles.size() <= kSerialTiles && pass.rows <= static_cast<std::int64_t>(kSerialTiles)) {
    for (std::int64_t tile = 0; tile < std::ssize(pass.tiles); ++tile) place(tile, 0);
  } else {
    context_.pool().parallel_for(std::ssize(pass.tiles), place);
  }
}

// Query heads of one attention job. Where all share a kv head, as DeepSeek V3's 128 do, they are a few jobs: one of a
// single row would be one task for one thread.
int Decoder::job_heads(const LayerSpec& shape) {
  constexpr int kMostSharedHeads = 64;
  return shape.kv_heads == 1 ? std::min(shape.heads, kMostSharedHeads) : shape.heads;
}

// Attention of the rows alive over what the layer has stored. q: [rows, q_stride], out: [rows, out_stride].
void Decoder::ask_cache(Pass& pass, std::size_t index, const float* q, std::int64_t q_stride, float* out,
                        std::int64_t out_stride) {
  const DecoderLayer& layer = weights_.layers[index];
  const LayerSpec& shape = spec_.layers[index];
  const int part = job_heads(shape);
  std::vector<AttentionJob> jobs;
  jobs.reserve(pass.runs.size() * static_cast<std::size_t>(ceil_div(shape.heads, part)));
  for (const Run& run : pass.runs) {
    const std::int64_t first = pass.first[run.sequence];
    for (int head = 0; head < shape.heads; head += part) {
      jobs.push_back({.kv = view(pass, index, run.sequence),
                      .q = q + run.row * q_stride + std::int64_t{head} * shape.head_dim,
                      .out = out + run.row * out_stride + std::int64_t{head} * shape.value_dim,
                      .q_stride = q_stride,
                      .out_stride = out_stride,
                      .q_heads = std::min(part, shape.heads - head),
                      .rows = run.count,
                      .first_position = run.position,
                      .key_count = first + pass.batch.sequences[run.sequence].count,
                      .causal = pass.batch.mask != MaskKind::bidirectional,
                      .window = shape.window,
                      .scale = shape.attention_scale,
                      .soft_cap = shape.soft_cap,
                      .sinks = layer.sinks.empty() ? nullptr : layer.sinks.data() + head,
                      .f32_arithmetic = layer.attn_out.arithmetic() == kernels::Arithmetic::f32});
    }
  }
  layers::attention(context_, attention_, jobs);
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
  const auto finish = [&](std::int64_t row_begin, std::int64_t row_end, std::int64_t begin,
                          std::int64_t end) {
    for (std::int64_t row = row_begin; row < row_end; ++row) {
      float* const part = logits.data() + row * spec_.vocab + begin;
      if (spec_.logit_scale != 1.0f) context_.kernels().scale(part, spec_.logit_scale, end - begin);
      if (spec_.logit_soft_cap != 0.0f) context_.kernels().soft_cap(part, spec_.logit_soft_cap, end - begin);
    }
  };
  const layers::ProductEpilogue epilogue(finish);
  const bool plain = spec_.logit_scale == 1.0f && spec_.logit_soft_cap == 0.0f;
  multiply(context_, {.rows = std::ssize(wanted), .cols = spec_.hidden, .make = &make}, products,
           plain ? nullptr : &epilogue);
}

}  // namespace lithe::models
