// The K-quants with minima: Q2_K, Q4_K and Q5_K, super-blocks of 256 values whose sub-blocks have a scale and a minimum
// of 4 or 6 bits each.
//
// Encoding is a search: each sub-block tries a list of step sizes around the obvious one, rounds its values, solves the
// weighted least squares for the scale and minimum that suit those codes best, and keeps the best of all.
#include <algorithm>
#include <cmath>

#include "tensor/codecs.h"
#include "tensor/super_block.h"

namespace lithe::codec {
namespace {

// x ~ scale * code - minimum for each lane, code in [0, top], scale and minimum >= 0.
struct AffineFit {
  Lanes scale, minimum;
  Lanes inverse_step, origin;  // code = round((x - origin) * inverse_step): the codes the fit was made for
};

struct Search {
  float top;    // greatest code
  float first;  // the steps tried: (range) / (top + first + 0.1 * i), i = 0 .. last
  int last;
  bool squared;  // what a value's error counts: its square, or its magnitude
};

// One candidate step: rounds with it, solves for scale and minimum, and keeps them where the weighted error
// sinks.
template <Search kSearch, int kSub>
void try_step(const Lanes (&x)[kSub], const Lanes (&weight)[kSub], const Lanes& low,
              const Lanes& inverse_step, const Lanes& sum_w, const Lanes& sum_wx, Lanes& best_error,
              AffineFit& fit) {
  Lanes codes[kSub];
  Lanes sum_l{}, sum_ll{}, sum_xl{};
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) {
      const auto code =
          static_cast<float>(round_clamped(inverse_step[j] * (x[i][j] - low[j]), 0.0f, kSearch.top));
      codes[i][j] = code;
      sum_l[j] += weight[i][j] * code;
      sum_ll[j] += weight[i][j] * code * code;
      sum_xl[j] += weight[i][j] * code * x[i][j];
    }
  }
  Lanes scale, minimum, determinant, error{};
  for (int j = 0; j < kLanes; ++j) {
    determinant[j] = sum_w[j] * sum_ll[j] - sum_l[j] * sum_l[j];
    scale[j] = (sum_w[j] * sum_xl[j] - sum_wx[j] * sum_l[j]) / determinant[j];
    minimum[j] = (sum_ll[j] * sum_wx[j] - sum_l[j] * sum_xl[j]) / determinant[j];
    const bool positive =
        minimum[j] > 0.0f;  // the format stores -minimum unsigned: all-positive blocks start at 0
    scale[j] = positive ? sum_xl[j] / sum_ll[j] : scale[j];
    minimum[j] = positive ? 0.0f : minimum[j];
  }
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) {
      const float off = scale[j] * codes[i][j] + minimum[j] - x[i][j];
      error[j] += weight[i][j] * (kSearch.squared ? off * off : std::fabs(off));
    }
  }
  for (int j = 0; j < kLanes; ++j) {
    if (!(determinant[j] > 0.0f && error[j] < best_error[j])) continue;
    best_error[j] = error[j];
    fit.scale[j] = scale[j];
    fit.minimum[j] = -minimum[j];
    fit.inverse_step[j] = inverse_step[j];
    fit.origin[j] = low[j];
  }
}

template <Search kSearch, int kSub>
AffineFit fit_affine(const Lanes (&x)[kSub], const Lanes (&weight)[kSub]) {
  Lanes low, high, sum_w, sum_wx;
  for (int j = 0; j < kLanes; ++j) {
    low[j] = high[j] = x[0][j];
    sum_w[j] = weight[0][j];
    sum_wx[j] = weight[0][j] * x[0][j];
  }
  for (int i = 1; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) {
      low[j] = x[i][j] < low[j] ? x[i][j] : low[j];
      high[j] = x[i][j] > high[j] ? x[i][j] : high[j];
      sum_w[j] += weight[i][j];
      sum_wx[j] += weight[i][j] * x[i][j];
    }
  }
  AffineFit fit;
  Lanes error{};
  for (int j = 0; j < kLanes; ++j) {
    low[j] = low[j] > 0.0f ? 0.0f : low[j];
    fit.origin[j] = low[j];
    fit.minimum[j] = -low[j];
    // A constant block, or one so narrow that no finite step exists: minimum alone, codes 0.
    const float inverse = kSearch.top / (high[j] - low[j]);
    const bool flat = !(inverse - inverse == 0.0f);
    fit.inverse_step[j] = flat ? 0.0f : inverse;
    fit.scale[j] = flat ? 0.0f : 1.0f / inverse;
  }
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) {
      const int code = round_clamped(fit.inverse_step[j] * (x[i][j] - low[j]), 0.0f, kSearch.top);
      const float off = fit.scale[j] * static_cast<float>(code) + low[j] - x[i][j];
      error[j] += weight[i][j] * (kSearch.squared ? off * off : std::fabs(off));
    }
  }
  for (int step = 0; step <= kSearch.last; ++step) {
    Lanes inverse;
    const float levels = kSearch.first + 0.1f * static_cast<float>(step) + kSearch.top;
    for (int j = 0; j < kLanes; ++j) {
      low[j] = -fit.minimum[j];                  // each try starts from the best minimum so far
      inverse[j] = levels / (high[j] - low[j]);  // of no use where that is 0: all codes 0
    }
    try_step<kSearch>(x, weight, low, inverse, sum_w, sum_wx, error, fit);
  }
  return fit;
}

// ---------------------------------------------------------------- Q4_K and Q5_K: 8 sub-blocks of 32

constexpr int kSub = kSuper / kLanes;
constexpr int kScaleBytes = 12;
constexpr float kScaleTop = 63.0f;

// The 8 scales and 8 minima of 6 bits in 12 bytes. Bytes 0-3 and 4-7: scales and minima 0-3, whose two free
// high bits hold the high bits of 4-7. Bytes 8-11: the low nibbles of scale (low) and minimum (high) 4-7.
void pack_scales(const int* scales, const int* minima, std::byte* out) {
  for (int j = 0; j < 4; ++j) {
    out[j] = static_cast<std::byte>(scales[j] | (scales[j + 4] >> 4) << 6);
    out[j + 4] = static_cast<std::byte>(minima[j] | (minima[j + 4] >> 4) << 6);
    out[j + 8] = static_cast<std::byte>((scales[j + 4] & 15) | (minima[j + 4] & 15) << 4);
  }
}

void unpack_scales(const std::byte* in, int* scales, int* minima) {
  for (int j = 0; j < 4; ++j) {
    const auto a = std::to_integer<int>(in[j]), b = std::to_integer<int>(in[j + 4]),
               c = std::to_integer<int>(in[j + 8]);
    scales[j] = a & 63;
    minima[j] = b & 63;
    scales[j + 4] = (c & 15) | (a >> 6) << 4;
    minima[j + 4] = (c >> 4) | (b >> 6) << 4;
  }
}

// Everything of a Q4_K or Q5_K super-block but the packing of its codes. out: d, dmin, 12 bytes of scales (16
// bytes).
template <Search kSearch>
void encode_affine_super(const float* values, std::byte* out, std::uint8_t* codes) {
  Lanes x[kSub], weight[kSub];
  transpose_sub_blocks(values, x);
  Lanes rms{};
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) rms[j] += x[i][j] * x[i][j];
  }
  for (int j = 0; j < kLanes; ++j) rms[j] = std::sqrt(rms[j] / static_cast<float>(kSub));
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) weight[i][j] = rms[j] + std::fabs(x[i][j]);
  }
  const AffineFit fit = fit_affine<kSearch>(x, weight);

  const float top_scale = std::max(0.0f, *std::max_element(fit.scale, fit.scale + kLanes));
  const float top_minimum = std::max(0.0f, *std::max_element(fit.minimum, fit.minimum + kLanes));
  const float per_scale = top_scale > 0.0f ? kScaleTop / top_scale : 0.0f;
  const float per_minimum = top_minimum > 0.0f ? kScaleTop / top_minimum : 0.0f;
  int scales[kLanes], minima[kLanes];
  for (int j = 0; j < kLanes; ++j) {
    scales[j] = round_clamped(per_scale * fit.scale[j], 0.0f, kScaleTop);
    minima[j] = round_clamped(per_minimum * fit.minimum[j], 0.0f, kScaleTop);
  }
  store_f16(out, top_scale / kScaleTop);
  store_f16(out + 2, top_minimum / kScaleTop);
  pack_scales(scales, minima, out + 4);

  // The scales as stored differ from those of the fit: round the codes once more for what a reader will see.
  const float d = load_f16(out), dmin = load_f16(out + 2);
  for (int j = 0; j < kLanes; ++j) {
    const float scale = d * static_cast<float>(scales[j]);
    const float minimum = dmin * static_cast<float>(minima[j]);
    for (int i = 0; i < kSub; ++i) {
      const float level =
          scale != 0.0f ? (x[i][j] + minimum) / scale : fit.inverse_step[j] * (x[i][j] - fit.origin[j]);
      codes[j * kSub + i] = static_cast<std::uint8_t>(round_clamped(level, 0.0f, kSearch.top));
    }
  }
}

// The scale and minimum of each of the 8 sub-blocks.
void decode_affine_scales(const std::byte* block, float* scale, float* minimum) {
  int scales[kLanes], minima[kLanes];
  unpack_scales(block + 4, scales, minima);
  const float d = load_f16(block), dmin = load_f16(block + 2);
  for (int j = 0; j < kLanes; ++j) {
    scale[j] = d * static_cast<float>(scales[j]);
    minimum[j] = dmin * static_cast<float>(minima[j]);
  }
}

constexpr int kAffineHead = 4 + kScaleBytes;
constexpr Search kSearchQ4 = {15.0f, -1.0f, 20, true};
constexpr Search kSearchQ5 = {31.0f, -0.5f, 15, true};

// ---------------------------------------------------------------- Q2_K: 16 sub-blocks of 16

constexpr int kSub2 = 16, kSubs2 = kSuper / kSub2;
constexpr float kScaleTop2 = 15.0f;
constexpr Search kSearchQ2 = {3.0f, -0.5f, 15, false};
constexpr int kCodes2 = kSubs2, kScale2 = kCodes2 + kSuper / 4;  // where codes and d, dmin lie

// scales: [16], scale in the low and minimum in the high half. d, dmin: 4 bytes. codes: [256], 0 to 3.
void encode_q2_super(const float* values, std::byte* scales, std::byte* d, std::uint8_t* codes) {
  Lanes x[2][kSub2];
  AffineFit fits[2];
  float top_scale = 0.0f, top_minimum = 0.0f;
  for (int half = 0; half < 2; ++half) {
    Lanes weight[kSub2];
    transpose_sub_blocks(values + half * kLanes * kSub2, x[half]);
    for (int i = 0; i < kSub2; ++i) {
      for (int j = 0; j < kLanes; ++j) weight[i][j] = std::fabs(x[half][i][j]);
    }
    fits[half] = fit_affine<kSearchQ2>(x[half], weight);
    top_scale = std::max(top_scale, *std::max_element(fits[half].scale, fits[half].scale + kLanes));
    top_minimum = std::max(top_minimum, *std::max_element(fits[half].minimum, fits[half].minimum + kLanes));
  }
  const float per_scale = top_scale > 0.0f ? kScaleTop2 / top_scale : 0.0f;
  const float per_minimum = top_minimum > 0.0f ? kScaleTop2 / top_minimum : 0.0f;
  store_f16(d, top_scale / kScaleTop2);
  store_f16(d + 2, top_minimum / kScaleTop2);
  for (int sub = 0; sub < kSubs2; ++sub) {
    const AffineFit& fit = fits[sub / kLanes];
    const int j = sub % kLanes;
    const int s = round_clamped(per_scale * fit.scale[j], 0.0f, kScaleTop2);
    const int m = round_clamped(per_minimum * fit.minimum[j], 0.0f, kScaleTop2);
    scales[sub] = static_cast<std::byte>(s | m << 4);
    const float scale = load_f16(d) * static_cast<float>(s);
    const float minimum = load_f16(d + 2) * static_cast<float>(m);
    for (int i = 0; i < kSub2; ++i) {
      const float value = x[sub / kLanes][i][j];
      const float level =
          scale != 0.0f ? (value + minimum) / scale : fit.inverse_step[j] * (value - fit.origin[j]);
      codes[sub * kSub2 + i] = static_cast<std::uint8_t>(round_clamped(level, 0.0f, kSearchQ2.top));
    }
  }
}

}  // namespace

void encode_q2_k(const float* values, std::int64_t count, std::byte* out) {
  std::uint8_t codes[kSuper];
  for (; count > 0; count -= kSuper, values += kSuper, out += 84) {
    encode_q2_super(values, out, out + kScale2, codes);
    pack_pairs_of_bits(codes, out + kCodes2);
  }
}

void decode_q2_k(const std::byte* blocks, std::int64_t count, float* values) {
  std::uint8_t codes[kSuper];
  for (; count > 0; count -= kSuper, values += kSuper, blocks += 84) {
    const float d = load_f16(blocks + kScale2), dmin = load_f16(blocks + kScale2 + 2);
    unpack_pairs_of_bits(blocks + kCodes2, codes);
    for (int e = 0; e < kSuper; ++e) {
      const auto both = std::to_integer<int>(blocks[e / kSub2]);
      const float scale = d * static_cast<float>(both & 15), minimum = dmin * static_cast<float>(both >> 4);
      values[e] = scale * static_cast<float>(codes[e]) - minimum;
    }
  }
}

// d, dmin (f16); scales[12]; 128 bytes: byte 32 i + l holds sub-block 2 i (low nibble) and 2 i + 1 at
// position l.
void encode_q4_k(const float* values, std::int64_t count, std::byte* out) {
  std::uint8_t codes[kSuper];
  for (; count > 0; count -= kSuper, values += kSuper, out += 144) {
    encode_affine_super<kSearchQ4>(values, out, codes);
    for (int i = 0; i < kSuper / 2; ++i) {
      const int at = i / kSub * 2 * kSub + i % kSub;
      out[kAffineHead + i] = static_cast<std::byte>(codes[at] | codes[at + kSub] << 4);
    }
  }
}

void decode_q4_k(const std::byte* blocks, std::int64_t count, float* values) {
  for (; count > 0; count -= kSuper, values += kSuper, blocks += 144) {
    Lanes scale, minimum;
    decode_affine_scales(blocks, scale, minimum);
    for (int e = 0; e < kSuper; ++e) {
      const int sub = e / kSub;
      const auto pair = std::to_integer<int>(blocks[kAffineHead + sub / 2 * kSub + e % kSub]);
      values[e] = scale[sub] * static_cast<float>(pair >> 4 * (sub % 2) & 15) - minimum[sub];
    }
  }
}

// As Q4_K with 32 bytes of fifth bits before the nibbles: bit s of byte l belongs to sub-block s, position l.
void encode_q5_k(const float* values, std::int64_t count, std::byte* out) {
  std::uint8_t codes[kSuper];
  for (; count > 0; count -= kSuper, values += kSuper, out += 176) {
    encode_affine_super<kSearchQ5>(values, out, codes);
    for (int l = 0; l < kSub; ++l) {
      int bits = 0;
      for (int sub = 0; sub < kLanes; ++sub) bits |= codes[sub * kSub + l] >> 4 << sub;
      out[kAffineHead + l] = static_cast<std::byte>(bits);
    }
    for (int i = 0; i < kSuper / 2; ++i) {
      const int at = i / kSub * 2 * kSub + i % kSub;
      out[kAffineHead + kSub + i] = static_cast<std::byte>((codes[at] & 15) | (codes[at + kSub] & 15) << 4);
    }
  }
}

void decode_q5_k(const std::byte* blocks, std::int64_t count, float* values) {
  for (; count > 0; count -= kSuper, values += kSuper, blocks += 176) {
    Lanes scale, minimum;
    decode_affine_scales(blocks, scale, minimum);
    for (int e = 0; e < kSuper; ++e) {
      const int sub = e / kSub, l = e % kSub;
      const auto pair = std::to_integer<int>(blocks[kAffineHead + kSub + sub / 2 * kSub + l]);
      const int high = std::to_integer<int>(blocks[kAffineHead + l]) >> sub & 1;
      values[e] = scale[sub] * static_cast<float>((pair >> 4 * (sub % 2) & 15) | high << 4) - minimum[sub];
    }
  }
}

}  // namespace lithe::codec
