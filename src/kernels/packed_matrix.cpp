#include "kernels/packed_matrix.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/packed_layout.h"
#include "tensor/half.h"

namespace lithe::kernels {
namespace {

using U8 = std::uint8_t;
using U32 = std::uint32_t;

constexpr U32 kOnes = 0x01010101;  // 1 in each byte

U32 load_u32(const std::byte* p) {
  U32 value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

std::uint16_t load_u16(const std::byte* p) {
  std::uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
void store_u16(std::byte* p, std::uint16_t value) {
  std::memcpy(p, &value, sizeof value);
}
float load_f16(const std::byte* p) {
  return f16_to_f32(load_u16(p));
}
int load_u8(const std::byte* p) {
  return std::to_integer<int>(*p);
}

/// Six-bit scale and minimum `j` of the 12 bytes of Q4_K and Q5_K.
void k_scale_min(const std::byte* s, int j, int* scale, int* min) {
  if (j < 4) {
    *scale = load_u8(s + j) & 63;
    *min = load_u8(s + j + 4) & 63;
  } else {
    *scale = (load_u8(s + j + 4) & 15) | (load_u8(s + j - 4) >> 6) << 4;
    *min = load_u8(s + j + 4) >> 4 | (load_u8(s + j) >> 6) << 4;
  }
}

/// Bits 0 to 3 of `bits`, each in bit 0 of a byte.
constexpr U32 spread(U32 bits) {
  return (bits & 15) * 0x00204081 & kOnes;
}

/// The bits to store for block `sub` (32 values) of the GGUF block at `p`, unsigned (q8_0 + 128), a quad of columns in
/// a word.
template <DType kType>
void read_quads(const std::byte* p, int sub, U32 (&quads)[kQuadsPerBlock]) {
  constexpr U32 kLow = 15 * kOnes;
  if constexpr (kType == DType::q8_0) {
    for (int q = 0; q < kQuadsPerBlock; ++q) quads[q] = load_u32(p + 2 + 4 * q) ^ 128 * kOnes;
  } else if constexpr (kType == DType::q6_k) {
    const int half = sub / 4, quarter = sub % 4;  // 128 values share 64 low bytes and 32 high bytes
    for (int q = 0; q < kQuadsPerBlock; ++q) {
      const U32 low = load_u32(p + half * 64 + quarter % 2 * 32 + 4 * q) >> (4 * (quarter / 2));
      const U32 high = load_u32(p + 128 + half * 32 + 4 * q) >> (2 * quarter);
      quads[q] = (low & kLow) | (high & 3 * kOnes) << 4;
    }
  } else if constexpr (kType == DType::q4_k || kType == DType::q5_k) {
    const std::byte* const low = p + (kType == DType::q4_k ? 16 : 48) + sub / 2 * 32;
    for (int q = 0; q < kQuadsPerBlock; ++q) {
      quads[q] = load_u32(low + 4 * q) >> (4 * (sub % 2)) & kLow;
      if constexpr (kType == DType::q5_k) quads[q] |= (load_u32(p + 16 + 4 * q) >> sub & kOnes) << 4;
    }
  } else if constexpr (kType == DType::tq2_0 || kType == DType::q2_k || kType == DType::q3_k) {
    // 128 values share 32 bytes, two bits each; the third bits of position l lie in byte l.
    const std::byte* const low = p +
                                 (kType == DType::q2_k   ? 16
                                  : kType == DType::q3_k ? 32
                                                         : 0) +
                                 sub / 4 * 32;
    for (int q = 0; q < kQuadsPerBlock; ++q) {
      quads[q] = load_u32(low + 4 * q) >> (2 * (sub % 4)) & 3 * kOnes;
      if constexpr (kType == DType::q3_k) quads[q] |= (load_u32(p + 4 * q) >> sub & kOnes) << 2;
    }
  } else if constexpr (kType == DType::tq1_0) {
    U8 codes[256];
    unpack_trits(p, codes);
    std::memcpy(quads, codes + sub * kBlockCols, kBlockCols);
  } else {  // the others keep values e and e + 16 in one byte
    constexpr PackedLayout layout = packed_layout(kType);
    const std::byte* const high = p + (kType == DType::iq4_xs  ? 8 + sub * 16
                                       : kType == DType::mxfp4 ? 1
                                       : layout.has_min()      ? 4
                                                               : 2);
    const std::byte* const low = high + (layout.stored_bits == 5 ? 4 : 0);
    for (int q = 0; q < 4; ++q) {
      const U32 both = load_u32(low + 4 * q);
      quads[q] = both & kLow;
      quads[q + 4] = both >> 4 & kLow;
    }
    if constexpr (layout.stored_bits == 5) {
      for (int q = 0; q < kQuadsPerBlock; ++q) quads[q] |= spread(load_u32(high) >> (4 * q)) << 4;
    }
  }
}

/// Writes row `r`'s codes of one block into the panel's body.
template <int kBits>
void write_quads(const U32 (&quads)[kQuadsPerBlock], int r, std::byte* body) {
  const auto put = [&](int line, U32 word) {
    std::memcpy(body + static_cast<std::size_t>(line) * kQuadBytes + r * 4, &word, sizeof word);
  };
  if constexpr (kBits == 8) {
    for (int q = 0; q < kQuadsPerBlock; ++q) put(q, quads[q]);
    return;
  }
  if constexpr (kBits == 2) {
    for (int half = 0; half < 2; ++half) {
      U32 line = 0;
      for (int q = 0; q < 4; ++q) line |= quads[half * 4 + q] << (2 * q);
      put(half, line);
    }
    return;
  }
  if constexpr (kBits == 3) {
    for (int i = 0; i < 3; ++i) {
      const U32 rest =
          i < 2 ? quads[6 + i] & 3 * kOnes : (quads[6] >> 2 & kOnes) | (quads[7] >> 2 & kOnes) << 1;
      put(i, quads[2 * i] | quads[2 * i + 1] << 3 | rest << 6);
    }
    return;
  }
  for (int q = 0; q < 4; ++q) put(q, (quads[q] & 15 * kOnes) | (quads[q + 4] & 15 * kOnes) << 4);
  if constexpr (kBits == 5) {
    U32 plane = 0;
    for (int q = 0; q < kQuadsPerBlock; ++q) plane |= (quads[q] >> 4 & kOnes) << q;
    put(4, plane);
  }
  if constexpr (kBits == 6) {
    for (int half = 0; half < 2; ++half) {
      U32 plane = 0;
      for (int q = 0; q < 4; ++q) plane |= (quads[half * 4 + q] >> 4 & 3 * kOnes) << (2 * q);
      put(4 + half, plane);
    }
  }
}

U8 read_body(const PackedLayout& layout, const std::byte* body, int r, int e) {
  const int quad = e / 4, byte = r * 4 + e % 4;
  if (layout.stored_bits == 8) return static_cast<U8>(load_u8(body + quad * 64 + byte));
  const auto line = [&](int i) { return load_u8(body + i * 64 + byte); };
  if (layout.stored_bits == 2) return static_cast<U8>(line(quad / 4) >> (2 * (quad % 4)) & 3);
  if (layout.stored_bits == 3) {
    const int code =
        quad < 6 ? line(quad / 2) >> (3 * (quad % 2)) & 7 : line(quad - 6) >> 6 | (line(2) >> quad & 1) << 2;
    return static_cast<U8>(code);
  }
  int code = load_u8(body + quad % 4 * 64 + byte) >> (4 * (quad / 4)) & 15;
  if (layout.stored_bits == 5) code |= (load_u8(body + 256 + byte) >> quad & 1) << 4;
  if (layout.stored_bits == 6)
    code |= (load_u8(body + 256 + quad / 4 * 64 + byte) >> (2 * (quad % 4)) & 3) << 4;
  return static_cast<U8>(code);
}

/// Stored rows that become one panel.
struct SourceRows {
  const std::byte* data;
  std::size_t stride;
  int count;
  const std::byte* row(int r) const { return data + static_cast<std::size_t>(r) * stride; }
};

/// Four words of each of four rows, turned: word w + i of the four lies side by side at `to` + 64 i.
void turn_words(const SourceRows& rows, int r, std::int64_t w, std::byte* to) {
  using Words = U32 __attribute__((vector_size(16)));
  const auto load = [&](int i) {
    Words words;
    std::memcpy(&words, rows.row(r + i) + w * 4, sizeof words);
    return words;
  };
  const Words a = load(0), b = load(1), c = load(2), d = load(3);
  const Words ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Words ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7),
              cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Words turned[] = {
      __builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
      __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5), __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i) std::memcpy(to + i * 64, &turned[i], sizeof(Words));
}

/// Interleaves the first `words` words of the rows. In tiles, because rows whose distance is a power of two would throw
/// each other out of the cache.
template <typename Word>
void pack_words(const SourceRows& rows, std::int64_t words, std::byte* panel) {
  constexpr std::int64_t kTile = 32;
  for (std::int64_t first = 0; first < words; first += kTile) {
    const std::int64_t last = std::min(first + kTile, words);
    int r = 0;
    if (sizeof(Word) == 4 && last - first == kTile) {
      for (; r + 4 <= rows.count; r += 4) {
        for (std::int64_t w = first; w < last; w += 4)
          turn_words(rows, r, w, panel + (w * kPanelRows + r) * 4);
      }
    }
    for (; r < rows.count; ++r) {
      const std::byte* const row = rows.row(r);
      for (std::int64_t w = first; w < last; ++w) {
        std::memcpy(panel + (w * kPanelRows + r) * sizeof(Word), row + w * sizeof(Word), sizeof(Word));
      }
    }
  }
}

void pack_bf16(const SourceRows& rows, std::int64_t cols, std::byte* panel) {
  pack_words<U32>(rows, cols / 2, panel);
  if (cols % 2 == 0) return;
  for (int r = 0; r < rows.count; ++r) {
    std::memcpy(panel + (cols / 2 * kPanelRows + r) * 4, rows.row(r) + (cols - 1) * 2, 2);
  }
}

/// Where a GGUF block keeps its f16 scale; a second one, of the minima, follows it.
constexpr std::size_t scale_offset(DType dtype) {
  switch (dtype) {
    case DType::q6_k:
      return 208;
    case DType::q2_k:
      return 80;
    case DType::q3_k:
      return 108;
    case DType::tq1_0:
      return 52;
    case DType::tq2_0:
      return 64;
    default:
      return 0;
  }
}

/// The scales of row `r` in block `sub` of the GGUF block at `p`: the header's row, and the scales of the super-block.
template <DType kType>
void pack_scales(const std::byte* p, int sub, int r, std::byte* header, std::byte* subscales) {
  constexpr ScaleKind kKind = packed_layout(kType).kind;
  if constexpr (kKind == ScaleKind::e8m0) {
    header[r] = p[0];
    return;
  }
  store_u16(header + r * 2, load_u16(p + scale_offset(kType)));
  if constexpr (packed_layout(kType).has_min() && kKind != ScaleKind::centred) {
    store_u16(header + 32 + r * 2, load_u16(p + scale_offset(kType) + 2));
  }
  if constexpr (kKind == ScaleKind::k_signed) {
    for (int h = 0; h < 2; ++h) subscales[(sub * 2 + h) * kPanelRows + r] = p[192 + sub * 2 + h];
  } else if constexpr (kKind == ScaleKind::k_signed_32) {
    subscales[sub * kPanelRows + r] = static_cast<std::byte>(iq4_xs_scale(p, sub));
  } else if constexpr (packed_layout(kType).pairs()) {
    for (int h = 0; h < 2; ++h) {
      subscales[(sub * kPanelRows + r) * 2 + h] =
          kKind == ScaleKind::k_pairs_min ? p[sub * 2 + h]
                                          : static_cast<std::byte>(q3_k_scale(p + 96, sub * 2 + h));
    }
  } else if constexpr (kKind == ScaleKind::k_with_min) {
    int scale, min;
    k_scale_min(p + 4, sub, &scale, &min);
    subscales[sub * kPanelRows + r] = static_cast<std::byte>(scale);
    subscales[128 + sub * kPanelRows + r] = static_cast<std::byte>(min);
  }
}

template <DType kType>
void pack_quantized(const SourceRows& rows, std::int64_t cols, std::byte* panel) {
  constexpr PackedLayout layout = packed_layout(kType);
  const std::size_t block_bytes = block_format(kType).block_bytes;
  for (std::int64_t b = 0; b < cols / kBlockCols; ++b) {
    const int sub = static_cast<int>(b % layout.super_blocks);
    const std::size_t offset = static_cast<std::size_t>(b / layout.super_blocks) * block_bytes;
    std::byte* const header = panel + layout.header_at(b) + layout.scale_row(b) * layout.scale_row_bytes();
    for (int r = 0; r < rows.count; ++r) {
      const std::byte* const source = rows.row(r) + offset;
      pack_scales<kType>(source, sub, r, header, panel + layout.super_at(b));
      U32 quads[kQuadsPerBlock];
      read_quads<kType>(source, sub, quads);
      write_quads<layout.stored_bits>(quads, r, panel + layout.body_at(b));
    }
  }
}

template <int kFirst = 0>
void pack_quantized_type(DType dtype, const SourceRows& rows, std::int64_t cols, std::byte* panel) {
  if constexpr (kFirst < kDTypeCount) {
    constexpr auto kType = static_cast<DType>(kFirst);
    if constexpr (!is_float(kType)) {
      if (dtype == kType) return pack_quantized<kType>(rows, cols, panel);
    }
    pack_quantized_type<kFirst + 1>(dtype, rows, cols, panel);
  }
}

/// Element `e` of a block: the value that its code and scales stand for, with the decoders' arithmetic.
float unpack_value(const PackedLayout& layout, const std::byte* header, const std::byte* subscales, int sub,
                   int r, int e, int code) {
  const auto at = [&](int i) { return subscales + i * kPanelRows + r; };
  const auto level = static_cast<float>(code - (layout.has_min() ? 0 : layout.zero()));
  if (layout.kind == ScaleKind::e8m0) return e8m0_half(std::to_integer<U8>(header[r])) * level;
  const float d = load_f16(header + r * 2);
  const auto second = [&] { return load_f16(header + 32 + r * 2); };
  const std::byte* const pair = subscales + (sub * kPanelRows + r) * 2 + e / 16;
  switch (layout.kind) {
    case ScaleKind::with_min:
      return d * level + second();
    case ScaleKind::k_with_min:
      return d * static_cast<float>(load_u8(at(sub))) * level -
             second() * static_cast<float>(load_u8(at(8 + sub)));
    case ScaleKind::k_pairs_min:
      return d * static_cast<float>(load_u8(pair) & 15) * level -
             second() * static_cast<float>(load_u8(pair) >> 4);
    case ScaleKind::k_signed:
      return d * static_cast<float>(static_cast<std::int8_t>(*at(sub * 2 + e / 16))) * level;
    case ScaleKind::k_signed_32:
      return d * static_cast<float>(static_cast<std::int8_t>(*at(sub))) * level;
    case ScaleKind::k_pairs:
      return d * static_cast<float>(static_cast<std::int8_t>(*pair)) * level;
    case ScaleKind::centred:
      return d * static_cast<float>(code - 1);
    default:
      return d * level;
  }
}

void unpack_quantized(DType dtype, const std::byte* panel, int r, std::int64_t cols, float* out) {
  const PackedLayout layout = packed_layout(dtype);
  for (std::int64_t c = 0; c < cols; ++c) {
    const std::int64_t b = c / kBlockCols;
    const int sub = static_cast<int>(b % layout.super_blocks), e = static_cast<int>(c % kBlockCols);
    const std::byte* const header =
        panel + layout.header_at(b) + layout.scale_row(b) * layout.scale_row_bytes();
    int code = read_body(layout, panel + layout.body_at(b), r, e);
    if (layout.codebook != Codebook::none) code = codebook_code(layout, static_cast<unsigned>(code));
    out[c] = unpack_value(layout, header, panel + layout.super_at(b), sub, r, e, code);
  }
}

}  // namespace

std::size_t packed_panel_bytes(DType dtype, std::int64_t cols) {
  const auto n = static_cast<std::size_t>(cols);
  switch (dtype) {
    case DType::f32:
      return n * 64;
    case DType::f16:
      return round_up(n * 32, kPanelAlign);
    case DType::bf16:
      return ceil_div<std::size_t>(n, 2) * 64;
    default:
      break;
  }
  const PackedLayout layout = packed_layout(dtype);
  LITHE_CHECK(cols % (kBlockCols * layout.super_blocks) == 0);
  return layout.panel_bytes(cols);
}

void pack_panel(DType dtype, const std::byte* rows, std::size_t row_bytes, int row_count, std::int64_t cols,
                std::byte* panel) {
  LITHE_CHECK(row_count >= 0 && row_count <= kPanelRows);
  // All of a whole panel of floats is written below; elsewhere there are gaps.
  if (!is_float(dtype) || row_count < kPanelRows || cols % 2 != 0)
    std::memset(panel, 0, packed_panel_bytes(dtype, cols));
  const SourceRows source{rows, row_bytes, row_count};
  switch (dtype) {
    case DType::f32:
      return pack_words<U32>(source, cols, panel);
    case DType::f16:
      return pack_words<std::uint16_t>(source, cols, panel);
    case DType::bf16:
      return pack_bf16(source, cols, panel);
    default:
      break;
  }
  pack_quantized_type(dtype, source, cols, panel);
}

void unpack_row(const PackedMatrix& matrix, std::int64_t row, float* out) {
  LITHE_CHECK(row >= 0 && row < matrix.rows);
  const std::byte* panel = matrix.panel(row / kPanelRows);
  const int r = static_cast<int>(row % kPanelRows);
  for (std::int64_t c = 0; c < matrix.cols && is_float(matrix.dtype); ++c) {
    switch (matrix.dtype) {
      case DType::f32:
        std::memcpy(out + c, panel + (c * kPanelRows + r) * 4, 4);
        break;
      case DType::f16:
        out[c] = load_f16(panel + (c * kPanelRows + r) * 2);
        break;
      default:
        out[c] = bf16_to_f32(load_u16(panel + ((c / 2 * kPanelRows + r) * 2 + c % 2) * 2));
        break;
    }
  }
  if (!is_float(matrix.dtype)) unpack_quantized(matrix.dtype, panel, r, matrix.cols, out);
}

}  // namespace lithe::kernels
