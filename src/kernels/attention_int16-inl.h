// Register tiles for f16 pages on vpdpwssd, twice the products of f32 an instruction. Per target; empty where the
// instruction is missing.
//
// A block becomes codes of 13 bits, a query codes of 14: 64 products of such a pair fit in 32 bits. Each key and each value
// has a scale of its own, relative to its largest channel, so that it does not depend on its neighbours; where f16 keeps 11
// bits of every number, the largest ones of a row keep more here, and small ones less. A weight times its value's scale
// becomes up to 15 bits, fewer the more keys share the attention, so that a block's sum fits in 32 bits too. Integer
// sums have no order; units belong to one row, and weights are summed at fixed positions: promise 1 holds. What the rounding costs is measured in docs/performance.md.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/attention_blocks-inl.h"
#include "kernels/attention_scratch-inl.h"
#include "kernels/attention_softmax-inl.h"
#include "kernels/kv_layout.h"
#include "kernels/simd-inl.h"

#if defined(LITHE_KERNELS_ATTENTION_INT16_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_ATTENTION_INT16_INL_H
#undef LITHE_KERNELS_ATTENTION_INT16_INL_H
#else
#define LITHE_KERNELS_ATTENTION_INT16_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

inline constexpr int kExactPairs =
    32;  // pairs of products that a 32-bit sum holds: 2 * 32 * 8191 * 4095 < 2^31
inline constexpr float kQueryCode = 8191;    // the largest code of a query
inline constexpr float kBlockCode = 4095;    // of a key or a value
inline constexpr float kWeightCode = 32767;  // of a weight
/// Of all weights of a block together, with half a unit of rounding for each: kBlockCode * (this + 128) < 2^31.
inline constexpr float kWeightCodes = 524160;

/// sum + products of signed 16-bit numbers, two a lane. Not the intrinsic: GCC 12 copies its accumulators.
HWY_INLINE __m512i dot_pairs(__m512i sum, __m512i a, __m512i b) {
  asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}

/// Codes of 16 halves in the low 16 bits of each lane: adding 1.5 * 2^23 rounds to an integer and leaves it there.
HWY_INLINE __m512i half_codes(__m256i halves, __m512 inverse) {
  return _mm512_castps_si512(_mm512_fmadd_ps(_mm512_cvtph_ps(halves), inverse, _mm512_set1_ps(12582912.0f)));
}

/// Codes of 16 halves beside those of 16 others: pair i holds both i-th ones.
HWY_INLINE __m512i pair_codes(__m256i even, __m512 even_inverse, __m256i odd, __m512 odd_inverse) {
  // Lane i: the low halves of both i-th lanes.
  alignas(64) static constexpr std::uint16_t kLowHalves[32] = {0,  32, 2,  34, 4,  36, 6,  38, 8,  40, 10,
                                                               42, 12, 44, 14, 46, 16, 48, 18, 50, 20, 52,
                                                               22, 54, 24, 56, 26, 58, 28, 60, 30, 62};
  return _mm512_permutex2var_epi16(half_codes(even, even_inverse), _mm512_load_si512(kLowHalves),
                                   half_codes(odd, odd_inverse));
}

/// The larger of magnitudes so far and those of 32 halves; their bits compare as integers, NaN above infinity.
HWY_INLINE __m512i larger_magnitude(__m512i largest, __m512i halves) {
  return _mm512_max_epu16(largest, _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff)));
}

/// The largest magnitude of each key of a panel [dim][16], as bits.
HWY_INLINE __m256i largest_of_keys(const Half* panel, std::int64_t dim) {
  __m512i largest[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  std::int64_t i = 0;
  for (; i + 4 <= dim; i += 4) {
    unroll<2>([&](auto j) LITHE_SIMD {
      largest[j] = larger_magnitude(largest[j], _mm512_loadu_si512(panel + (i + j * 2) * kKeyLanes));
    });
  }
  for (; i < dim; ++i) {
    const __m256i channel = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel + i * kKeyLanes));
    largest[0] = larger_magnitude(largest[0], _mm512_zextsi256_si512(channel));
  }
  largest[0] = _mm512_max_epu16(largest[0], largest[1]);
  return _mm256_max_epu16(_mm512_castsi512_si256(largest[0]), _mm512_extracti64x4_epi64(largest[0], 1));
}

/// The largest magnitude of each of 16 rows of values [16][dim], as bits.
HWY_INLINE __m256i largest_of_values(const Half* rows, std::int64_t dim) {
  __m512i v[16];
  unroll<16>([&](auto row) LITHE_SIMD {
    const Half* from = rows + row * dim;
    v[row] = _mm512_setzero_si512();
    std::int64_t c = 0;
    for (; c + 32 <= dim; c += 32) v[row] = larger_magnitude(v[row], _mm512_loadu_si512(from + c));
    if (c < dim) {
      const auto mask = static_cast<__mmask32>((std::uint64_t{1} << (dim - c)) - 1);
      v[row] = larger_magnitude(v[row], _mm512_maskz_loadu_epi16(mask, from + c));
    }
  });
  // Two rows to a register, four, eight, sixteen.
  unroll<8>([&](auto i) LITHE_SIMD {
    v[i] = _mm512_max_epu16(_mm512_inserti64x4(v[i], _mm512_castsi512_si256(v[i + 8]), 1),
                            _mm512_shuffle_i64x2(v[i], v[i + 8], 0xee));
  });
  unroll<4>([&](auto i) LITHE_SIMD {
    v[i] = _mm512_max_epu16(_mm512_shuffle_i64x2(v[i], v[i + 4], 0x88),
                            _mm512_shuffle_i64x2(v[i], v[i + 4], 0xdd));
  });
  unroll<2>([&](auto i) LITHE_SIMD {
    v[i] = _mm512_max_epu16(_mm512_unpacklo_epi64(v[i], v[i + 2]), _mm512_unpackhi_epi64(v[i], v[i + 2]));
  });
  const __mmask16 odd = 0xaaaa;
  v[0] = _mm512_max_epu16(_mm512_mask_blend_epi32(odd, v[0], _mm512_slli_epi64(v[1], 32)),
                          _mm512_mask_blend_epi32(odd, _mm512_srli_epi64(v[0], 32), v[1]));
  v[0] = _mm512_max_epu16(v[0], _mm512_srli_epi32(v[0], 16));
  return _mm512_cvtepi32_epi16(_mm512_shuffle_i64x2(v[0], v[0], 0xd8));  // quarters held rows 0, 8, 4 and 12
}

/// What codes of 16 rows are worth, to units, from the bits of their largest magnitudes. Returns the inverses. A unit is
/// NaN where a row is not finite, so that it can't come out as a number.
HWY_INLINE __m512 code_units(__m256i largest, float* units) {
  const __m512 top = _mm512_cvtph_ps(largest);
  const __mmask16 some = _mm512_cmp_ps_mask(top, _mm512_setzero_ps(), _CMP_GT_OQ);
  const __m512 unit = _mm512_mul_ps(top, _mm512_set1_ps(1 / kBlockCode));
  _mm512_store_ps(units, _mm512_fmadd_ps(top, _mm512_setzero_ps(), unit));
  return _mm512_maskz_div_ps(some, _mm512_set1_ps(kBlockCode), top);
}

/// A block of keys and values. What belongs to keys that nobody sees may be anything.
struct Int16Block {
  std::int64_t key_dim, value_dim, padded_value_dim;
  bool latent;                       // values are channels of the keys, always as codes
  const Half* panels[kBlockPanels];  // the pages
  const Half* pages[kBlockPages];
  float *key_units, *value_units, *value_inverses;  // [kKeyBlock]
  std::int32_t* keys;    // the pages' codes, where several tiles share them: [kBlockPanels][pairs][16]
  std::int32_t* values;  // [kKeyBlock / 2][padded_value_dim]

  std::int64_t pairs() const { return (key_dim + 1) / 2; }
};

/// Pairs of channels of V panels of keys, from the block's codes.
template <int V>
class StoredKeys {
 public:
  StoredKeys(const Int16Block& block, std::int64_t panel)
      : at_(block.keys + panel * block.pairs() * kKeyLanes), stride_(block.pairs() * kKeyLanes) {}
  template <typename J>
  HWY_INLINE __m512i pair(J j, std::int64_t pair) const {
    return _mm512_load_si512(at_ + j * stride_ + pair * kKeyLanes);
  }
  template <typename J>
  HWY_INLINE void fetch_ahead(J, std::int64_t) const {}

 private:
  const std::int32_t* at_;
  std::int64_t stride_;
};

/// The same from the pages; finds the keys' units on the way, while they are in L1.
template <int V>
class PageKeys {
 public:
  PageKeys(const Int16Block& block, std::int64_t panel) : dim_(block.key_dim) {
    unroll<V>([&](auto j) LITHE_SIMD {
      const std::int64_t at = panel + j;
      at_[j] = block.panels[at];
      next_[j] = block.panels[std::min<std::int64_t>(at + V, kBlockPanels - 1)];
      values_[j] = block.pages[at / kPagePanels] + at % kPagePanels * kKeyLanes * block.value_dim;
      inverse_[j] = code_units(largest_of_keys(at_[j], dim_), block.key_units + (panel + j) * kKeyLanes);
    });
  }
  template <typename J>
  HWY_INLINE __m512i pair(J j, std::int64_t pair) const {
    const auto* from = reinterpret_cast<const __m256i*>(at_[j] + pair * 2 * kKeyLanes);
    const __m256i odd = pair * 2 + 1 < dim_ ? _mm256_loadu_si256(from + 1) : _mm256_setzero_si256();
    return pair_codes(_mm256_loadu_si256(from), inverse_[j], odd, inverse_[j]);
  }
  /// A line of the keys after these and one of their values: to find units all at once stalls otherwise.
  template <typename J>
  HWY_INLINE void fetch_ahead(J j, std::int64_t pair) const {
    __builtin_prefetch(next_[j] + pair * 2 * kKeyLanes);
    __builtin_prefetch(values_[j] + pair * 2 * kKeyLanes);
  }

 private:
  const Half *at_[V], *next_[V], *values_[V];
  __m512 inverse_[V];
  std::int64_t dim_;
};

/// V vectors of channels of pairs of values, from the block's codes.
template <int V>
class StoredValues {
 public:
  StoredValues(const Int16Block& block, std::int64_t channel)
      : at_(block.values + channel), stride_(block.padded_value_dim) {}
  template <typename J>
  HWY_INLINE __m512i pair(J j, std::int64_t key) const {
    return _mm512_load_si512(at_ + key / 2 * stride_ + j * 16);
  }

 private:
  const std::int32_t* at_;
  std::int64_t stride_;
};

/// The same from the pages; zeros behind value_dim.
template <int V>
class PageValues {
 public:
  PageValues(const Int16Block& block, std::int64_t channel) : block_(block), channel_(channel) {
    for (int j = 0; j < V; ++j) {
      const std::int64_t left = std::clamp<std::int64_t>(block.value_dim - channel - j * 16, 0, 16);
      mask_[j] = static_cast<__mmask16>((1u << left) - 1);
    }
  }
  template <typename J>
  HWY_INLINE __m512i pair(J j, std::int64_t key) const {
    const Half* row =
        block_.pages[key / kPageTokens] + key % kPageTokens * block_.value_dim + channel_ + j * 16;
    return pair_codes(_mm256_maskz_loadu_epi16(mask_[j], row), _mm512_set1_ps(block_.value_inverses[key]),
                      _mm256_maskz_loadu_epi16(mask_[j], row + block_.value_dim),
                      _mm512_set1_ps(block_.value_inverses[key + 1]));
  }

 private:
  const Int16Block& block_;
  std::int64_t channel_;
  __mmask16 mask_[V];
};

/// Units of values [begin, end), whole panels.
inline void scale_values(const Int16Block& block, std::int64_t begin, std::int64_t end) {
  for (std::int64_t key = begin; key < end; key += kKeyLanes) {
    const Half* rows = block.pages[key / kPageTokens] + key % kPageTokens * block.value_dim;
    _mm512_store_ps(block.value_inverses + key,
                    code_units(largest_of_values(rows, block.value_dim), block.value_units + key));
  }
}

/// Values of a panel of latent keys: pairs of keys of their first value_dim channels, turned into rows, to the block's
/// values. Their units are of these channels alone.
inline void store_latent_values(const Int16Block& block, std::int64_t panel) {
  const Half* const from = block.panels[panel];
  const __m512 inverse =
      code_units(largest_of_keys(from, block.value_dim), block.value_units + panel * kKeyLanes);
  // Word i: the low half of lane i of one register, then of the other.
  alignas(64) static constexpr std::uint16_t kLowHalves[32] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20,
                                                               22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42,
                                                               44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
  const __m512i low_halves = _mm512_load_si512(kLowHalves);
  const auto codes = [&](std::int64_t channel) LITHE_SIMD {
    const __m256i halves =
        channel < block.value_dim
            ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + channel * kKeyLanes))
            : _mm256_setzero_si256();
    return half_codes(halves, inverse);
  };
  for (std::int64_t c = 0; c < block.padded_value_dim; c += 16) {
    // Lower half of v[j]: eight pairs of keys of channel j; upper half: of channel j + 8.
    __m512i v[8], w[8];
    unroll<8>([&](auto j) LITHE_SIMD {
      v[j] = _mm512_permutex2var_epi16(codes(c + j), low_halves, codes(c + j + 8));
    });
    // Both halves are turned alike: two channels to a register, four, eight.
    unroll<4>([&](auto j) LITHE_SIMD {
      w[2 * j] = _mm512_unpacklo_epi32(v[2 * j], v[2 * j + 1]);
      w[2 * j + 1] = _mm512_unpackhi_epi32(v[2 * j], v[2 * j + 1]);
    });
    unroll<2>([&](auto j) LITHE_SIMD {
      v[4 * j] = _mm512_unpacklo_epi64(w[4 * j], w[4 * j + 2]);
      v[4 * j + 1] = _mm512_unpackhi_epi64(w[4 * j], w[4 * j + 2]);
      v[4 * j + 2] = _mm512_unpacklo_epi64(w[4 * j + 1], w[4 * j + 3]);
      v[4 * j + 3] = _mm512_unpackhi_epi64(w[4 * j + 1], w[4 * j + 3]);
    });
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    std::int32_t* const to = block.values + panel * (kKeyLanes / 2) * block.padded_value_dim + c;
    unroll<4>([&](auto j) LITHE_SIMD {
      _mm512_store_si512(to + j * block.padded_value_dim, _mm512_permutex2var_epi64(v[j], first, v[j + 4]));
      _mm512_store_si512(to + (j + 4) * block.padded_value_dim,
                         _mm512_permutex2var_epi64(v[j], second, v[j + 4]));
    });
  }
}

/// Codes of keys and values [begin, end), whole panels; their units are found, too.
inline void store_codes(const Int16Block& block, std::int64_t begin, std::int64_t end) {
  const auto first = std::integral_constant<int, 0>();
  for (std::int64_t panel = begin / kKeyLanes; panel * kKeyLanes < end; ++panel) {
    const PageKeys<1> keys(block, panel);
    std::int32_t* to = block.keys + panel * block.pairs() * kKeyLanes;
    for (std::int64_t pair = 0; pair < block.pairs(); ++pair) {
      _mm512_store_si512(to + pair * kKeyLanes, keys.pair(first, pair));
    }
  }
  if (block.latent) {
    for (std::int64_t panel = begin / kKeyLanes; panel * kKeyLanes < end; ++panel)
      store_latent_values(block, panel);
    return;
  }
  scale_values(block, begin, end);
  for (std::int64_t c = 0; c < block.padded_value_dim; c += 16) {
    const PageValues<1> values(block, c);
    for (std::int64_t key = begin; key < end; key += 2) {
      _mm512_store_si512(block.values + key / 2 * block.padded_value_dim + c, values.pair(first, key));
    }
  }
}

/// Queries of a tile of kTileLines lines.
struct Int16Queries {
  std::int32_t* codes;  // [pairs][kTileLines]
  float* units;         // [kTileLines]
};

/// q * scale of one line, q: [dim] -> column `line` of the tile.
inline void quantize_query(const float* q, float scale, std::int64_t dim, std::int64_t line,
                           const Int16Queries& out) {
  const __m512 factor = _mm512_set1_ps(scale);
  const auto load = [&](std::int64_t i) LITHE_SIMD {
    const auto mask = static_cast<__mmask16>((1u << std::min<std::int64_t>(16, dim - i)) - 1);
    return _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, q + i), factor);
  };
  __m512 largest = _mm512_setzero_ps(), fault = largest;  // fault: NaN if a value is not finite
  for (std::int64_t i = 0; i < dim; i += 16) {
    largest = _mm512_max_ps(largest, _mm512_abs_ps(load(i)));
    fault = _mm512_fmadd_ps(load(i), _mm512_setzero_ps(), fault);
  }
  const float top = hn::GetLane(hn::MaxOfLanes(Floats(), FloatVec{largest}));
  const __m512 inverse = _mm512_set1_ps(top > 1e-30f ? kQueryCode / top : 0.0f);
  for (std::int64_t i = 0; i < dim; i += 16) {
    std::int32_t pairs[8];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(pairs),
                        _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(_mm512_mul_ps(load(i), inverse))));
    for (std::int64_t pair = 0; pair < 8 && i + pair * 2 < dim; ++pair) {
      out.codes[(i / 2 + pair) * kTileLines + line] = pairs[pair];
    }
  }
  out.units[line] = top / kQueryCode + hn::GetLane(hn::SumOfLanes(Floats(), FloatVec{fault}));
}

/// Scores of L lines against panels [begin, end), multiples of V.
template <template <int> typename Keys, int L, int V>
HWY_NOINLINE void int16_score_tile(const Int16Queries& q, std::int64_t first_line, const Int16Block& block,
                                   std::int64_t begin, std::int64_t end, float* out) {
  const std::int64_t pairs = block.pairs();
  for (std::int64_t panel = begin; panel < end; panel += V) {
    const Keys<V> keys(block, panel);
    for (std::int64_t from = 0; from < pairs; from += kExactPairs) {
      __m512i sum[L][V];
      unroll<L>([&](auto l) LITHE_SIMD {
        unroll<V>([&](auto j) LITHE_SIMD { sum[l][j] = _mm512_setzero_si512(); });
      });
      for (std::int64_t pair = from; pair < std::min(from + kExactPairs, pairs); ++pair) {
        __m512i key[V];
        unroll<V>([&](auto j) LITHE_SIMD {
          key[j] = keys.pair(j, pair);
          keys.fetch_ahead(j, pair);
        });
        const std::int32_t* codes = q.codes + pair * kTileLines + first_line;
        unroll<L>([&](auto l) LITHE_SIMD {
          const __m512i x = _mm512_set1_epi32(codes[l]);
          unroll<V>([&](auto j) LITHE_SIMD { sum[l][j] = dot_pairs(sum[l][j], key[j], x); });
        });
      }
      unroll<V>([&](auto j) LITHE_SIMD {
        const __m512 key_units = _mm512_load_ps(block.key_units + (panel + j) * kKeyLanes);
        unroll<L>([&](auto l) LITHE_SIMD {
          float* const to = out + l * ScoreStride::value + (panel + j) * kKeyLanes;
          const __m512 products =
              _mm512_mul_ps(_mm512_cvtepi32_ps(sum[l][j]), _mm512_set1_ps(q.units[first_line + l]));
          const __m512 before = from == 0 ? _mm512_setzero_ps() : _mm512_load_ps(to);
          _mm512_store_ps(to, _mm512_fmadd_ps(products, key_units, before));
        });
      });
    }
  }
}

/// Weights of a tile, each times its value's unit.
struct Int16Weights {
  std::int16_t* codes;  // [kTileLines][kKeyBlock]
  float* units;         // [kTileLines]
};

/// The softmax of one line (see softmax), its weights as codes from the first to the last step of keys [first, last).
HWY_NOINLINE MaxSum int16_softmax_line(float* s, std::int64_t begin, std::int64_t end, float soft_cap,
                                       std::int64_t first, std::int64_t last, const float* value_units,
                                       std::int16_t* codes, float& unit) {
  first = first / kSoftmaxStep * kSoftmaxStep;
  last = (last + kSoftmaxStep - 1) / kSoftmaxStep * kSoftmaxStep;
  MaxSum result{kMinusInfinity, 0};
  std::int64_t done_begin = last, done_end = last;
  unit = 0;
  if (begin != end) {
    __m512 most = _mm512_setzero_ps(), all = most;
    result = softmax(s, begin, end, soft_cap, [&](std::int64_t i, const FloatVec(&p)[4]) LITHE_SIMD {
      __m512 w[4];
      if (i >= begin && i + kSoftmaxStep <= end) {
        unroll<4>([&](auto j) LITHE_SIMD {
          w[j] = _mm512_mul_ps(p[j].raw, _mm512_load_ps(value_units + i + j * 16));
        });
      } else {  // what a line does not see may be anything
        unroll<4>([&](auto j) LITHE_SIMD {
          const std::int64_t low = std::clamp<std::int64_t>(begin - i - j * 16, 0, 16);
          const std::int64_t high = std::clamp<std::int64_t>(end - i - j * 16, 0, 16);
          const auto seen = static_cast<__mmask16>((1u << high) - (1u << low));
          w[j] = _mm512_maskz_mul_ps(seen, p[j].raw, _mm512_load_ps(value_units + i + j * 16));
        });
      }
      unroll<4>([&](auto j) LITHE_SIMD { _mm512_store_ps(s + i + j * 16, w[j]); });
      most = _mm512_max_ps(most, _mm512_max_ps(_mm512_max_ps(w[0], w[1]), _mm512_max_ps(w[2], w[3])));
      all = _mm512_add_ps(all, _mm512_add_ps(_mm512_add_ps(w[0], w[1]), _mm512_add_ps(w[2], w[3])));
    });
    if (result.max != kMinusInfinity) {
      done_begin = begin / kSoftmaxStep * kSoftmaxStep;
      done_end = (end + kSoftmaxStep - 1) / kSoftmaxStep * kSoftmaxStep;
      const float largest = hn::GetLane(hn::MaxOfLanes(Floats(), FloatVec{most}));
      const float sum = hn::GetLane(hn::SumOfLanes(Floats(), FloatVec{all}));
      const float inverse = largest > 0 ? std::min(kWeightCode / largest, kWeightCodes / sum) : 0.0f;
      // A seen value that is not finite, or a score, makes the sum so; and the unit.
      unit = (largest > 0 ? 1 / inverse : 0.0f) + 0 * (sum + result.sum);
      for (std::int64_t i = done_begin; i < done_end; i += 32) {
        const __m512 factor = _mm512_set1_ps(inverse);
        const __m512i even = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_load_ps(s + i), factor));
        const __m512i odd = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_load_ps(s + i + 16), factor));
        // Packing works within quarters of a register.
        const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
        _mm512_store_si512(codes + i, _mm512_permutexvar_epi64(order, _mm512_packs_epi32(even, odd)));
      }
    }
  }
  for (std::int64_t i = first; i < last; i += 32) {
    if (i < done_begin || i >= done_end) _mm512_store_si512(codes + i, _mm512_setzero_si512());
  }
  return result;
}

/// out[l][c..] = sum over keys [begin, end), multiples of 16, of weight * value, for V vectors of channels.
template <template <int> typename Values, int L, int V>
HWY_INLINE void int16_value_columns(const Int16Weights& weights, int first_line, const Int16Block& block,
                                    std::int64_t begin, std::int64_t end, std::int64_t channel, float* out) {
  __m512i sum[L][V];
  unroll<L>([&](auto l)
                LITHE_SIMD { unroll<V>([&](auto j) LITHE_SIMD { sum[l][j] = _mm512_setzero_si512(); }); });
  const std::int16_t* codes = weights.codes + first_line * kKeyBlock;
  const Values<V> values(block, channel);
  for (std::int64_t key = begin; key < end; key += 2) {
    __m512i value[V];
    unroll<V>([&](auto j) LITHE_SIMD { value[j] = values.pair(j, key); });
    unroll<L>([&](auto l) LITHE_SIMD {
      std::int32_t pair;
      std::memcpy(&pair, codes + l * kKeyBlock + key, sizeof(pair));
      const __m512i w = _mm512_set1_epi32(pair);
      unroll<V>([&](auto j) LITHE_SIMD { sum[l][j] = dot_pairs(sum[l][j], value[j], w); });
    });
  }
  unroll<L>([&](auto l) LITHE_SIMD {
    const __m512 unit = _mm512_set1_ps(weights.units[first_line + l]);
    unroll<V>([&](auto j) LITHE_SIMD {
      _mm512_store_ps(out + l * block.padded_value_dim + channel + j * 16,
                      _mm512_mul_ps(_mm512_cvtepi32_ps(sum[l][j]), unit));
    });
  });
}

template <template <int> typename Values, int L, int V>
HWY_NOINLINE void int16_value_tile(const Int16Weights& weights, int first_line, const Int16Block& block,
                                   std::int64_t begin, std::int64_t end, float* out) {
  std::int64_t c = 0;
  for (; c + V * 16 <= block.padded_value_dim; c += V * 16) {
    int16_value_columns<Values, L, V>(weights, first_line, block, begin, end, c, out);
  }
  for (; c < block.padded_value_dim; c += 16) {
    int16_value_columns<Values, L, 1>(weights, first_line, block, begin, end, c, out);
  }
}

/// What lines and a block become for these tiles. Scratch is taken from a carver.
class Int16FlashTile {
 public:
  static std::int64_t floats(const KvShape& shape, std::int64_t lines) {
    const std::int64_t pairs = (shape.key_dim + 1) / 2;
    return tiles(lines) * (padded(pairs * kTileLines) + kLineSlots) +
           Carver::floats<std::int16_t>(kTileLines * kKeyBlock) + kLineSlots + 3 * kKeyBlock +
           kKeyBlock * pairs + kKeyBlock / 2 * padded(shape.value_dim);
  }

  Int16FlashTile(const KvShape& shape, std::int64_t lines, Carver& carver) {
    block_.key_dim = shape.key_dim;
    block_.value_dim = shape.value_dim;
    block_.padded_value_dim = padded(shape.value_dim);
    block_.latent = shape.latent;
    query_codes_ = carver.take<std::int32_t>(tiles(lines) * padded(block_.pairs() * kTileLines));
    query_units_ = carver.take(tiles(lines) * kLineSlots);
    weights_.codes = carver.take<std::int16_t>(kTileLines * kKeyBlock);
    weights_.units = carver.take(kLineSlots);
    block_.key_units = carver.take(kKeyBlock);
    block_.value_units = carver.take(kKeyBlock);
    block_.value_inverses = carver.take(kKeyBlock);
    block_.keys = carver.take<std::int32_t>(kKeyBlock * block_.pairs());
    block_.values = carver.take<std::int32_t>(kKeyBlock / 2 * block_.padded_value_dim);
  }

  void set_query(std::int64_t line, const float* q, float scale) {
    quantize_query(q, scale, block_.key_dim, line % kTileLines, queries(line));
  }

  /// shared: several tiles will attend to the block.
  void set_block(const BlockReader& reader, const BlockRange& range, bool shared) {
    const Block<Half> pages = reader.in_place<Half>(range);
    std::copy_n(pages.panels, kBlockPanels, block_.panels);
    std::copy_n(pages.pages, kBlockPages, block_.pages);
    shared_ = shared || block_.latent;
    if (shared_) {
      store_codes(block_, range.begin / kKeyLanes * kKeyLanes,
                  (range.end + kKeyLanes - 1) / kKeyLanes * kKeyLanes);
    }
  }

  /// part gets max, sum and output of every line for the block. scores: [kTileLines] of ScoreStride.
  void attend(const TileRange& tile, float soft_cap, float* scores, const State& part) {
    if (shared_) {
      attend_from<StoredKeys, StoredValues>(tile, soft_cap, scores, part);
    } else {
      attend_from<PageKeys, PageValues>(tile, soft_cap, scores, part);
    }
  }

 private:
  template <template <int> typename Keys, template <int> typename Values>
  void attend_from(const TileRange& tile, float soft_cap, float* scores, const State& part) {
    const KeyRange seen = tile.panels();
    if (seen.begin >= seen.end) return;
    const Int16Queries q = queries(tile.line);
    for_tiles(tile.count, [&](auto size, int at) LITHE_SIMD {
      constexpr int kL = decltype(size)::value, kV = std::min(kTileVectors<kL>, 4);
      int16_score_tile<Keys, kL, kV>(q, at, block_, seen.begin / 16 / kV * kV,
                                     (seen.end / 16 + kV - 1) / kV * kV, scores + at * ScoreStride::value);
    });
    if (!shared_) scale_values(block_, seen.begin, seen.end);  // after the keys: the values stay in L1
    for (int l = 0; l < tile.count; ++l) {
      const MaxSum result = int16_softmax_line(scores + l * ScoreStride::value, tile.begin[l], tile.end[l],
                                               soft_cap, seen.begin, seen.end, block_.value_units,
                                               weights_.codes + l * kKeyBlock, weights_.units[l]);
      part.max[l] = result.max;
      part.sum[l] = result.sum;
    }
    for_tiles(tile.count, [&](auto size, int at) LITHE_SIMD {
      constexpr int kL = decltype(size)::value, kV = std::min(kTileVectors<kL>, 4);
      int16_value_tile<Values, kL, kV>(weights_, at, block_, seen.begin, seen.end,
                                       part.output + at * part.stride);
    });
  }

  Int16Queries queries(std::int64_t line) const {
    const std::int64_t tile = line / kTileLines;
    return {query_codes_ + tile * padded(block_.pairs() * kTileLines), query_units_ + tile * kLineSlots};
  }

  bool shared_ = false;
  std::int32_t* query_codes_ = nullptr;
  float* query_units_ = nullptr;
  Int16Weights weights_{};
  Int16Block block_{};
};

#endif  // HWY_TARGET == HWY_AVX3

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_ATTENTION_INT16_INL_H
