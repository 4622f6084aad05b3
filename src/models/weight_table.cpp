#include "models/weight_table.h"

#include "base/check.h"

namespace lithe::models {

std::int64_t dim_length(Dim dim, const ArchSpec& spec, const LayerSpec& layer) {
  switch (dim) {
    case Dim::none:
      return 1;
    case Dim::hidden:
      return spec.hidden;
    case Dim::vocab:
      return spec.vocab;
    case Dim::q_out:
      return std::int64_t{layer.heads} * layer.head_dim;
    case Dim::k_out:
      return std::int64_t{layer.kv_heads} * layer.head_dim;
    case Dim::v_out:
      return std::int64_t{layer.kv_heads} * layer.value_dim;
    case Dim::attn_in:
      return std::int64_t{layer.heads} * layer.value_dim;
    case Dim::head_dim:
      return layer.head_dim;
    case Dim::rope_pairs:
      return spec.rope.dim / 2;
    case Dim::ffn:
      return layer.ffn_dim;
  }
  LITHE_CHECK(false);
}

std::string layer_name(std::string_view pattern, std::int64_t layer) {
  const std::size_t hole = pattern.find("{}");
  if (hole == std::string_view::npos) return std::string(pattern);
  return std::string(pattern.substr(0, hole)) + std::to_string(layer) + std::string(pattern.substr(hole + 2));
}

}  // namespace lithe::models
