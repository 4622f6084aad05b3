// IQ4_NL, IQ4_XS and MXFP4: four bits choose a value from a table. See super_block.h for the lanes.
#include <algorithm>
#include <cmath>

#include "tensor/block_layout.h"
#include "tensor/codecs.h"
#include "tensor/super_block.h"

namespace lithe::codec {
namespace {

constexpr int kSub = 32;
constexpr int kHalf = kSub / 2;
constexpr int kTries = 7;  // steps tried on either side of the obvious one

// Byte j of 16: code j in the low half, code j + 16 in the high half.
void pack_halves(const std::uint8_t* codes, std::byte* out) {
  for (int j = 0; j < kHalf; ++j) out[j] = static_cast<std::byte>(codes[j] | codes[j + kHalf] << 4);
}

void unpack_halves(const std::byte* in, float scale, const std::array<std::int8_t, 16>& table, float* out) {
  for (int j = 0; j < kHalf; ++j) {
    const auto pair = std::to_integer<unsigned>(in[j]);
    out[j] = scale * static_cast<float>(table[pair & 15]);
    out[j + kHalf] = scale * static_cast<float>(table[pair >> 4]);
  }
}

// The middle between value k and the next of the table.
constexpr float middle(int k) {
  return 0.5f * static_cast<float>(kIq4Values[static_cast<std::size_t>(k)] +
                                   kIq4Values[static_cast<std::size_t>(k) + 1]);
}

// The code whose value is nearest, the upper of two equally near.
int nearest_code(float level) {
  int code = 0;
  for (int k = 0; k < 15; ++k) code += level >= middle(k) ? 1 : 0;
  return code;
}

// The value of that code: a walk up the table in steps, so that it vectorises.
float nearest_value(float level) {
  float value = kIq4Values[0];
  for (int k = 0; k < 15; ++k) {
    value = level >= middle(k) ? static_cast<float>(kIq4Values[static_cast<std::size_t>(k) + 1]) : value;
  }
  return value;
}

// How much of each sub-block its codes explain at a step, and their own square. Values weigh their square.
void weigh_codes(const Lanes (&x)[kSub], const Lanes& inverse, Lanes& sum_xq, Lanes& sum_qq) {
  Lanes xq{}, qq{};
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) {
      const float q = nearest_value(inverse[j] * x[i][j]), w = x[i][j] * x[i][j];
      xq[j] += w * q * x[i][j];
      qq[j] += w * q * q;
    }
  }
  std::copy_n(xq, kLanes, sum_xq);
  std::copy_n(qq, kLanes, sum_qq);
}

// The scale of each of 8 sub-blocks; 0 for one of zeros.
void fit_scales(const Lanes (&x)[kSub], Lanes& scale) {
  Lanes peak{}, magnitude{}, best{};
  for (int i = 0; i < kSub; ++i) {
    for (int j = 0; j < kLanes; ++j) {
      const bool greater = std::fabs(x[i][j]) > magnitude[j];
      magnitude[j] = greater ? std::fabs(x[i][j]) : magnitude[j];
      peak[j] = greater ? x[i][j] : peak[j];
    }
  }
  for (int attempt = -1; attempt <= 2 * kTries; ++attempt) {
    Lanes inverse, xq, qq;
    for (int j = 0; j < kLanes; ++j) {
      if (attempt < 0) {  // the obvious one: the peak becomes the first value, with the other sign
        inverse[j] = 1.0f / (-peak[j] / static_cast<float>(kIq4Values[0]));
      } else {
        inverse[j] = static_cast<float>(attempt - kTries + kIq4Values[0]) / peak[j];
      }
      inverse[j] = magnitude[j] < kTiny ? 0.0f : inverse[j];
    }
    weigh_codes(x, inverse, xq, qq);
    for (int j = 0; j < kLanes; ++j) {
      const bool better = attempt < 0 || (qq[j] > 0.0f && xq[j] * xq[j] > best[j] * qq[j]);
      if (!better) continue;
      scale[j] = magnitude[j] >= kTiny && qq[j] > 0.0f ? xq[j] / qq[j] : 0.0f;
      best[j] = scale[j] * xq[j];
    }
  }
}

float inverse_or_zero(float x) {
  return x != 0.0f ? 1.0f / x : 0.0f;
}

void encode_halves(const float* values, float inverse, std::byte* out) {
  std::uint8_t codes[kSub];
  for (int i = 0; i < kSub; ++i) codes[i] = static_cast<std::uint8_t>(nearest_code(inverse * values[i]));
  pack_halves(codes, out);
}

}  // namespace

void encode_iq4_nl(const float* values, std::int64_t count, std::byte* out) {
  float padded[kLanes * kSub];
  for (; count > 0; count -= kLanes * kSub, values += kLanes * kSub) {
    const auto here = static_cast<int>(std::min<std::int64_t>(count, kLanes * kSub));
    std::fill(std::copy_n(values, here, padded), padded + kLanes * kSub, 0.0f);
    Lanes x[kSub], scale;
    transpose_sub_blocks(padded, x);
    fit_scales(x, scale);
    for (int j = 0; j < here / kSub; ++j, out += 2 + kHalf) {
      store_f16(out, scale[j]);
      encode_halves(values + j * kSub, inverse_or_zero(scale[j]), out + 2);
    }
  }
}

void decode_iq4_nl(const std::byte* blocks, std::int64_t count, float* values) {
  for (; count > 0; count -= kSub, values += kSub, blocks += 2 + kHalf) {
    unpack_halves(blocks + 2, load_f16(blocks), kIq4Values, values);
  }
}

// d (f16); the high two bits of the 8 scales (u16, scale j at bit 2 j); their low four bits, two a byte; codes.
void encode_iq4_xs(const float* values, std::int64_t count, std::byte* out) {
  constexpr int kLow = 4, kCodes = 8;
  for (; count > 0; count -= kSuper, values += kSuper, out += 136) {
    Lanes x[kSub], scale;
    transpose_sub_blocks(values, x);
    fit_scales(x, scale);
    float top = 0.0f;
    for (const float s : scale) top = std::fabs(s) > std::fabs(top) ? s : top;
    const float d = -top / 32.0f, inverse = inverse_or_zero(d);
    store_f16(out, d);
    unsigned high = 0, low[kLanes];
    for (int j = 0; j < kLanes; ++j) {
      const int s = round_clamped(inverse * scale[j], -32.0f, 31.0f);
      encode_halves(values + j * kSub, inverse_or_zero(d * static_cast<float>(s)), out + kCodes + j * kHalf);
      const auto bits = static_cast<unsigned>(s + 32);
      high |= bits >> 4 << 2 * j;
      low[j] = bits & 15;
    }
    out[2] = static_cast<std::byte>(high);
    out[3] = static_cast<std::byte>(high >> 8);
    for (int j = 0; j < 4; ++j) out[kLow + j] = static_cast<std::byte>(low[2 * j] | low[2 * j + 1] << 4);
  }
}

void decode_iq4_xs(const std::byte* blocks, std::int64_t count, float* values) {
  for (; count > 0; count -= kSuper, values += kSuper, blocks += 136) {
    const float d = load_f16(blocks);
    for (int j = 0; j < kLanes; ++j) {
      const float scale = d * static_cast<float>(iq4_xs_scale(blocks, j));
      unpack_halves(blocks + 8 + j * kHalf, scale, kIq4Values, values + j * kSub);
    }
  }
}

// e (u8), codes. ggml takes the exponent of the peak; where that falls below the least one, Lithe stays there.
void encode_mxfp4(const float* values, std::int64_t count, std::byte* out) {
  constexpr float kMiddles[] = {0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f};
  for (; count > 0; count -= kSub, values += kSub, out += 1 + kHalf) {
    float peak = 0.0f;
    for (int i = 0; i < kSub; ++i) peak = std::max(peak, std::fabs(values[i]));
    const float exponent = peak > 0.0f ? std::floor(std::log2(peak)) - 2.0f + 127.0f : 0.0f;
    const auto e = static_cast<std::uint8_t>(std::clamp(exponent, 0.0f, 254.0f));
    const float d = e8m0_half(e);
    std::uint8_t codes[kSub];
    for (int i = 0; i < kSub; ++i) {
      unsigned code = 0;  // the nearest; the one nearer to zero of two
      for (const float middle : kMiddles) code += std::fabs(values[i]) > middle * d ? 1u : 0u;
      codes[i] = static_cast<std::uint8_t>(code + (code > 0 && values[i] < 0.0f ? 8 : 0));
    }
    out[0] = static_cast<std::byte>(e);
    pack_halves(codes, out + 1);
  }
}

void decode_mxfp4(const std::byte* blocks, std::int64_t count, float* values) {
  for (; count > 0; count -= kSub, values += kSub, blocks += 1 + kHalf) {
    unpack_halves(blocks + 1, e8m0_half(std::to_integer<std::uint8_t>(blocks[0])), kMxfp4Values, values);
  }
}

}  // namespace lithe::codec
