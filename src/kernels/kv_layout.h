// Where a key or a value lies inside a page. The one description of the layout that every kernel and test
// uses.
//
// A layer of a page holds, kv head after kv head, the keys of kPageTokens tokens, then their values:
//
//   f32, f16   keys    element[token/16][channel][16]                    lane = token % 16
//              values  element[token][channel]
//   q8_0       keys    per 16 tokens: code[channel/4][16][4], offset binary (value + 128, what vpdpbusd eats),
//                      then f16 scale[channel/32][16]; channels beyond key_dim hold 128
//              values  code[token/4][channel][4], signed, channels padded to 16, then f16 scale[token]: one for the
//                      whole row, so that a weight times its scale serves every channel
//
// With latent keys there are no values: they are the keys' first channels, as stored.
// A q8_0 value is scale * code, exact in f32 (11 + 7 bits). Every part starts at a multiple of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"

namespace lithe::kernels {

inline constexpr int kKeyLanes = 16;                         // keys interleaved in a panel
inline constexpr int kPagePanels = kPageTokens / kKeyLanes;  // key panels per page
inline constexpr int kBlockPages = kKeyBlock / kPageTokens;
inline constexpr int kBlockPanels = kKeyBlock / kKeyLanes;

struct KvLayout {
  explicit KvLayout(const KvShape& shape);

  int key_groups = 0;               // q8_0: groups of 32 channels that share a scale
  std::size_t key_panel_bytes = 0;  // 16 keys
  std::size_t key_scales = 0;       // q8_0: offset of the scales in a panel
  std::size_t value_row_bytes = 0;  // one token's values; q8_0: a quarter of four tokens' codes
  std::size_t values = 0;           // offset of the values in a head
  std::size_t value_scales = 0;     // q8_0: offset of the values' scales in a head
  std::size_t head_bytes = 0;       // all of one kv head in a page
};

/// The part of a view that one kv head sees.
class KvHead {
 public:
  KvHead(const KvView& view, const KvLayout& layout, int kv_head)
      : base_(view.base + static_cast<std::size_t>(kv_head) * layout.head_bytes),
        stride_(view.page_stride),
        table_(view.table) {}

  /// Keys, then values, of the page that holds tokens [page * kPageTokens, ...).
  std::byte* page(std::int64_t page) const {
    return base_ + static_cast<std::size_t>(table_[page]) * stride_;
  }

 private:
  std::byte* base_;
  std::size_t stride_;
  const std::int32_t* table_;
};

}  // namespace lithe::kernels
