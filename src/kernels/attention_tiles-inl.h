// The register tiles of attention. Per target, like simd-inl.h.
//
// A line is one query head of one row. A tile works on up to kTileLines lines and one block of kKeyBlock keys; every
// line's arithmetic is its own, in an order fixed by the key's place in the block, so lines may be grouped at will.
#include <algorithm>

#include "kernels/attention_softmax-inl.h"
#include "kernels/kv_layout.h"
#include "kernels/math-inl.h"
#include "kernels/simd-inl.h"

#if defined(LITHE_KERNELS_ATTENTION_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_ATTENTION_TILES_INL_H
#undef LITHE_KERNELS_ATTENTION_TILES_INL_H
#else
#define LITHE_KERNELS_ATTENTION_TILES_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

inline constexpr int kTileLines = kManyRegisters ? 12 : 6;
inline constexpr int kLineSlots = 16;  // arrays with one float per line, whole vectors of them
/// Queries of a tile lie as [dim / kQueryChunk][kTileLines][kQueryChunk]: written in vectors, and one pointer reaches the
/// same channel of all lines (their addresses would fill the general registers).
inline constexpr int kQueryChunk = 16;
/// Floats between the scores of two lines: off a power of two, so that lines do not share cache sets. A type, so that
/// the tiles compiled for it address every line from one register; std::int64_t works as well.
using ScoreStride = std::integral_constant<std::int64_t, kKeyBlock + 16>;

using Half = hwy::float16_t;

HWY_INLINE FloatVec load_as_float(const float* p) {
  return hn::LoadU(Floats(), p);
}
HWY_INLINE FloatVec load_as_float(const Half* p) {
#if HWY_TARGET == HWY_SSE4
  // Highway's own emulation knows no infinities. Exponent and mantissa in place, the exponent's offset by a multiply.
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const auto half = hn::PromoteTo(
      du, hn::LoadU(hn::Rebind<std::uint16_t, Floats>(), reinterpret_cast<const std::uint16_t*>(p)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(du, 0x7fffu)));
  const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000u)));
  const auto special = hn::Gt(hn::BitCast(d, magnitude), hn::BitCast(d, hn::Set(du, 0x0f7fe000u)));
  const auto value = hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f));
  const auto infinite = hn::BitCast(d, hn::Or(magnitude, hn::Set(du, 0x7f800000u)));
  return hn::Or(hn::IfThenElse(special, infinite, value), hn::BitCast(d, sign));
#else
  return hn::PromoteTo(Floats(), hn::LoadU(hn::Rebind<Half, Floats>(), p));
#endif
}

/// A block of keys and values ready for the tiles: where each panel of 16 keys and each page of values begins.
/// Entries that no line looks at still point to readable memory.
template <typename T>
struct Block {
  const T* panels[kBlockPanels];
  const T* pages[kBlockPages];
  std::int64_t value_stride;
};

/// Scores of L lines against vectors [begin, end) of a block's keys, V vectors at a time (both multiples of V).
/// q: of the first line, see kQueryChunk.
template <int L, int V, typename T, typename Stride>
HWY_NOINLINE void score_tile(const float* HWY_RESTRICT q, std::int64_t dim, const Block<T>& block,
                             std::int64_t begin, std::int64_t end, float* HWY_RESTRICT out,
                             Stride out_stride) {
  const Floats d;
  for (std::int64_t v = begin; v < end; v += V) {
    const T* key[V];
    for (int j = 0; j < V; ++j) {
      const std::int64_t at = (v + j) * kLanes;
      key[j] = block.panels[at / kKeyLanes] + at % kKeyLanes;
    }
    FloatVec acc[L][V];
    unroll<L>([&](auto l) LITHE_SIMD { unroll<V>([&](auto j) LITHE_SIMD { acc[l][j] = hn::Zero(d); }); });
    for (std::int64_t chunk = 0; chunk < dim; chunk += kQueryChunk) {
      const float* x_chunk = q + chunk * kTileLines;
      const std::int64_t channels = std::min<std::int64_t>(kQueryChunk, dim - chunk);
      for (std::int64_t i = 0; i < channels; ++i) {
        FloatVec k[V];
        unroll<V>([&](auto j) LITHE_SIMD { k[j] = load_as_float(key[j] + (chunk + i) * kKeyLanes); });
        unroll<L>([&](auto l) LITHE_SIMD {
          const auto x = hn::Set(d, x_chunk[l * kQueryChunk + i]);
          unroll<V>([&](auto j) LITHE_SIMD { acc[l][j] = hn::MulAdd(x, k[j], acc[l][j]); });
        });
      }
    }
    unroll<L>([&](auto l) LITHE_SIMD {
      unroll<V>([&](auto j) LITHE_SIMD { hn::Store(acc[l][j], d, out + l * out_stride + (v + j) * kLanes); });
    });
  }
}

/// out[l][c..] += sum over keys [begin, end) of a block of weight[l][key] * value[key][c..], V vectors of channels.
template <int L, int V, typename T, typename Stride>
HWY_INLINE void value_columns(const float* HWY_RESTRICT weights, Stride weight_stride, const Block<T>& block,
                              std::int64_t begin, std::int64_t end, std::int64_t channel,
                              float* HWY_RESTRICT out, std::int64_t out_stride) {
  const Floats d;
  FloatVec acc[L][V];
  unroll<L>([&](auto l) LITHE_SIMD {
    unroll<V>([&](auto j)
                  LITHE_SIMD { acc[l][j] = hn::Load(d, out + l * out_stride + channel + j * kLanes); });
  });
  for (std::int64_t key = begin; key < end;) {
    const std::int64_t stop = std::min(end, (key / kPageTokens + 1) * kPageTokens);
    const T* row = block.pages[key / kPageTokens] + key % kPageTokens * block.value_stride + channel;
    for (; key < stop; ++key, row += block.value_stride) {
      FloatVec value[V];
      unroll<V>([&](auto j) LITHE_SIMD { value[j] = load_as_float(row + j * kLanes); });
      unroll<L>([&](auto l) LITHE_SIMD {
        const auto w = hn::Set(d, weights[l * weight_stride + key]);
        unroll<V>([&](auto j) LITHE_SIMD { acc[l][j] = hn::MulAdd(w, value[j], acc[l][j]); });
      });
    }
  }
  unroll<L>([&](auto l) LITHE_SIMD {
    unroll<V>([&](auto j)
                  LITHE_SIMD { hn::Store(acc[l][j], d, out + l * out_stride + channel + j * kLanes); });
  });
}

template <int L, int V, typename T, typename Stride>
HWY_NOINLINE void value_tile(const float* weights, Stride weight_stride, const Block<T>& block,
                             std::int64_t begin, std::int64_t end, std::int64_t padded_dim, float* out) {
  std::int64_t c = 0;
  for (; c + V * kLanes <= padded_dim; c += V * kLanes) {
    value_columns<L, V>(weights, weight_stride, block, begin, end, c, out, padded_dim);
  }
  for (; c < padded_dim; c += kLanes) {
    value_columns<L, 1>(weights, weight_stride, block, begin, end, c, out, padded_dim);
  }
}

/// Vectors beside each other in a tile of L lines: as many as the registers hold.
template <int L>
inline constexpr int kTileVectors = kManyRegisters ? (L == 12  ? 2
                                                      : L <= 2 ? 8
                                                               : 4)
                                                   : (L <= 2 ? 4 : 2);

/// f(integral_constant L, first line) over `lines` lines in tiles of 12, 6, 4, 3, 2 or 1.
template <typename F>
HWY_INLINE void for_tiles(int lines, F f) {
  int at = 0;
  if constexpr (kTileLines == 12) {
    for (; lines - at >= 12; at += 12) f(std::integral_constant<int, 12>(), at);
  }
  for (; lines - at >= 6; at += 6) f(std::integral_constant<int, 6>(), at);
  switch (lines - at) {
    case 5:
      f(std::integral_constant<int, 3>(), at);
      f(std::integral_constant<int, 2>(), at + 3);
      break;
    case 4:
      f(std::integral_constant<int, 4>(), at);
      break;
    case 3:
      f(std::integral_constant<int, 3>(), at);
      break;
    case 2:
      f(std::integral_constant<int, 2>(), at);
      break;
    case 1:
      f(std::integral_constant<int, 1>(), at);
      break;
    default:
      break;
  }
}

/// Scores of keys [begin, end) of the block, and of some around them.
template <typename T, typename Stride>
HWY_INLINE void score_lines(const float* q, int lines, std::int64_t dim, const Block<T>& block,
                            std::int64_t begin, std::int64_t end, float* scores, Stride stride) {
  for_tiles(lines, [&](auto tile, int at) LITHE_SIMD {
    constexpr int kL = decltype(tile)::value, kV = kTileVectors<kL>;
    constexpr std::int64_t kStep = kV * kLanes;
    score_tile<kL, kV>(q + at * kQueryChunk, dim, block, begin / kStep * kV, (end + kStep - 1) / kStep * kV,
                       scores + at * stride, stride);
  });
}

/// Adds the weighted values of keys [begin[l], end[l]) to out: [lines][padded_dim]. A key that a line does not
/// see is not touched for it: its value may be anything, and 0 * NaN is NaN.
template <typename T, typename Stride>
HWY_INLINE void weigh_lines(const float* weights, Stride stride, int lines, const Block<T>& block,
                            const std::int64_t* begin, const std::int64_t* end, std::int64_t padded_dim,
                            float* out) {
  for_tiles(lines, [&](auto tile, int at) LITHE_SIMD {
    constexpr int kL = decltype(tile)::value;
    const std::int64_t common_begin = *std::max_element(begin + at, begin + at + kL);
    const std::int64_t common_end = std::max(common_begin, *std::min_element(end + at, end + at + kL));
    const auto alone = [&](int l, std::int64_t from, std::int64_t to) LITHE_SIMD {
      if (from < to) {
        value_tile<1, 4>(weights + l * stride, stride, block, from, to, padded_dim, out + l * padded_dim);
      }
    };
    for (int l = at; l < at + kL; ++l) alone(l, begin[l], std::min(end[l], common_begin));
    if (common_begin < common_end) {
      value_tile<kL, std::min(kTileVectors<kL>, 4)>(weights + at * stride, stride, block, common_begin,
                                                    common_end, padded_dim, out + at * padded_dim);
    }
    for (int l = at; l < at + kL; ++l) alone(l, std::max(begin[l], common_end), end[l]);
  });
}

/// Per line the running max (in base 2), sum and unnormalised output, or those of one block.
struct State {
  float* max;     // [lines], readable to the next multiple of kLineSlots
  float* sum;     // [lines], likewise
  float* output;  // [lines][stride]
  std::int64_t stride;
};

/// state = state merged with part for up to kLineSlots lines; dim channels of output.
HWY_INLINE void merge_lines(const State& state, const State& part, int lines, std::int64_t dim) {
  const Floats d;
  HWY_ALIGN float old_factors[kLineSlots], new_factors[kLineSlots];
  for (std::int64_t i = 0; i < kLineSlots; i += kLanes) {
    const auto old_max = hn::LoadU(d, state.max + i), new_max = hn::LoadU(d, part.max + i);
    const auto empty = hn::Eq(new_max, hn::Set(d, kMinusInfinity));  // nothing changes then
    const auto max = hn::Max(old_max, new_max);
    const auto old_factor = hn::IfThenElse(empty, hn::Set(d, 1.0f), exp2(hn::Sub(old_max, max)));
    const auto new_factor = hn::IfThenZeroElse(empty, exp2(hn::Sub(new_max, max)));
    hn::Store(old_factor, d, old_factors + i);
    hn::Store(new_factor, d, new_factors + i);
    hn::StoreU(max, d, state.max + i);
    hn::StoreU(
        hn::MulAdd(hn::LoadU(d, state.sum + i), old_factor, hn::Mul(hn::LoadU(d, part.sum + i), new_factor)),
        d, state.sum + i);
  }
  for (int l = 0; l < lines; ++l) {
    if (new_factors[l] == 0) continue;
    const auto old_factor = hn::Set(d, old_factors[l]), new_factor = hn::Set(d, new_factors[l]);
    float* to = state.output + l * state.stride;
    const float* from = part.output + l * part.stride;
    std::int64_t c = 0;
    for (; c + kLanes <= dim; c += kLanes) {
      const auto merged =
          hn::MulAdd(hn::LoadU(d, to + c), old_factor, hn::Mul(hn::LoadU(d, from + c), new_factor));
      hn::StoreU(merged, d, to + c);
    }
    if (c < dim) {
      const auto merged = hn::MulAdd(load_first(to + c, dim - c), old_factor,
                                     hn::Mul(load_first(from + c, dim - c), new_factor));
      store_first(merged, to + c, dim - c);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_ATTENTION_TILES_INL_H
