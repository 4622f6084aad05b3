// An architecture is plain data: one description per family, filled from the file's parameters. The decoder
// (models/decoder.h) is written once and reads only this. docs/adding-a-model.md walks through a new one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/ffn.h"
#include "layers/mamba.h"
#include "layers/norm.h"
#include "layers/rope.h"
#include "layers/router.h"

namespace lithe::models {

using layers::Activation;
using layers::FfnKind;
using layers::NormKind;
using layers::RopeKind;
using layers::RopeScaling;
using layers::RopeSpec;

/// How a layer's two branches, attention and feed-forward, join the residual stream x. "pre" normalises what a branch
/// reads, "post" what it gives.
enum class Residual : std::uint8_t {
  sequential,  // x += attn(pre(x)); x += ffn(pre(x)), with post(...) around a branch where there is such a norm
  parallel,    // x += attn(pre(x)) + ffn(pre'(x)), both of the same x; the two may share a norm
  after_add,  // x = post(x + attn(x)); x = post(x + ffn(x)): BERT
};

/// Norms of queries and keys before the rotation.
enum class QkNorm : std::uint8_t {
  none,
  per_head,   // each head on its own, one weight [head_dim] for all: qwen3, gemma3
  each_head,  // each head on its own, with a weight of its own [heads, head_dim]: command-r-plus
  whole,      // all heads at once, weight [heads * head_dim]: olmo2
};

/// A mixture of experts in place of a layer's feed-forward matrices.
struct MoeSpec {
  layers::RouterRule rule;
  int ffn_dim = 0;           // of each expert
  int shared_dim = 0;        // of the one that every token passes through; 0: none
  bool shared_gate = false;  // weighs it token by token

  bool operator==(const MoeSpec&) const = default;
};

/// Multi-head latent attention (DeepSeek-V2, 2405.04434, section 2.1): keys and values of all heads are made of one
/// short vector a token, which is all that the cache keeps, beside the rotated part that the heads share. A head's
/// query is moved into the latent space instead of the keys out of it. To the cache a layer has one kv head, with
/// head_dim = rank + rope_dim and value_dim = rank.
struct LatentSpec {
  int rank = 0;                     // of the latent vector; 0: none of this
  int query_rank = 0;               // queries are made of a vector so short; 0: of the stream itself
  int plain_dim = 0, rope_dim = 0;  // channels of a head's query that are not rotated, and that are
  int value_dim = 0;                // of a head
  bool joined = false;              // an old file, where what makes keys and values is one matrix
  int query_dim() const { return plain_dim + rope_dim; }

  bool operator==(const LatentSpec&) const = default;
};

struct LayerSpec {
  int heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  QkNorm qk_norm = QkNorm::none;
  int rope = 0;             // which of ArchSpec::ropes; kNoRope: none
  std::int64_t window = 0;  // 0 = full attention
  bool sinks = false;       // a learned logit a head that takes weight and gives no value
  LatentSpec latent;
  layers::MambaSpec mamba;    // instead of attention
  float attention_scale = 0;  // on q.k
  float soft_cap = 0;         // of attention's scores

  int ffn_dim = 0;
  FfnKind ffn = FfnKind::gated;
  Activation activation = Activation::silu;
  MoeSpec moe;  // without experts: none
  bool sparse() const { return moe.rule.experts > 0; }

  Residual residual = Residual::sequential;
  bool post_norm = false;  // of both branches

  bool operator==(const LayerSpec&) const = default;
};

inline constexpr int kNoRope = -1;

/// How the rows of a text become one: GGUF's numbers. rank: the first row goes through the classification head.
enum class Pooling : std::uint8_t { none, mean, cls, last, rank };

/// What an encoder's classification head does between its two matrices.
enum class HeadActivation : std::uint8_t { tanh, gelu };

struct ArchSpec {
  std::string family;      // "llama", "qwen2", ...
  std::string name;        // general.name, for people
  std::int64_t vocab = 0;  // rows of the embedding
  std::int64_t hidden = 0;
  std::int64_t context = 0;         // trained length
  std::int64_t usable_context = 0;  // the length that a run may reach: some rotary scalings depend on it
  NormKind norm = NormKind::rms;
  float norm_eps = 1e-5f;
  NormKind qk_norm_kind = NormKind::rms;
  std::vector<RopeSpec> ropes;  // most models: one
  std::int64_t learned_positions =
      0;  // rows of a table of position embeddings, added to the tokens'; 0: none
  std::int64_t skipped_positions = 0;  // rows of a checkpoint's table before the first that a token gets
  bool tied_head = false;
  bool causal = true;  // false: an encoder, whose tokens see all of a text, and which gives rows, not logits
  Pooling pooling = Pooling::none;
  int token_types = 0;  // rows of a table of segments, added to the tokens'; 0: none
  HeadActivation head_activation = HeadActivation::tanh;
  int labels = 0;                       // of the classification head; 0: none
  Pooling head_pooling = Pooling::cls;  // what it reads of a text: the first row, or the mean
  float embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  float logit_soft_cap = 0;
  std::vector<LayerSpec> layers;

  bool operator==(const ArchSpec&) const = default;
};

}  // namespace lithe::models
