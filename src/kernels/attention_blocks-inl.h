// Key blocks for the tiles: read in place where that is fastest, otherwise decoded into scratch. Per target.
#include <algorithm>

#include "kernels/attention_tiles-inl.h"
#include "kernels/kv_layout.h"
#include "kernels/math-inl.h"
#include "kernels/simd-inl.h"

#if defined(LITHE_KERNELS_ATTENTION_BLOCKS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_ATTENTION_BLOCKS_INL_H
#undef LITHE_KERNELS_ATTENTION_BLOCKS_INL_H
#else
#define LITHE_KERNELS_ATTENTION_BLOCKS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

/// Keys and values [begin, end) of one block, positions within the block; begin < end.
struct BlockRange {
  std::int64_t block, begin, end;
};

HWY_INLINE void half_to_float(const Half* from, std::int64_t n, float* to) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(load_as_float(from + i), Floats(), to + i);
  if (i < n) {
    Half tail[kLanes] = {};
    std::memcpy(tail, from + i, static_cast<std::size_t>(n - i) * sizeof(Half));
    store_first(load_as_float(tail), to + i, n - i);
  }
}

/// A q8_0 key panel -> [dim][16].
HWY_INLINE void decode_key_panel(const std::byte* panel, const KvLayout& layout, std::int64_t dim,
                                 float* out) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const hn::RebindToUnsigned<Floats> du;
  const auto* codes = reinterpret_cast<const std::uint32_t*>(panel);
  const auto* scales = reinterpret_cast<const Half*>(panel + layout.key_scales);
  const auto low_byte = hn::Set(du, 255u);
  const auto zero_point = hn::Set(di, 128);
  for (std::int64_t lane = 0; lane < kKeyLanes; lane += kLanes) {
    for (std::int64_t quad = 0; quad * 4 < dim; ++quad) {
      const auto scale = load_as_float(scales + quad / 8 * kKeyLanes + lane);
      const auto four = hn::LoadU(du, codes + quad * kKeyLanes + lane);
      const auto put = [&](std::int64_t channel, hn::Vec<decltype(du)> code) LITHE_SIMD {
        if (channel >= dim) return;
        const auto value = hn::ConvertTo(d, hn::Sub(hn::BitCast(di, code), zero_point));
        hn::StoreU(hn::Mul(value, scale), d, out + channel * kKeyLanes + lane);
      };
      put(quad * 4, hn::And(four, low_byte));
      put(quad * 4 + 1, hn::And(hn::ShiftRight<8>(four), low_byte));
      put(quad * 4 + 2, hn::And(hn::ShiftRight<16>(four), low_byte));
      put(quad * 4 + 3, hn::ShiftRight<24>(four));
    }
  }
}

/// Four q8_0 value rows -> [4][padded_dim], zeros behind dim.
HWY_INLINE void decode_value_rows(const std::byte* codes, const Half* scales, std::int64_t padded_dim,
                                  float* out) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  HWY_ALIGN float scale[std::max<std::int64_t>(4, kLanes)];
  Half four[std::max<std::int64_t>(4, kLanes)] = {};
  std::memcpy(four, scales, 4 * sizeof(Half));
  for (std::int64_t i = 0; i < 4; i += kLanes) hn::Store(load_as_float(four + i), d, scale + i);
  const auto* words = reinterpret_cast<const std::int32_t*>(codes);
  for (std::int64_t c = 0; c < padded_dim; c += kLanes) {
    const auto word = hn::LoadU(di, words + c);
    const auto put = [&](std::int64_t row, hn::Vec<decltype(di)> shifted) LITHE_SIMD {
      const auto value = hn::ConvertTo(d, hn::ShiftRight<24>(shifted));
      hn::StoreU(hn::Mul(value, hn::Set(d, scale[row])), d, out + row * padded_dim + c);
    };
    put(0, hn::ShiftLeft<24>(word));
    put(1, hn::ShiftLeft<16>(word));
    put(2, hn::ShiftLeft<8>(word));
    put(3, word);
  }
}

/// The first `dim` channels of a panel [..][16] as rows: out: [16][stride], zeros behind dim.
HWY_INLINE void turn_panel(const float* panel, std::int64_t dim, std::int64_t stride, float* out) {
  const hn::FixedTag<float, 4> d;
  std::int64_t c = 0;
  for (; c + 4 <= dim; c += 4) {
    for (std::int64_t lane = 0; lane < kKeyLanes; lane += 4) {
      const float* const from = panel + c * kKeyLanes + lane;
      float* const to = out + lane * stride + c;
      const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + kKeyLanes);
      const auto e = hn::LoadU(d, from + 2 * kKeyLanes), f = hn::LoadU(d, from + 3 * kKeyLanes);
      const auto low = hn::InterleaveLower(d, a, e), high = hn::InterleaveUpper(d, a, e);  // a0 e0 a1 e1
      const auto low2 = hn::InterleaveLower(d, b, f), high2 = hn::InterleaveUpper(d, b, f);
      hn::StoreU(hn::InterleaveLower(d, low, low2), d, to);  // a0 b0 e0 f0
      hn::StoreU(hn::InterleaveUpper(d, low, low2), d, to + stride);
      hn::StoreU(hn::InterleaveLower(d, high, high2), d, to + 2 * stride);
      hn::StoreU(hn::InterleaveUpper(d, high, high2), d, to + 3 * stride);
    }
  }
  for (; c < stride; ++c) {
    for (std::int64_t lane = 0; lane < kKeyLanes; ++lane)
      out[lane * stride + c] = c < dim ? panel[c * kKeyLanes + lane] : 0.0f;
  }
}

/// Where the tiles find a kv head's keys and values. page(range, i) is page i of the block, or the nearest that has
/// a key of the range.
class BlockReader {
 public:
  BlockReader(const KvView& view, int kv_head)
      : shape_(view.shape), layout_(view.shape), head_(view, layout_, kv_head) {}

  bool in_place_possible() const {
    return shape_.dtype != DType::q8_0 && !shape_.latent && shape_.value_dim % kKeyLanes == 0 &&
           (shape_.dtype == DType::f32 || HWY_TARGET != HWY_SSE4);
  }

  /// The pages themselves. T is their type. Of latent keys no values are there.
  template <typename T>
  Block<T> in_place(const BlockRange& range) const {
    Block<T> block;
    block.value_stride = shape_.value_dim;
    for (std::int64_t i = 0; i < kBlockPages; ++i) {
      const std::byte* page = this->page(range, i);
      for (std::int64_t panel = 0; panel < kPagePanels; ++panel) {
        block.panels[i * kPagePanels + panel] =
            reinterpret_cast<const T*>(page + static_cast<std::size_t>(panel) * layout_.key_panel_bytes);
      }
      block.pages[i] = reinterpret_cast<const T*>(page + layout_.values);
    }
    return block;
  }

  const KvLayout& layout() const { return layout_; }
  const std::byte* page(const BlockRange& range, std::int64_t i) const {
    return head_.page(range.block * kBlockPages +
                      std::clamp(i, range.begin / kPageTokens, (range.end - 1) / kPageTokens));
  }

  /// Lets the hardware begin on this block's values and the next one's keys (of `end` in all): left alone, it follows a
  /// stream up to the end of a memory page and waits there for a miss.
  void touch(const BlockRange& range, std::int64_t end) const {
    const auto start = [](const std::byte* at) {
      for (int line = 0; line < 3; ++line) __builtin_prefetch(at + line * 64, 0, 2);
    };
    const std::int64_t first = range.block * kBlockPages, pages = (end + kPageTokens - 1) / kPageTokens;
    for (std::int64_t i = first; i < std::min(pages, first + kBlockPages) && !shape_.latent; ++i)
      start(head_.page(i) + layout_.values);
    for (std::int64_t i = first + kBlockPages; i < std::min(pages, first + 2 * kBlockPages); ++i)
      start(head_.page(i));
  }

  /// Decoded to f32. keys: [kKeyBlock * key_dim], values: [kKeyBlock * padded_value_dim].
  Block<float> decoded(const BlockRange& range, float* keys, float* values) const {
    decode_keys(range, keys);
    if (shape_.latent) {
      turn_keys(range, keys, values);
    } else {
      decode_values(range, values);
    }
    Block<float> block;
    block.value_stride = padded_value_dim_;
    for (std::int64_t i = 0; i < kBlockPanels; ++i) block.panels[i] = keys + i * kKeyLanes * shape_.key_dim;
    for (std::int64_t i = 0; i < kBlockPages; ++i)
      block.pages[i] = values + i * kPageTokens * padded_value_dim_;
    return block;
  }

 private:
  void decode_keys(const BlockRange& range, float* keys) const {
    const std::int64_t elements = std::int64_t{shape_.key_dim} * kKeyLanes;
    for (std::int64_t panel = range.begin / kKeyLanes; panel * kKeyLanes < range.end; ++panel) {
      const std::byte* from = head_.page(range.block * kBlockPages + panel / kPagePanels) +
                              static_cast<std::size_t>(panel % kPagePanels) * layout_.key_panel_bytes;
      float* to = keys + panel * elements;
      switch (shape_.dtype) {
        case DType::f32:
          std::memcpy(to, from, static_cast<std::size_t>(elements) * sizeof(float));
          break;
        case DType::f16:
          half_to_float(reinterpret_cast<const Half*>(from), elements, to);
          break;
        default:
          decode_key_panel(from, layout_, shape_.key_dim, to);
      }
    }
  }

  void turn_keys(const BlockRange& range, const float* keys, float* values) const {
    for (std::int64_t panel = range.begin / kKeyLanes; panel * kKeyLanes < range.end; ++panel) {
      turn_panel(keys + panel * kKeyLanes * shape_.key_dim, shape_.value_dim, padded_value_dim_,
                 values + panel * kKeyLanes * padded_value_dim_);
    }
  }

  void decode_values(const BlockRange& range, float* values) const {
    const std::int64_t dim = shape_.value_dim, step = shape_.dtype == DType::q8_0 ? 4 : 1;
    for (std::int64_t key = range.begin / step * step; key < range.end; key += step) {
      const std::byte* page = head_.page(range.block * kBlockPages + key / kPageTokens);
      const auto token = static_cast<std::size_t>(key % kPageTokens);
      const std::byte* from = page + layout_.values + token * layout_.value_row_bytes;
      float* to = values + key * padded_value_dim_;
      switch (shape_.dtype) {
        case DType::f32:
          std::memcpy(to, from, static_cast<std::size_t>(dim) * sizeof(float));
          break;
        case DType::f16:
          half_to_float(reinterpret_cast<const Half*>(from), dim, to);
          break;
        default:
          decode_value_rows(from, reinterpret_cast<const Half*>(page + layout_.value_scales) + token,
                            padded_value_dim_, to);
          continue;
      }
      std::fill(to + dim, to + padded_value_dim_, 0.0f);
    }
  }

  KvShape shape_;
  KvLayout layout_;
  KvHead head_;
  std::int64_t padded_value_dim_ = (shape_.value_dim + kKeyLanes - 1) / kKeyLanes * kKeyLanes;
};

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_ATTENTION_BLOCKS_INL_H
