// What the encoders of super-blocks share: internal to src/tensor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lithe::codec {

inline constexpr int kSuper = 256;

/// Sub-blocks whose searches run side by side, one per lane, over transposed values. The search of each is sequential,
/// so that it gives ggml's bits. Plain loops over lanes: the compiler vectorises them.
inline constexpr int kLanes = 8;
using Lanes = float[kLanes];

/// Below this a sub-block counts as zero.
inline constexpr float kTiny = 1e-15f;

/// x[i][j] = values[j * kSub + i]: the values of kLanes neighbouring sub-blocks.
template <int kSub>
void transpose_sub_blocks(const float* values, Lanes (&x)[kSub]) {
  for (int j = 0; j < kLanes; ++j) {
    for (int i = 0; i < kSub; ++i) x[i][j] = values[j * kSub + i];
  }
}

/// 256 codes, of which the low two bits are kept, in 64 bytes: byte l of each half's 32 holds the values l, l + 32, l + 64
/// and l + 96 of its 128, from bit 0 up. Q2_K, Q3_K and TQ2_0.
inline void pack_pairs_of_bits(const std::uint8_t* codes, std::byte* out) {
  for (int i = 0; i < kSuper / 4; ++i) {
    const std::uint8_t* c = codes + i / 32 * 128 + i % 32;
    out[i] = static_cast<std::byte>((c[0] & 3) | (c[32] & 3) << 2 | (c[64] & 3) << 4 | (c[96] & 3) << 6);
  }
}

inline void unpack_pairs_of_bits(const std::byte* in, std::uint8_t* codes) {
  for (int e = 0; e < kSuper; ++e) {
    const auto byte = std::to_integer<unsigned>(in[e / 128 * 32 + e % 32]);
    codes[e] = static_cast<std::uint8_t>(byte >> e % 128 / 32 * 2 & 3);
  }
}

}  // namespace lithe::codec
