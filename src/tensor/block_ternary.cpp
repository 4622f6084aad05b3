// TQ1_0 and TQ2_0: values -1, 0 and 1 times one scale a super-block. Made for weights that are ternary to begin with:
// the scale is the greatest magnitude.
#include <algorithm>
#include <cmath>

#include "tensor/block_layout.h"
#include "tensor/codecs.h"
#include "tensor/super_block.h"

namespace lithe::codec {
namespace {

// codes: [256], 0 to 2.
float ternary_codes(const float* x, std::uint8_t* codes) {
  float peak = 0.0f;
  for (int i = 0; i < kSuper; ++i) peak = std::max(peak, std::fabs(x[i]));
  const float inverse = reciprocal_or_zero(peak);
  for (int i = 0; i < kSuper; ++i) {
    const float level = x[i] * inverse;  // within [-1, 1], halves away from zero
    codes[i] = static_cast<std::uint8_t>(1 + int{level >= 0.5f} - int{level <= -0.5f});
  }
  return peak;
}

void decode_codes(const std::uint8_t* codes, float scale, float* values) {
  for (int i = 0; i < kSuper; ++i) values[i] = static_cast<float>(int{codes[i]} - 1) * scale;
}

}  // namespace

void encode_tq1_0(const float* values, std::int64_t count, std::byte* out) {
  std::uint8_t codes[kSuper];
  for (; count > 0; count -= kSuper, values += kSuper, out += 54) {
    store_f16(out + 52, ternary_codes(values, codes));
    for (int at = 0; at < 52; ++at) {
      const TritByte byte = trit_byte(at);
      unsigned number = 0;
      for (int n = 0; n < 5; ++n)
        number = number * 3 + (n < byte.count ? codes[byte.first + n * byte.stride] : 0);
      out[at] = static_cast<std::byte>((number * 256 + 242) / 243);  // a fraction of 3^5, rounded up
    }
  }
}

void decode_tq1_0(const std::byte* blocks, std::int64_t count, float* values) {
  std::uint8_t codes[kSuper];
  for (; count > 0; count -= kSuper, values += kSuper, blocks += 54) {
    unpack_trits(blocks, codes);
    decode_codes(codes, load_f16(blocks + 52), values);
  }
}

void encode_tq2_0(const float* values, std::int64_t count, std::byte* out) {
  std::uint8_t codes[kSuper];
  for (; count > 0; count -= kSuper, values += kSuper, out += 66) {
    store_f16(out + 64, ternary_codes(values, codes));
    pack_pairs_of_bits(codes, out);
  }
}

void decode_tq2_0(const std::byte* blocks, std::int64_t count, float* values) {
  std::uint8_t codes[kSuper];
  for (; count > 0; count -= kSuper, values += kSuper, blocks += 66) {
    unpack_pairs_of_bits(blocks, codes);
    decode_codes(codes, load_f16(blocks + 64), values);
  }
}

}  // namespace lithe::codec
