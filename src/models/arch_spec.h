// An architecture is plain data: one description per family, filled from the file's parameters. The decoder
// (models/decoder.h) is written once and reads only this. docs/adding-a-model.md walks through a new one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/ffn.h"
#include "layers/norm.h"
#include "layers/rope.h"

namespace lithe::models {

using layers::Activation;
using layers::FfnKind;
using layers::NormKind;
using layers::RopeKind;
using layers::RopeScaling;
using layers::RopeSpec;
enum class NormPlace : std::uint8_t { pre, post, pre_and_post };

struct LayerSpec {
  int heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  bool qkv_bias = false, out_bias = false, qk_norm = false;
  std::int64_t window = 0;  // 0 = full attention
  int ffn_dim = 0;
  FfnKind ffn = FfnKind::gated;
  Activation activation = Activation::silu;
  float attention_scale = 0;  // on q.k
  float soft_cap = 0;
};

struct ArchSpec {
  std::string family;      // "llama", "qwen2", ...
  std::string name;        // general.name, for people
  std::int64_t vocab = 0;  // rows of the embedding
  std::int64_t hidden = 0;
  std::int64_t context = 0;  // trained length
  NormKind norm = NormKind::rms;
  NormPlace norm_place = NormPlace::pre;
  float norm_eps = 1e-5f;
  RopeSpec rope;
  bool tied_head = false;
  float embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  float logit_soft_cap = 0;
  std::vector<LayerSpec> layers;
};

}  // namespace lithe::models
