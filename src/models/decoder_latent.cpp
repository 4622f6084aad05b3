// Latent attention in its absorbed form: attention runs in the latent space, where all heads share one key a token, whose
// first channels are its value too. Prefill and decode do the same, so their bits agree (promise 1); a prefill that
// unfolds keys and values would need fewer operations and give others.
#include <algorithm>
#include <array>
#include <vector>

#include "layers/grouped.h"
#include "models/decoder.h"
#include "models/decoder_pass.h"

namespace lithe::models {
namespace {

using layers::GroupedOutput;
using layers::LinearInput;
using layers::Product;
using layers::RowGroup;

// out[head * rows + row]: what head `head`'s matrix makes of input(head, row). One parallel region for all heads.
void multiply_heads(layers::ExecContext& context, const std::vector<layers::Linear>& heads, std::int64_t rows,
                    FunctionRef<void(std::int64_t head, std::int64_t row, float* out)> input, float* out) {
  std::vector<RowGroup> groups;
  groups.reserve(heads.size());
  for (const layers::Linear& head : heads) {
    const std::int64_t begin = std::ssize(groups) * rows;
    groups.push_back({begin, begin + rows, {&head, nullptr}});
  }
  const auto take = [&](std::int64_t row, float* to) { input(row / rows, row % rows, to); };
  const FunctionRef<void(std::int64_t, float*)> make(take);
  const layers::Linear& any = heads.front();
  const GroupedOutput output{out, any.out_features()};
  multiply_grouped(context, {.rows = std::ssize(heads) * rows, .cols = any.in_features(), .make = &make},
                   groups, {&output, 1});
}

}  // namespace

// As attend().
void Decoder::attend_latent(Pass& pass, std::size_t index, float* branch) {
  const DecoderLayer& layer = weights_.layers[index];
  const LayerSpec& shape = spec_.layers[index];
  const LatentSpec& sizes = shape.latent;
  const LatentWeights& latent = layer.latent;
  const kernels::KernelTable& table = context_.kernels();
  layers::ScratchArena& arena = context_.arena();
  const std::int64_t key_width = shape.head_dim, rank = sizes.rank, query_dim = sizes.query_dim();
  const std::int64_t q_width = layer.q.out_features(), heads = shape.heads;
  const layers::RopeTable& rope = ropes_[static_cast<std::size_t>(shape.rope)];
  const auto rotate = [&](std::int64_t row, std::int64_t count, std::int64_t stride, float* x) {
    const std::int64_t position = pass.positions[static_cast<std::size_t>(row)];
    table.rope(x, count, stride, rope.dim(), rope.cos(position), rope.sin(position), rope.interleaved());
  };
  const auto normalise = [&](std::int64_t row, float* out) {
    layer.attn_norm.apply(table, pass.x + row * spec_.hidden, out);
  };
  const FunctionRef<void(std::int64_t, float*)> make(normalise);
  const auto input = [&] {
    return LinearInput{
        .x = pass.x, .stride = spec_.hidden, .rows = pass.rows, .cols = spec_.hidden, .make = &make};
  };

  float* const keys = arena.take<float>(pass.rows * key_width);
  float* const short_query = arena.take<float>(pass.rows * sizes.query_rank);
  float* const q = arena.take<float>(pass.rows * q_width);
  const bool narrow = narrows(pass, index);
  // The first matrix that the query meets reads what the latent vector reads.
  const Product first_query =
      latent.q_down ? Product{&latent.q_down, short_query, sizes.query_rank} : Product{&layer.q, q, q_width};
  const std::array products{Product{&latent.down, keys, key_width}, first_query};
  multiply(context_, input(), std::span(products).first(narrow ? 1 : 2));
  const auto prepare = [&](std::int64_t row) {
    float* const key = keys + row * key_width;
    latent.norm.apply(table, key, key);
    rotate(row, 1, sizes.rope_dim, key + rank);
  };
  store(pass, index, prepare, keys, key_width, nullptr, 0);
  if (narrow) {
    keep_wanted_rows(pass);
    if (pass.rows == 0) return;
    multiply(context_, input(), std::span(products).last(1));
  }
  if (latent.q_down) {
    const auto shorten = [&](std::int64_t row, float* out) {
      latent.q_norm.apply(table, short_query + row * sizes.query_rank, out);
    };
    const FunctionRef<void(std::int64_t, float*)> shortened(shorten);
    const std::array lengthen{Product{&layer.q, q, q_width}};
    multiply(context_, {.rows = pass.rows, .cols = sizes.query_rank, .make = &shortened}, lengthen);
  }

  const std::int64_t rows = pass.rows;
  float* const moved = arena.take<float>(heads * rows * rank);       // [heads, rows, rank]
  float* const asked = arena.take<float>(rows * heads * key_width);  // [rows, heads, rank + rope_dim]
  float* const attended = arena.take<float>(rows * heads * rank);
  float* const values = arena.take<float>(heads * rows * sizes.value_dim);  // [heads, rows, value_dim]
  multiply_heads(
      context_, latent.keys, rows,
      [&](std::int64_t head, std::int64_t row, float* out) {
        std::copy_n(q + row * q_width + head * query_dim, sizes.plain_dim, out);
      },
      moved);
  context_.pool().parallel_for(rows, [&](std::int64_t row, int) {
    float* const own = q + row * q_width;
    rotate(row, heads, query_dim, own + sizes.plain_dim);
    for (std::int64_t head = 0; head < heads; ++head) {
      float* const to = asked + (row * heads + head) * key_width;
      std::copy_n(moved + (head * rows + row) * rank, rank, to);
      std::copy_n(own + head * query_dim + sizes.plain_dim, sizes.rope_dim, to + rank);
    }
  });
  ask_cache(pass, index, asked, heads * key_width, attended, heads * rank);
  multiply_heads(
      context_, latent.values, rows,
      [&](std::int64_t head, std::int64_t row, float* out) {
        std::copy_n(attended + (row * heads + head) * rank, rank, out);
      },
      values);
  const auto join_heads = [&](std::int64_t row, float* out) {
    for (std::int64_t head = 0; head < heads; ++head)
      std::copy_n(values + (head * rows + row) * sizes.value_dim, sizes.value_dim,
                  out + head * sizes.value_dim);
  };
  const FunctionRef<void(std::int64_t, float*)> joined(join_heads);
  const std::array output{
      Product{&layer.attn_out, branch == nullptr ? pass.x : branch, spec_.hidden, branch == nullptr}};
  multiply(context_, {.rows = rows, .cols = heads * sizes.value_dim, .make = &joined}, output);
}

}  // namespace lithe::models
