// Register tiles for q8_0 pages on vpdpbusd, in place. Per target; empty where the instruction is missing.
//
// Scores: the query is rounded to 8 bits per 32 channels; products of codes are summed exactly in integers.
// Weighted sum: a weight times its value's scale becomes 16 bits, relative to the largest scale that the line sees
// (weights are at most 1), as two unsigned bytes. Integer sums have no order, so promise 1 is free here. What the
// rounding costs is measured in docs/performance.md.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/attention_blocks-inl.h"
#include "kernels/attention_scratch-inl.h"
#include "kernels/kv_layout.h"
#include "kernels/math-inl.h"
#include "kernels/simd-inl.h"

#if defined(LITHE_KERNELS_ATTENTION_INT8_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_ATTENTION_INT8_INL_H
#undef LITHE_KERNELS_ATTENTION_INT8_INL_H
#else
#define LITHE_KERNELS_ATTENTION_INT8_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

inline constexpr int kInt8Lines = 6;  // lines of a register tile

/// sum + products of unsigned and signed bytes, four a lane. Not the intrinsic: GCC 12 copies its accumulators.
HWY_INLINE __m512i dot_bytes(__m512i sum, __m512i unsigned_bytes, __m512i signed_bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
  return sum;
}

// Sums start from the bits of this float: as many units above it they end, as a float. |sum| < 2^22 here.
inline constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
inline constexpr std::int32_t kMagicBits = 0x4b400000;

/// Queries of a tile of kTileLines lines.
struct Int8Queries {
  std::int32_t* codes;  // [key_dim / 4][kTileLines], four signed bytes each
  std::int32_t*
      offsets;    // [groups][kTileLines]: kMagicBits - 128 * sum of codes, since key codes are 128 too big
  float* scales;  // [groups][kTileLines][2]: scale, and -kMagic * scale
};

/// q * scale of one line, q: [key_dim] -> column `line` of the tile.
inline void quantize_query(const float* q, float scale, std::int64_t dim, std::int64_t line,
                           const Int8Queries& out) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  for (std::int64_t begin = 0; begin < dim; begin += 32) {
    const std::int64_t left = std::min<std::int64_t>(32, dim - begin), group = begin / 32;
    const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << left) - 1);
    const __m512 factor = _mm512_set1_ps(scale);
    const __m512 x0 = _mm512_mul_ps(_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), q + begin), factor);
    const __m512 x1 =
        _mm512_mul_ps(_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), q + begin + 16), factor);
    const auto abs = hn::Max(hn::Abs(FloatVec{x0}), hn::Abs(FloatVec{x1}));
    const float largest = hn::GetLane(hn::MaxOfLanes(d, abs));
    // 0, or NaN if a value is not finite: such a query must not come out as a number.
    const float fault = hn::GetLane(hn::SumOfLanes(d, hn::Mul(FloatVec{_mm512_add_ps(x0, x1)}, hn::Zero(d))));
    const __m512 inverse = _mm512_set1_ps(largest > 1e-30f ? 127.0f / largest : 0.0f);
    const __m512i c0 = _mm512_cvtps_epi32(_mm512_mul_ps(x0, inverse));
    const __m512i c1 = _mm512_cvtps_epi32(_mm512_mul_ps(x1, inverse));
    const std::int32_t sum = hn::GetLane(hn::SumOfLanes(di, hn::Vec<decltype(di)>{_mm512_add_epi32(c0, c1)}));
    std::int32_t quads[8];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(quads), _mm512_cvtepi32_epi8(c0));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(quads + 4), _mm512_cvtepi32_epi8(c1));
    std::int32_t* codes = out.codes + begin / 4 * kTileLines + line;
    for (std::int64_t quad = 0; quad * 4 < left; ++quad) codes[quad * kTileLines] = quads[quad];
    // Unsigned: the codes of a query that is not finite are no codes.
    out.offsets[group * kTileLines + line] = static_cast<std::int32_t>(
        static_cast<std::uint32_t>(kMagicBits) - 128u * static_cast<std::uint32_t>(sum));
    // Two bits short, so that kMagic times it is exact.
    const float unit = std::bit_cast<float>(std::bit_cast<std::uint32_t>(largest / 127.0f) & ~3u) + fault;
    out.scales[(group * kTileLines + line) * 2] = unit;
    out.scales[(group * kTileLines + line) * 2 + 1] = -kMagic * unit;
  }
}

/// Where a block's codes and scales begin, in the pages.
struct Int8Block {
  const std::byte* panels[kBlockPanels];
  const std::byte* values[kBlockPages];  // [token/4][padded value_dim][4]
  std::size_t key_scales;                // in a panel
  std::int64_t padded_value_dim;
};

template <int L, int V>
HWY_NOINLINE void int8_score_tile(const Int8Queries& q, std::int64_t first_line, std::int64_t dim,
                                  const Int8Block& block, std::int64_t begin, std::int64_t end, float* out) {
  const std::int64_t quads = (dim + 3) / 4;
  for (std::int64_t panel = begin; panel < end; panel += V) {
    __m512 total[L][V];
    unroll<L>([&](auto l)
                  LITHE_SIMD { unroll<V>([&](auto j) LITHE_SIMD { total[l][j] = _mm512_setzero_ps(); }); });
    const std::byte* at[V];
    for (int j = 0; j < V; ++j) at[j] = block.panels[panel + j];
    for (std::int64_t group = 0; group * 8 < quads; ++group) {
      const std::int64_t per_line = group * kTileLines + first_line;
      __m512i sum[L][V];
      unroll<L>([&](auto l) LITHE_SIMD {
        const __m512i offset = _mm512_set1_epi32(q.offsets[per_line + l]);
        unroll<V>([&](auto j) LITHE_SIMD { sum[l][j] = offset; });
      });
      for (std::int64_t quad = group * 8; quad < std::min(group * 8 + 8, quads); ++quad) {
        __m512i key[V];
        unroll<V>([&](auto j) LITHE_SIMD { key[j] = _mm512_loadu_si512(at[j] + quad * 64); });
        const std::int32_t* codes = q.codes + quad * kTileLines + first_line;
        unroll<L>([&](auto l) LITHE_SIMD {
          const __m512i x = _mm512_set1_epi32(codes[l]);
          unroll<V>([&](auto j) LITHE_SIMD { sum[l][j] = dot_bytes(sum[l][j], key[j], x); });
        });
      }
      const float* scales = q.scales + per_line * 2;
      unroll<V>([&](auto j) LITHE_SIMD {
        const __m512 key_scale = _mm512_cvtph_ps(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at[j] + block.key_scales + group * 32)));
        unroll<L>([&](auto l) LITHE_SIMD {
          const __m512 products =
              _mm512_fmadd_ps(_mm512_castsi512_ps(sum[l][j]), _mm512_set1_ps(scales[l * 2]),
                              _mm512_set1_ps(scales[l * 2 + 1]));
          total[l][j] = _mm512_fmadd_ps(products, key_scale, total[l][j]);
        });
      });
    }
    unroll<L>([&](auto l) LITHE_SIMD {
      unroll<V>([&](auto j) LITHE_SIMD {
        _mm512_store_ps(out + l * ScoreStride::value + (panel + j) * kKeyLanes, total[l][j]);
      });
    });
  }
}

/// Weights of a tile as bytes: [line][256] of high, then of low halves.
struct Int8Weights {
  std::uint8_t* high;
  std::uint8_t* low;
  float* scales;  // [kTileLines]: what a unit of the low half is worth
};

/// What turns the weights of a line into 16-bit codes: 65535 * a key's value scale / the largest that the line sees.
class WeightUnits {
 public:
  static constexpr std::int64_t kFloats = 2 * kKeyBlock;
  WeightUnits() = default;
  /// memory: [kFloats], aligned
  explicit WeightUnits(float* memory) : value_scales_(memory), units_(memory + kKeyBlock) {}

  /// [kKeyBlock], to be filled for the next block.
  float* start_block() {
    begin_ = end_ = 0;
    return value_scales_;
  }

  /// For lines that see keys [begin, end), begin < end, of the block. Lines of a row, and most rows, share a range.
  void set_range(std::int64_t begin, std::int64_t end) {
    if (begin == begin_ && end == end_) return;
    begin_ = begin, end_ = end;
    __m512 largest = _mm512_setzero_ps(), fault = largest;  // fault: NaN if a seen scale is not finite
    for (std::int64_t i = begin / 16 * 16; i < end; i += 16) {
      const __m512 scale = _mm512_maskz_loadu_ps(seen(i), value_scales_ + i);
      largest = _mm512_max_ps(largest, scale);
      fault = _mm512_fmadd_ps(scale, _mm512_setzero_ps(), fault);
    }
    const float top = hn::GetLane(hn::MaxOfLanes(Floats(), FloatVec{largest}));
    scale_ = top / 65535.0f + hn::GetLane(hn::SumOfLanes(Floats(), FloatVec{fault}));
    const __m512 unit = _mm512_set1_ps(top > 0 ? 65535.0f / top : 0.0f);
    for (std::int64_t i = begin / 64 * 64; i < end; i += 16) {
      _mm512_store_ps(units_ + i, _mm512_maskz_mul_ps(seen(i), _mm512_load_ps(value_scales_ + i), unit));
    }
    for (std::int64_t i = (end + 15) / 16 * 16; i % 64 != 0; i += 16) {
      _mm512_store_ps(units_ + i, _mm512_setzero_ps());
    }
  }
  const float* units() const { return units_; }  // zero for unseen keys, as far as a softmax step reaches
  float scale() const { return scale_; }

 private:
  __mmask16 seen(std::int64_t i) const {
    const std::int64_t low = std::clamp<std::int64_t>(begin_ - i, 0, 16);
    const std::int64_t high = std::clamp<std::int64_t>(end_ - i, 0, 16);
    return static_cast<__mmask16>((1u << high) - (1u << low));
  }

  float *value_scales_ = nullptr, *units_ = nullptr, scale_ = 0;
  std::int64_t begin_ = 0, end_ = 0;
};

/// Weights of keys i to i + 63 as bytes.
HWY_INLINE void store_weight_codes(const FloatVec (&p)[4], const float* units, std::uint8_t* high,
                                   std::uint8_t* low) {
  __m512i code[4];
  unroll<4>([&](auto j) LITHE_SIMD {
    code[j] = _mm512_cvtps_epi32(_mm512_mul_ps(p[j].raw, _mm512_load_ps(units + j * 16)));
  });
  // Packing works within quarters of a register: it leaves the four keys of quad q of vector v at q * 4 + v.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i first = _mm512_packus_epi32(code[0], code[1]);
  const __m512i second = _mm512_packus_epi32(code[2], code[3]);
  const __m512i byte = _mm512_set1_epi16(255);
  const __m512i tops = _mm512_packus_epi16(_mm512_srli_epi16(first, 8), _mm512_srli_epi16(second, 8));
  const __m512i bottoms = _mm512_packus_epi16(_mm512_and_si512(first, byte), _mm512_and_si512(second, byte));
  _mm512_store_si512(high, _mm512_permutexvar_epi32(order, tops));
  _mm512_store_si512(low, _mm512_permutexvar_epi32(order, bottoms));
}

/// The softmax of one line, its weights as bytes for keys [first, last), multiples of 64: zeros for unseen ones.
HWY_NOINLINE MaxSum int8_softmax_line(float* s, std::int64_t begin, std::int64_t end, float soft_cap,
                                      std::int64_t first, std::int64_t last, std::int64_t line,
                                      WeightUnits& units, const Int8Weights& out) {
  std::uint8_t* high = out.high + line * kKeyBlock;
  std::uint8_t* low = out.low + line * kKeyBlock;
  MaxSum result{kMinusInfinity, 0};
  std::int64_t done_begin = last, done_end = last;
  if (begin != end) {
    units.set_range(begin, end);
    result = softmax(s, begin, end, soft_cap, [&](std::int64_t i, const FloatVec(&p)[4]) LITHE_SIMD {
      store_weight_codes(p, units.units() + i, high + i, low + i);
    });
    if (result.max != kMinusInfinity) done_begin = begin / 64 * 64, done_end = (end + 63) / 64 * 64;
  }
  for (std::int64_t i = first; i < last; i += 64) {
    if (i >= done_begin && i < done_end) continue;
    _mm512_store_si512(high + i, _mm512_setzero_si512());
    _mm512_store_si512(low + i, _mm512_setzero_si512());
  }
  out.scales[line] = std::isnan(result.sum) ? result.sum : done_begin < done_end ? units.scale() : 0.0f;
  return result;
}

/// out[l][c..] = sum over keys [begin, end), multiples of 16, of weight * code, for V vectors of channels.
template <int L, int V>
HWY_INLINE void int8_value_columns(const Int8Weights& weights, int first_line, const Int8Block& block,
                                   std::int64_t begin, std::int64_t end, std::int64_t channel, float* out) {
  __m512i high[L][V], low[L][V];
  unroll<L>([&](auto l) LITHE_SIMD {
    unroll<V>([&](auto j) LITHE_SIMD { high[l][j] = low[l][j] = _mm512_setzero_si512(); });
  });
  const std::uint8_t* high_codes = weights.high + first_line * kKeyBlock;
  const std::uint8_t* low_codes = weights.low + first_line * kKeyBlock;
  for (std::int64_t key = begin; key < end;) {
    const std::int64_t stop = std::min(end, (key / kPageTokens + 1) * kPageTokens);
    const std::byte* row =
        block.values[key / kPageTokens] + (key % kPageTokens / 4 * block.padded_value_dim + channel) * 4;
    for (; key < stop; key += 4, row += block.padded_value_dim * 4) {
      __m512i value[V];
      unroll<V>([&](auto j) LITHE_SIMD { value[j] = _mm512_loadu_si512(row + j * 64); });
      unroll<L>([&](auto l) LITHE_SIMD {
        std::int32_t four[2];
        std::memcpy(&four[0], high_codes + l * kKeyBlock + key, 4);
        std::memcpy(&four[1], low_codes + l * kKeyBlock + key, 4);
        const __m512i h = _mm512_set1_epi32(four[0]), w = _mm512_set1_epi32(four[1]);
        unroll<V>([&](auto j) LITHE_SIMD {
          high[l][j] = dot_bytes(high[l][j], h, value[j]);
          low[l][j] = dot_bytes(low[l][j], w, value[j]);
        });
      });
    }
  }
  unroll<L>([&](auto l) LITHE_SIMD {
    const __m512 scale = _mm512_set1_ps(weights.scales[first_line + l]);
    unroll<V>([&](auto j) LITHE_SIMD {
      const __m512 both = _mm512_fmadd_ps(_mm512_cvtepi32_ps(high[l][j]), _mm512_set1_ps(256.0f),
                                          _mm512_cvtepi32_ps(low[l][j]));
      _mm512_store_ps(out + l * block.padded_value_dim + channel + j * 16, _mm512_mul_ps(both, scale));
    });
  });
}

template <int L, int V>
HWY_NOINLINE void int8_value_tile(const Int8Weights& weights, int first_line, const Int8Block& block,
                                  std::int64_t begin, std::int64_t end, float* out) {
  std::int64_t c = 0;
  for (; c + V * 16 <= block.padded_value_dim; c += V * 16) {
    int8_value_columns<L, V>(weights, first_line, block, begin, end, c, out);
  }
  for (; c < block.padded_value_dim; c += 16) {
    int8_value_columns<L, 1>(weights, first_line, block, begin, end, c, out);
  }
}

/// f(integral_constant L, first line) in tiles of 6, 3, 2 or 1.
template <typename F>
HWY_INLINE void for_int8_tiles(int lines, F f) {
  int at = 0;
  for (; lines - at >= 6; at += 6) f(std::integral_constant<int, 6>(), at);
  for (; lines - at >= 3; at += 3) f(std::integral_constant<int, 3>(), at);
  if (lines - at == 2) f(std::integral_constant<int, 2>(), at);
  if (lines - at == 1) f(std::integral_constant<int, 1>(), at);
}

/// What lines and a block become for these tiles. Scratch is taken from a carver.
class Int8FlashTile {
 public:
  static std::int64_t floats(const KvShape& shape, std::int64_t lines) {
    const Sizes sizes(shape);
    return tiles(lines) * (sizes.codes + sizes.offsets + sizes.scales) +
           2 * Carver::floats<std::uint8_t>(kTileLines * kKeyBlock) + kLineSlots + WeightUnits::kFloats;
  }

  Int8FlashTile(const KvShape& shape, std::int64_t lines, Carver& carver)
      : sizes_(shape), key_dim_(shape.key_dim) {
    codes_ = carver.take<std::int32_t>(tiles(lines) * sizes_.codes);
    offsets_ = carver.take<std::int32_t>(tiles(lines) * sizes_.offsets);
    scales_ = carver.take(tiles(lines) * sizes_.scales);
    weights_.high = carver.take<std::uint8_t>(kTileLines * kKeyBlock);
    weights_.low = carver.take<std::uint8_t>(kTileLines * kKeyBlock);
    weights_.scales = carver.take(kLineSlots);
    units_ = WeightUnits(carver.take(WeightUnits::kFloats));
  }

  void set_query(std::int64_t line, const float* q, float scale) {
    quantize_query(q, scale, key_dim_, line % kTileLines, queries(line));
  }

  void set_block(const BlockReader& reader, const BlockRange& range, std::int64_t padded_value_dim) {
    block_.key_scales = reader.layout().key_scales;
    block_.padded_value_dim = padded_value_dim;
    float* const value_scales = units_.start_block();
    for (std::int64_t i = 0; i < kBlockPages; ++i) {
      const std::byte* page = reader.page(range, i);
      for (std::int64_t panel = 0; panel < kPagePanels; ++panel) {
        block_.panels[i * kPagePanels + panel] =
            page + static_cast<std::size_t>(panel) * reader.layout().key_panel_bytes;
      }
      block_.values[i] = page + reader.layout().values;
      half_to_float(reinterpret_cast<const Half*>(page + reader.layout().value_scales), kPageTokens,
                    value_scales + i * kPageTokens);
    }
  }

  /// part gets max, sum and output of every line for the block. scores: [kTileLines] of ScoreStride.
  void attend(const TileRange& tile, float soft_cap, float* scores, const State& part) {
    const KeyRange seen = tile.panels();
    if (seen.begin >= seen.end) return;
    const Int8Queries q = queries(tile.line);
    for_int8_tiles(tile.count, [&](auto size, int at) LITHE_SIMD {
      constexpr int kL = decltype(size)::value, kV = kL == 6 ? 2 : 4;
      int8_score_tile<kL, kV>(q, at, key_dim_, block_, seen.begin / 16 / kV * kV,
                              (seen.end / 16 + kV - 1) / kV * kV, scores + at * ScoreStride::value);
    });
    for (int l = 0; l < tile.count; ++l) {
      const MaxSum result =
          int8_softmax_line(scores + l * ScoreStride::value, tile.begin[l], tile.end[l], soft_cap,
                            seen.begin / 64 * 64, (seen.end + 63) / 64 * 64, l, units_, weights_);
      part.max[l] = result.max;
      part.sum[l] = result.sum;
    }
    for_int8_tiles(tile.count, [&](auto size, int at) LITHE_SIMD {
      constexpr int kL = decltype(size)::value, kV = kL == 6 ? 2 : 4;
      int8_value_tile<kL, kV>(weights_, at, block_, seen.begin, seen.end, part.output + at * part.stride);
    });
  }

 private:
  struct Sizes {  // of a tile, in floats
    Sizes() = default;
    explicit Sizes(const KvShape& shape)
        : codes(padded((shape.key_dim + 3) / 4 * kTileLines)),
          offsets(padded((shape.key_dim + 31) / 32 * kTileLines)),
          scales(padded((shape.key_dim + 31) / 32 * kTileLines * 2)) {}
    std::int64_t codes = 0, offsets = 0, scales = 0;
  };
  Int8Queries queries(std::int64_t line) const {
    const std::int64_t tile = line / kTileLines;
    return {codes_ + tile * sizes_.codes, offsets_ + tile * sizes_.offsets, scales_ + tile * sizes_.scales};
  }

  Sizes sizes_;
  std::int64_t key_dim_ = 0;
  std::int32_t *codes_ = nullptr, *offsets_ = nullptr;
  float* scales_ = nullptr;
  WeightUnits units_;
  Int8Weights weights_{};
  Int8Block block_{};
};

#endif  // HWY_TARGET == HWY_AVX3

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_ATTENTION_INT8_INL_H
