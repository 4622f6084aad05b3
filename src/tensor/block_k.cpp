// The K-quants: super-blocks of 256 values whose sub-blocks have 6-bit or 8-bit scales of their own.
//
// Encoding is a search: each sub-block tries a list of step sizes around the obvious one, rounds its values,
// solves the weighted least squares for the scale (and minimum) that suit those codes best, and keeps the
// best of all. The search of each sub-block is sequential, so that it gives ggml's bits; the sub-blocks of a
// super-block are independent, so they run side by side, one per lane, over transposed values. Plain loops
// over lanes: the compiler vectorises them.
#include <algorithm>
#include <cmath>

#include "tensor/codecs.h"

namespace lithe::codec {
namespace {

constexpr int kSuper = 256;

// ---------------------------------------------------------------- Q4_K and Q5_K: 8 sub-blocks of 32

constexpr int kLanes = 8;
constexpr int kSub = kSuper / kLanes;
constexpr int kScaleBytes = 12;
constexpr float kScaleTop = 63.0f;

using Lanes = float[kLanes];

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

// x ~ scale * code - minimum for each lane, code in [0, top], scale and minimum >= 0.
struct AffineFit {
  Lanes scale, minimum;
  Lanes inverse_step, origin;  // code = round((x - origin) * inverse_step): the codes the fit was made for
};

struct Search {
  float top;    // greatest code
  float first;  // the steps tried: (range) / (top + first + 0.1 * i), i = 0 .. last
  int last;
};

// One candidate step: rounds with it, solves for scale and minimum, and keeps them where the weighted error
// sinks.
void try_step(const float (*x)[kLanes], const float (*weight)[kLanes], const Lanes& low,
              const Lanes& inverse_step, const Lanes& sum_w, const Lanes& sum_wx, float top,
              Lanes& best_error, AffineFit& fit) {
  Lanes codes[kSub];
  Lanes sum_l{}, sum_ll{}, sum_xl{};
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) {
      const auto code = static_cast<float>(round_clamped(inverse_step[j] * (x[i][j] - low[j]), 0.0f, top));
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
      error[j] += weight[i][j] * (off * off);
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

// x, weight: [kSub][kLanes].
AffineFit fit_affine(const float (*x)[kLanes], const float (*weight)[kLanes], const Search& search) {
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
    const float inverse = search.top / (high[j] - low[j]);
    const bool flat = !(inverse - inverse == 0.0f);
    fit.inverse_step[j] = flat ? 0.0f : inverse;
    fit.scale[j] = flat ? 0.0f : 1.0f / inverse;
  }
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) {
      const int code = round_clamped(fit.inverse_step[j] * (x[i][j] - low[j]), 0.0f, search.top);
      const float off = fit.scale[j] * static_cast<float>(code) + low[j] - x[i][j];
      error[j] += weight[i][j] * (off * off);
    }
  }
  for (int step = 0; step <= search.last; ++step) {
    Lanes inverse;
    const float levels = search.first + 0.1f * static_cast<float>(step) + search.top;
    for (int j = 0; j < kLanes; ++j) {
      low[j] = -fit.minimum[j];                  // each try starts from the best minimum so far
      inverse[j] = levels / (high[j] - low[j]);  // of no use where that is 0: all codes 0
    }
    try_step(x, weight, low, inverse, sum_w, sum_wx, search.top, error, fit);
  }
  return fit;
}

// Everything of a Q4_K or Q5_K super-block but the packing of its codes. out: d, dmin, 12 bytes of scales (16
// bytes).
void encode_affine_super(const float* values, const Search& search, std::byte* out, std::uint8_t* codes) {
  Lanes x[kSub], weight[kSub];
  for (int j = 0; j < kLanes; ++j) {
    for (int i = 0; i < kSub; ++i) x[i][j] = values[j * kSub + i];
  }
  Lanes rms{};
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) rms[j] += x[i][j] * x[i][j];
  }
  for (int j = 0; j < kLanes; ++j) rms[j] = std::sqrt(rms[j] / static_cast<float>(kSub));
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) weight[i][j] = rms[j] + std::fabs(x[i][j]);
  }
  const AffineFit fit = fit_affine(x, weight, search);

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
      codes[j * kSub + i] = static_cast<std::uint8_t>(round_clamped(level, 0.0f, search.top));
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
constexpr Search kSearchQ4 = {15.0f, -1.0f, 20};
constexpr Search kSearchQ5 = {31.0f, -0.5f, 15};

// ---------------------------------------------------------------- Q6_K: 16 sub-blocks of 16

constexpr int kSubs6 = 16;
constexpr int kSub6 = kSuper / kSubs6;
// Below this a sub-block counts as zero.
constexpr float kTiny = 1e-15f;

// x ~ scale * code for each of 8 sub-blocks, code in [-32, 31].
struct SymmetricFit {
  Lanes scale;
  Lanes inverse_step;  // code = round(x * inverse_step); 0 where the sub-block is zero
};

// With the codes that a step gives: how much of the sub-block they explain, and their own square. Values weigh their
// square.
void weigh_codes(const float (*x)[kLanes], const Lanes& inverse_step, Lanes& sum_xl, Lanes& sum_ll) {
  Lanes xl{}, ll{};
  for (int i = 0; i < kSub6; ++i) {
    for (int j = 0; j < kLanes; ++j) {
      const auto code = static_cast<float>(round_clamped(inverse_step[j] * x[i][j], -32.0f, 31.0f));
      const float w = x[i][j] * x[i][j];
      xl[j] += w * x[i][j] * code;
      ll[j] += w * code * code;
    }
  }
  std::copy_n(xl, kLanes, sum_xl);
  std::copy_n(ll, kLanes, sum_ll);
}

SymmetricFit fit_symmetric(const float (*x)[kLanes]) {
  Lanes peak{}, magnitude{};
  for (int i = 0; i < kSub6; ++i) {
    for (int j = 0; j < kLanes; ++j) {
      const bool greater = std::fabs(x[i][j]) > magnitude[j];
      magnitude[j] = greater ? std::fabs(x[i][j]) : magnitude[j];
      peak[j] = greater ? x[i][j] : peak[j];
    }
  }
  SymmetricFit fit{};
  Lanes best{};
  for (int attempt = 0; attempt < 19; ++attempt) {
    // The obvious step first, then -+ 0.1 i levels. Each sub-block keeps the codes that explain most of it.
    const int step = attempt == 0 ? 0 : attempt <= 9 ? attempt - 10 : attempt - 9;
    const float levels = -(32.0f + 0.1f * static_cast<float>(step));
    Lanes inverse, sum_xl, sum_ll;
    for (int j = 0; j < kLanes; ++j) inverse[j] = magnitude[j] < kTiny ? 0.0f : levels / peak[j];
    weigh_codes(x, inverse, sum_xl, sum_ll);
    for (int j = 0; j < kLanes; ++j) {
      const bool better = attempt == 0 || (sum_ll[j] > 0.0f && sum_xl[j] * sum_xl[j] > best[j] * sum_ll[j]);
      if (!better) continue;
      fit.scale[j] = sum_ll[j] != 0.0f ? sum_xl[j] / sum_ll[j] : 0.0f;
      fit.inverse_step[j] = inverse[j];
      best[j] = fit.scale[j] * sum_xl[j];
    }
  }
  return fit;
}

// codes: [256], 0 to 63. scales: [16].
float encode_symmetric_super(const float* values, std::int8_t* scales, std::uint8_t* codes) {
  SymmetricFit fits[kSubs6 / kLanes];
  for (int half = 0; half < kSubs6 / kLanes; ++half) {
    Lanes x[kSub6];
    for (int j = 0; j < kLanes; ++j) {
      for (int i = 0; i < kSub6; ++i) x[i][j] = values[(half * kLanes + j) * kSub6 + i];
    }
    fits[half] = fit_symmetric(x);
  }
  float top = 0.0f;
  for (const SymmetricFit& fit : fits) {
    for (const float scale : fit.scale) top = std::fabs(scale) > std::fabs(top) ? scale : top;
  }
  std::fill_n(scales, kSubs6, std::int8_t{0});
  std::fill_n(codes, kSuper, std::uint8_t{0});
  if (!(std::fabs(top) >= kTiny)) return 0.0f;

  const float per_scale = -128.0f / top;
  const float d = 1.0f / per_scale;
  const float stored = f16_to_f32(f32_to_f16(d));
  for (int sub = 0; sub < kSubs6; ++sub) {
    const SymmetricFit& fit = fits[sub / kLanes];
    const int j = sub % kLanes;
    scales[sub] = static_cast<std::int8_t>(round_clamped(per_scale * fit.scale[j], -128.0f, 127.0f));
    const float scale = stored * static_cast<float>(scales[sub]);
    if (scale == 0.0f && fit.inverse_step[j] == 0.0f) continue;
    for (int i = sub * kSub6; i < (sub + 1) * kSub6; ++i) {
      const float level = scale != 0.0f ? values[i] / scale : values[i] * fit.inverse_step[j];
      codes[i] = static_cast<std::uint8_t>(32 + round_clamped(level, -32.0f, 31.0f));
    }
  }
  return d;
}

}  // namespace

// d, dmin (f16); scales[12]; 128 bytes: byte 32 i + l holds sub-block 2 i (low nibble) and 2 i + 1 at
// position l.
void encode_q4_k(const float* values, std::int64_t count, std::byte* out) {
  std::uint8_t codes[kSuper];
  for (; count > 0; count -= kSuper, values += kSuper, out += 144) {
    encode_affine_super(values, kSearchQ4, out, codes);
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
    encode_affine_super(values, kSearchQ5, out, codes);
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

// Where value e of a half super-block (e < 128) keeps its six bits: four in byte e % 64 of the half's 64 low
// bytes (the high nibble from e = 64 on), two in byte e % 32 of its 32 high bytes, at bit e / 32 * 2.
void encode_q6_k(const float* values, std::int64_t count, std::byte* out) {
  constexpr int kLow = 0, kHigh = 128, kScales = 192, kScale = 208;
  std::uint8_t codes[kSuper];
  std::int8_t scales[kSubs6];
  for (; count > 0; count -= kSuper, values += kSuper, out += 210) {
    const float d = encode_symmetric_super(values, scales, codes);
    for (int half = 0; half < 2; ++half) {
      const std::uint8_t* code = codes + half * 128;
      for (int i = 0; i < 64; ++i) {
        out[kLow + half * 64 + i] = static_cast<std::byte>((code[i] & 15) | (code[i + 64] & 15) << 4);
      }
      for (int i = 0; i < 32; ++i) {
        out[kHigh + half * 32 + i] = static_cast<std::byte>(code[i] >> 4 | code[i + 32] >> 4 << 2 |
                                                            code[i + 64] >> 4 << 4 | code[i + 96] >> 4 << 6);
      }
    }
    std::memcpy(out + kScales, scales, sizeof scales);
    store_f16(out + kScale, d);
  }
}

void decode_q6_k(const std::byte* blocks, std::int64_t count, float* values) {
  constexpr int kLow = 0, kHigh = 128, kScales = 192, kScale = 208;
  for (; count > 0; count -= kSuper, values += kSuper, blocks += 210) {
    const float d = load_f16(blocks + kScale);
    for (int e = 0; e < kSuper; ++e) {
      const int half = e / 128, in_half = e % 128;
      const auto low = std::to_integer<int>(blocks[kLow + half * 64 + in_half % 64]) >> in_half / 64 * 4 & 15;
      const auto high =
          std::to_integer<int>(blocks[kHigh + half * 32 + in_half % 32]) >> in_half / 32 * 2 & 3;
      const auto scale = static_cast<float>(static_cast<std::int8_t>(blocks[kScales + e / kSub6]));
      values[e] = d * scale * static_cast<float>((low | high << 4) - 32);
    }
  }
}

}  // namespace lithe::codec
