// Register tiles for q8_0 pages on vpdpbusd, in place. Per target; empty where the instruction is missing.
//
// Scores: the query is rounded to 8 bits per 32 channels; products of codes are summed exactly in integers.
// Weighted sum: a weight times its value's scale becomes 16 bits, relative to the largest scale that the line sees
// (weights are at most 1), as two unsigned bytes. Integer sums have no order, so promise 1 is free here. What the
// rounding costs is measured in docs/performance.md.
#include <algorithm>
#include <cmath>

#include "kernels/attention_blocks-inl.h"
#include "kernels/attention_tiles-inl.h"
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

inline constexpr bool kIntegerTiles = HWY_TARGET == HWY_AVX3;

#if HWY_TARGET == HWY_AVX3

inline constexpr int kInt8Lines = 6;  // lines of a register tile

/// Queries of a tile of kTileLines lines.
struct Int8Queries {
  std::int32_t* codes;    // [key_dim / 4][kTileLines], four signed bytes each
  std::int32_t* offsets;  // [groups][kTileLines]: -128 * sum of codes, since key codes are 128 too big
  float* scales;          // [groups][kTileLines]
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
    const __m512 inverse = _mm512_set1_ps(largest > 0 ? 127.0f / largest : 0.0f);
    const __m512i c0 = _mm512_cvtps_epi32(_mm512_mul_ps(x0, inverse));
    const __m512i c1 = _mm512_cvtps_epi32(_mm512_mul_ps(x1, inverse));
    const std::int32_t sum = hn::GetLane(hn::SumOfLanes(di, hn::Vec<decltype(di)>{_mm512_add_epi32(c0, c1)}));
    std::int32_t quads[8];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(quads), _mm512_cvtepi32_epi8(c0));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(quads + 4), _mm512_cvtepi32_epi8(c1));
    std::int32_t* codes = out.codes + begin / 4 * kTileLines + line;
    for (std::int64_t quad = 0; quad * 4 < left; ++quad) codes[quad * kTileLines] = quads[quad];
    out.offsets[group * kTileLines + line] = -128 * sum;
    out.scales[group * kTileLines + line] = largest / 127.0f + fault;
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
          unroll<V>([&](auto j) LITHE_SIMD { sum[l][j] = _mm512_dpbusd_epi32(sum[l][j], key[j], x); });
        });
      }
      unroll<V>([&](auto j) LITHE_SIMD {
        const __m512 key_scale = _mm512_cvtph_ps(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at[j] + block.key_scales + group * 32)));
        unroll<L>([&](auto l) LITHE_SIMD {
          const __m512 scale = _mm512_mul_ps(key_scale, _mm512_set1_ps(q.scales[per_line + l]));
          total[l][j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[l][j]), scale, total[l][j]);
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

/// p: [kKeyBlock] weights of keys [begin, end), zeros around them up to multiples of 64; value_scales: [kKeyBlock].
/// Writes the bytes of keys [first, last), multiples of 16, zeros for those the line does not see.
inline void quantize_weights(const float* p, const float* value_scales, std::int64_t begin, std::int64_t end,
                             std::int64_t first, std::int64_t last, int line, const Int8Weights& out) {
  std::uint8_t* high = out.high + line * kKeyBlock;
  std::uint8_t* low = out.low + line * kKeyBlock;
  __m512 largest = _mm512_setzero_ps(), fault = largest;  // fault: NaN if a seen value is not finite
  const auto mask_of = [&](std::int64_t i) LITHE_SIMD {
    const __m512i at =
        _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(i)),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    return static_cast<__mmask16>(_mm512_cmpge_epi32_mask(at, _mm512_set1_epi32(static_cast<int>(begin))) &
                                  _mm512_cmplt_epi32_mask(at, _mm512_set1_epi32(static_cast<int>(end))));
  };
  for (std::int64_t i = begin / 16 * 16; i < end; i += 16) {
    const __m512 scale = _mm512_maskz_loadu_ps(mask_of(i), value_scales + i);
    largest = _mm512_max_ps(largest, scale);
    fault = _mm512_fmadd_ps(scale, _mm512_setzero_ps(), fault);
  }
  HWY_ALIGN float lanes[16];
  _mm512_store_ps(lanes, largest);
  const float top = *std::max_element(lanes, lanes + 16);
  const __m512 unit = _mm512_set1_ps(top > 0 ? 65535.0f / top : 0.0f);
  for (std::int64_t i = first; i < last; i += 16) {
    __m512i code = _mm512_setzero_si512();
    if (i + 16 > begin && i < end) {
      const __m512 scale = _mm512_maskz_mul_ps(mask_of(i), _mm512_load_ps(value_scales + i), unit);
      code = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_load_ps(p + i), scale));
    }
    _mm_store_si128(reinterpret_cast<__m128i*>(high + i), _mm512_cvtepi32_epi8(_mm512_srli_epi32(code, 8)));
    _mm_store_si128(reinterpret_cast<__m128i*>(low + i), _mm512_cvtepi32_epi8(code));
  }
  out.scales[line] = top / 65535.0f + hn::GetLane(hn::SumOfLanes(Floats(), FloatVec{fault}));
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
          high[l][j] = _mm512_dpbusd_epi32(high[l][j], h, value[j]);
          low[l][j] = _mm512_dpbusd_epi32(low[l][j], w, value[j]);
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

/// One block for a tile of up to kTileLines lines: part gets max, sum and output of every line.
/// begin, end: the keys that each line sees, equal when it sees none; scores: [kTileLines] of ScoreStride.
inline void attend_int8(const Int8Queries& q, int lines, std::int64_t key_dim, const Int8Block& block,
                        const float* value_scales, const std::int64_t* begin, const std::int64_t* end,
                        float soft_cap, float* scores, const Int8Weights& weights, const State& part) {
  std::int64_t first = kKeyBlock, last = 0;
  for (int l = 0; l < lines; ++l) {
    if (begin[l] == end[l]) continue;
    first = std::min(first, begin[l] / 16 * 16);
    last = std::max(last, (end[l] + 15) / 16 * 16);
  }
  if (first >= last) return;
  for_int8_tiles(lines, [&](auto tile, int at) LITHE_SIMD {
    constexpr int kL = decltype(tile)::value, kV = kL == 6 ? 2 : 4;
    int8_score_tile<kL, kV>(q, at, key_dim, block, first / 16 / kV * kV, (last / 16 + kV - 1) / kV * kV,
                            scores + at * ScoreStride::value);
  });
  for (int l = 0; l < lines; ++l) {
    MaxSum result{kMinusInfinity, 0};
    float* p = scores + l * ScoreStride::value;
    if (begin[l] != end[l]) result = softmax_line(p, begin[l], end[l], soft_cap);
    const bool none = result.max == kMinusInfinity;
    quantize_weights(p, value_scales, none ? 0 : begin[l], none ? 0 : end[l], first, last, l, weights);
    if (std::isnan(result.sum)) weights.scales[l] = result.sum;
    part.max[l] = result.max;
    part.sum[l] = result.sum;
  }
  for_int8_tiles(lines, [&](auto tile, int at) LITHE_SIMD {
    constexpr int kL = decltype(tile)::value, kV = kL == 6 ? 2 : 4;
    int8_value_tile<kL, kV>(weights, at, block, first, last, part.output + at * part.stride);
  });
}

#endif  // HWY_TARGET == HWY_AVX3

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_ATTENTION_INT8_INL_H
