// The float formats, and those with 32 values and one scale (and one minimum) a block.
// Rounding follows ggml's reference quantisers to the bit, so that files are equal to those of the field's
// tools.
#include <algorithm>
#include <cmath>

#include "tensor/codecs.h"

namespace lithe::codec {
namespace {

constexpr int kBlock = 32;
constexpr int kHalf = kBlock / 2;

// The value of greatest magnitude, with its sign; the first of equals.
float signed_peak(const float* x) {
  float peak = 0.0f, magnitude = 0.0f;
  for (int i = 0; i < kBlock; ++i) {
    if (std::fabs(x[i]) > magnitude) {
      magnitude = std::fabs(x[i]);
      peak = x[i];
    }
  }
  return peak;
}

// floor for the non-negative values here, kept inside the code's range (NaN becomes 0).
unsigned truncate_code(float value, unsigned max_code) {
  value = value > 0.0f ? value : 0.0f;
  const auto top = static_cast<float>(max_code);
  return static_cast<unsigned>(value < top ? value : top);
}

// Codes of a block around zero: the peak gets code 0, so that -peak's side, the longer one, has the extra
// level.
float symmetric_codes(const float* x, unsigned levels, unsigned* codes) {
  const auto zero = static_cast<float>(levels) / 2;
  const float scale = signed_peak(x) / -zero;
  const float inverse = reciprocal_or_zero(scale);
  for (int i = 0; i < kBlock; ++i) codes[i] = truncate_code(x[i] * inverse + (zero + 0.5f), levels - 1);
  return scale;
}

// Codes of a block between its minimum and maximum.
float affine_codes(const float* x, unsigned levels, unsigned* codes, float* minimum) {
  const auto [low, high] = std::minmax_element(x, x + kBlock);
  const float scale = (*high - *low) / static_cast<float>(levels - 1);
  const float inverse = reciprocal_or_zero(scale);
  for (int i = 0; i < kBlock; ++i) codes[i] = truncate_code((x[i] - *low) * inverse + 0.5f, levels - 1);
  *minimum = *low;
  return scale;
}

// Byte j: code j in the low nibble, code j + 16 in the high one.
void pack_nibbles(const unsigned* codes, std::byte* out) {
  for (int j = 0; j < kHalf; ++j) {
    out[j] = static_cast<std::byte>((codes[j] & 15u) | (codes[j + kHalf] & 15u) << 4);
  }
}

// Bit i: the fifth bit of code i.
void pack_fifth_bits(const unsigned* codes, std::byte* out) {
  std::uint32_t bits = 0;
  for (int i = 0; i < kBlock; ++i) bits |= (codes[i] >> 4 & 1u) << i;
  std::memcpy(out, &bits, sizeof bits);
}

void unpack_nibbles(const std::byte* in, int* codes) {
  for (int j = 0; j < kHalf; ++j) {
    const auto pair = std::to_integer<int>(in[j]);
    codes[j] = pair & 15;
    codes[j + kHalf] = pair >> 4;
  }
}

void add_fifth_bits(const std::byte* in, int* codes) {
  std::uint32_t bits;
  std::memcpy(&bits, in, sizeof bits);
  for (int i = 0; i < kBlock; ++i) codes[i] |= static_cast<int>(bits >> i & 1u) << 4;
}

// The formats that keep 32 codes in nibbles, with or without a fifth bit each, with or without a minimum:
// f16 scale, f16 minimum, u32 fifth bits, 16 bytes of nibbles.
template <int kBits, bool kMinimum>
struct NibbleFormat {
  static constexpr unsigned kLevels = 1u << kBits;
  static constexpr bool kFifth = kBits == 5;
  static constexpr int kFifthAt = kMinimum ? 4 : 2;
  static constexpr int kCodesAt = kFifth ? kFifthAt + 4 : kFifthAt;
  static constexpr int kBytes = kCodesAt + kHalf;

  static void encode(const float* values, std::int64_t count, std::byte* out) {
    unsigned codes[kBlock];
    for (; count > 0; count -= kBlock, values += kBlock, out += kBytes) {
      if constexpr (kMinimum) {
        float minimum;
        store_f16(out, affine_codes(values, kLevels, codes, &minimum));
        store_f16(out + 2, minimum);
      } else {
        store_f16(out, symmetric_codes(values, kLevels, codes));
      }
      if constexpr (kFifth) pack_fifth_bits(codes, out + kFifthAt);
      pack_nibbles(codes, out + kCodesAt);
    }
  }

  static void decode(const std::byte* blocks, std::int64_t count, float* values) {
    int codes[kBlock];
    for (; count > 0; count -= kBlock, values += kBlock, blocks += kBytes) {
      const float scale = load_f16(blocks);
      unpack_nibbles(blocks + kCodesAt, codes);
      if constexpr (kFifth) add_fifth_bits(blocks + kFifthAt, codes);
      if constexpr (kMinimum) {
        const float minimum = load_f16(blocks + 2);
        for (int i = 0; i < kBlock; ++i) values[i] = scale * static_cast<float>(codes[i]) + minimum;
      } else {
        constexpr int kZero = kLevels / 2;
        for (int i = 0; i < kBlock; ++i) values[i] = scale * static_cast<float>(codes[i] - kZero);
      }
    }
  }
};

}  // namespace

void encode_f32(const float* values, std::int64_t count, std::byte* out) {
  std::memcpy(out, values, static_cast<std::size_t>(count) * sizeof(float));
}

void decode_f32(const std::byte* blocks, std::int64_t count, float* values) {
  std::memcpy(values, blocks, static_cast<std::size_t>(count) * sizeof(float));
}

void encode_f16(const float* values, std::int64_t count, std::byte* out) {
  for (std::int64_t i = 0; i < count; ++i) store_f16(out + 2 * i, values[i]);
}

void decode_f16(const std::byte* blocks, std::int64_t count, float* values) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = load_f16(blocks + 2 * i);
}

void encode_bf16(const float* values, std::int64_t count, std::byte* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint16_t bits = f32_to_bf16(values[i]);
    std::memcpy(out + 2 * i, &bits, sizeof bits);
  }
}

void decode_bf16(const std::byte* blocks, std::int64_t count, float* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, blocks + 2 * i, sizeof bits);
    values[i] = bf16_to_f32(bits);
  }
}

void encode_q8_0(const float* values, std::int64_t count, std::byte* out) {
  for (; count > 0; count -= kBlock, values += kBlock, out += 2 + kBlock) {
    float magnitude = 0.0f;
    for (int i = 0; i < kBlock; ++i) magnitude = std::max(magnitude, std::fabs(values[i]));
    const float scale = magnitude / 127.0f;
    const float inverse = reciprocal_or_zero(scale);
    store_f16(out, scale);
    for (int i = 0; i < kBlock; ++i) {
      // Halves away from zero. The remainder is exact, which adding 0.5 before truncating would not be.
      const float level = values[i] * inverse;
      const int whole = static_cast<int>(level);
      const float rest = level - static_cast<float>(whole);
      out[2 + i] = static_cast<std::byte>(whole + int{rest >= 0.5f} - int{rest <= -0.5f});
    }
  }
}

void decode_q8_0(const std::byte* blocks, std::int64_t count, float* values) {
  for (; count > 0; count -= kBlock, values += kBlock, blocks += 2 + kBlock) {
    const float scale = load_f16(blocks);
    for (int i = 0; i < kBlock; ++i) {
      values[i] = scale * static_cast<float>(static_cast<std::int8_t>(blocks[2 + i]));
    }
  }
}

void encode_q4_0(const float* values, std::int64_t count, std::byte* out) {
  NibbleFormat<4, false>::encode(values, count, out);
}
void decode_q4_0(const std::byte* blocks, std::int64_t count, float* values) {
  NibbleFormat<4, false>::decode(blocks, count, values);
}

void encode_q4_1(const float* values, std::int64_t count, std::byte* out) {
  NibbleFormat<4, true>::encode(values, count, out);
}
void decode_q4_1(const std::byte* blocks, std::int64_t count, float* values) {
  NibbleFormat<4, true>::decode(blocks, count, values);
}

void encode_q5_0(const float* values, std::int64_t count, std::byte* out) {
  NibbleFormat<5, false>::encode(values, count, out);
}
void decode_q5_0(const std::byte* blocks, std::int64_t count, float* values) {
  NibbleFormat<5, false>::decode(blocks, count, values);
}

void encode_q5_1(const float* values, std::int64_t count, std::byte* out) {
  NibbleFormat<5, true>::encode(values, count, out);
}
void decode_q5_1(const std::byte* blocks, std::int64_t count, float* values) {
  NibbleFormat<5, true>::decode(blocks, count, values);
}

}  // namespace lithe::codec
