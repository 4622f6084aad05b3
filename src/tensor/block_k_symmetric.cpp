// The K-quants around zero: Q3_K and Q6_K, super-blocks of 256 values whose 16 sub-blocks have a signed scale each.
// Encoding is a search, as in block_k_affine.cpp.
#include <algorithm>
#include <cmath>

#include "tensor/block_layout.h"
#include "tensor/codecs.h"
#include "tensor/super_block.h"

namespace lithe::codec {
namespace {

constexpr int kSubs = 16;
constexpr int kSub = kSuper / kSubs;

// The sub-blocks' scale of greatest magnitude, with its sign.
float peak_scale(const Lanes (&scale)[kSubs / kLanes]) {
  float top = 0.0f;
  for (const Lanes& half : scale) {
    for (const float s : half) top = std::fabs(s) > std::fabs(top) ? s : top;
  }
  return top;
}

// ---------------------------------------------------------------- Q6_K

// x ~ scale * code for each of 8 sub-blocks, code in [-32, 31].
struct SymmetricFit {
  Lanes scale;
  Lanes inverse_step;  // code = round(x * inverse_step); 0 where the sub-block is zero
};

// With the codes that a step gives: how much of the sub-block they explain, and their own square. Values weigh their
// square.
void weigh_codes(const float (*x)[kLanes], const Lanes& inverse_step, Lanes& sum_xl, Lanes& sum_ll) {
  Lanes xl{}, ll{};
  for (int i = 0; i < kSub; ++i) {
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
  for (int i = 0; i < kSub; ++i) {
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
  SymmetricFit fits[kSubs / kLanes];
  Lanes fitted[kSubs / kLanes];
  for (int half = 0; half < kSubs / kLanes; ++half) {
    Lanes x[kSub];
    transpose_sub_blocks(values + half * kLanes * kSub, x);
    fits[half] = fit_symmetric(x);
    std::copy_n(fits[half].scale, kLanes, fitted[half]);
  }
  const float top = peak_scale(fitted);
  std::fill_n(scales, kSubs, std::int8_t{0});
  std::fill_n(codes, kSuper, std::uint8_t{0});
  if (!(std::fabs(top) >= kTiny)) return 0.0f;

  const float per_scale = -128.0f / top;
  const float d = 1.0f / per_scale;
  const float stored = f16_to_f32(f32_to_f16(d));
  for (int sub = 0; sub < kSubs; ++sub) {
    const SymmetricFit& fit = fits[sub / kLanes];
    const int j = sub % kLanes;
    scales[sub] = static_cast<std::int8_t>(round_clamped(per_scale * fit.scale[j], -128.0f, 127.0f));
    const float scale = stored * static_cast<float>(scales[sub]);
    if (scale == 0.0f && fit.inverse_step[j] == 0.0f) continue;
    for (int i = sub * kSub; i < (sub + 1) * kSub; ++i) {
      const float level = scale != 0.0f ? values[i] / scale : values[i] * fit.inverse_step[j];
      codes[i] = static_cast<std::uint8_t>(32 + round_clamped(level, -32.0f, 31.0f));
    }
  }
  return d;
}

// ---------------------------------------------------------------- Q3_K

constexpr int kHigh3 = 0, kLow3 = 32, kScales3 = 96, kScale3 = 108;  // where the parts of a block lie

// x ~ scale * code, code in [-4, 3]. Codes are rounded for the obvious step, then each in turn to what suits the scale
// that the others give, five times over.
void fit_q3(const Lanes (&x)[kSub], Lanes& scale, Lanes (&codes)[kSub]) {
  Lanes peak{}, magnitude{}, sum_xl{}, sum_ll{};
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) {
      const bool greater = std::fabs(x[i][j]) > magnitude[j];
      magnitude[j] = greater ? std::fabs(x[i][j]) : magnitude[j];
      peak[j] = greater ? x[i][j] : peak[j];
    }
  }
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) {
      const float inverse = magnitude[j] < kTiny ? 0.0f : -4.0f / peak[j];
      codes[i][j] = static_cast<float>(round_clamped(inverse * x[i][j], -4.0f, 3.0f));
      const float w = x[i][j] * x[i][j];
      sum_xl[j] += w * x[i][j] * codes[i][j];
      sum_ll[j] += w * codes[i][j] * codes[i][j];
    }
  }
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < kSub; ++i) {
      for (int j = 0; j < kLanes; ++j) {
        const float w = x[i][j] * x[i][j], old = codes[i][j];
        const float other_xl = sum_xl[j] - w * x[i][j] * old, other_ll = sum_ll[j] - w * old * old;
        const auto code = static_cast<float>(round_clamped(x[i][j] * other_ll / other_xl, -4.0f, 3.0f));
        const float xl = other_xl + w * x[i][j] * code, ll = other_ll + w * code * code;
        const bool better = other_xl > 0.0f && ll > 0.0f && xl * xl * sum_ll[j] > sum_xl[j] * sum_xl[j] * ll;
        const bool take = better && code != old;
        codes[i][j] = take ? code : old;
        sum_xl[j] = take ? xl : sum_xl[j];
        sum_ll[j] = take ? ll : sum_ll[j];
      }
    }
  }
  for (int j = 0; j < kLanes; ++j) {
    scale[j] = magnitude[j] >= kTiny && sum_ll[j] > 0.0f ? sum_xl[j] / sum_ll[j] : 0.0f;
    for (int i = 0; i < kSub; ++i) codes[i][j] = magnitude[j] < kTiny ? -4.0f : codes[i][j];
  }
}

// codes: [256], 0 to 7.
void encode_q3_super(const float* values, std::byte* out, std::uint8_t* codes) {
  Lanes scale[kSubs / kLanes], fitted[kSubs / kLanes][kSub];
  for (int half = 0; half < kSubs / kLanes; ++half) {
    Lanes x[kSub];
    transpose_sub_blocks(values + half * kLanes * kSub, x);
    fit_q3(x, scale[half], fitted[half]);
  }
  const float top = peak_scale(scale);
  const float per_scale = top != 0.0f ? -32.0f / top : 0.0f;
  store_f16(out + kScale3, top != 0.0f ? 1.0f / per_scale : 0.0f);
  const float d = load_f16(out + kScale3);
  std::fill_n(out + kScales3, 12, std::byte{0});
  for (int sub = 0; sub < kSubs; ++sub) {
    const int j = sub % kLanes;
    const int signed_scale = round_clamped(per_scale * scale[sub / kLanes][j], -32.0f, 31.0f);
    // docs/formats.md, q3_k: how six bits are spread. A super-block of zeros keeps six bits of 0, which stand for -32.
    const unsigned bits = top != 0.0f ? static_cast<unsigned>(signed_scale + 32) : 0u;
    out[kScales3 + sub % 8] |= static_cast<std::byte>((bits & 15) << sub / 8 * 4);
    out[kScales3 + 8 + sub % 4] |= static_cast<std::byte>(bits >> 4 << sub / 4 * 2);
    const float step = d * static_cast<float>(signed_scale);
    for (int i = 0; i < kSub; ++i) {
      const int code = step != 0.0f ? round_clamped(values[sub * kSub + i] / step, -4.0f, 3.0f)
                                    : static_cast<int>(fitted[sub / kLanes][i][j]);
      codes[sub * kSub + i] = static_cast<std::uint8_t>(code + 4);
    }
  }
}

}  // namespace

// Bit g of high byte l is the third bit of position l of group g (32 values); the low two bits as in Q2_K.
void encode_q3_k(const float* values, std::int64_t count, std::byte* out) {
  std::uint8_t codes[kSuper];
  for (; count > 0; count -= kSuper, values += kSuper, out += 110) {
    encode_q3_super(values, out, codes);
    for (int l = 0; l < 32; ++l) {
      unsigned high = 0;
      for (int group = 0; group < 8; ++group) high |= codes[32 * group + l] >> 2 << group;
      out[kHigh3 + l] = static_cast<std::byte>(high);
    }
    pack_pairs_of_bits(codes, out + kLow3);
  }
}

void decode_q3_k(const std::byte* blocks, std::int64_t count, float* values) {
  std::uint8_t codes[kSuper];
  for (; count > 0; count -= kSuper, values += kSuper, blocks += 110) {
    const float d = load_f16(blocks + kScale3);
    unpack_pairs_of_bits(blocks + kLow3, codes);
    for (int e = 0; e < kSuper; ++e) {
      const int high = std::to_integer<int>(blocks[kHigh3 + e % 32]) >> e / 32 & 1;
      const float scale = d * static_cast<float>(q3_k_scale(blocks + kScales3, e / kSub));
      values[e] = scale * static_cast<float>((codes[e] | high << 2) - 4);
    }
  }
}

// Where value e of a half super-block (e < 128) keeps its six bits: four in byte e % 64 of the half's 64 low
// bytes (the high nibble from e = 64 on), two in byte e % 32 of its 32 high bytes, at bit e / 32 * 2.
void encode_q6_k(const float* values, std::int64_t count, std::byte* out) {
  constexpr int kLow = 0, kHigh = 128, kScales = 192, kScale = 208;
  std::uint8_t codes[kSuper];
  std::int8_t scales[kSubs];
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
      const auto scale = static_cast<float>(static_cast<std::int8_t>(blocks[kScales + e / kSub]));
      values[e] = d * scale * static_cast<float>((low | high << 4) - 32);
    }
  }
}

}  // namespace lithe::codec
