#include "kernels/packed_matrix.h"

#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/packed_layout.h"
#include "tensor/half.h"

namespace lithe::kernels {
namespace {

using U8 = std::uint8_t;

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

/// The codes of block `sub` (32 values) of the GGUF block at `p`, unsigned: q8_0 + 128.
void read_codes(DType dtype, const std::byte* p, int sub, U8* codes) {
  for (int e = 0; e < kBlockCols; ++e) {
    const int half = e / 16;  // the simple 4-bit formats keep e and e + 16 in one byte
    int code = 0;
    switch (dtype) {
      case DType::q8_0:
        code = (load_u8(p + 2 + e) + 128) & 255;
        break;
      case DType::q4_0:
        code = load_u8(p + 2 + e % 16) >> (4 * half) & 15;
        break;
      case DType::q4_1:
        code = load_u8(p + 4 + e % 16) >> (4 * half) & 15;
        break;
      case DType::q5_0:
      case DType::q5_1: {
        const std::byte* qh = p + (dtype == DType::q5_0 ? 2 : 4);
        code = (load_u8(qh + 4 + e % 16) >> (4 * half) & 15) | (load_u8(qh + e / 8) >> (e % 8) & 1) << 4;
        break;
      }
      case DType::q4_k:
        code = load_u8(p + 16 + sub / 2 * 32 + e) >> (4 * (sub % 2)) & 15;
        break;
      case DType::q5_k:
        code = (load_u8(p + 48 + sub / 2 * 32 + e) >> (4 * (sub % 2)) & 15) | (load_u8(p + 16 + e) >> sub & 1)
                                                                                  << 4;
        break;
      case DType::q6_k: {
        const int half_block = sub / 4, quarter = sub % 4;  // 128 values share 64 low bytes and 32 high bytes
        const int low = load_u8(p + half_block * 64 + (quarter % 2) * 32 + e) >> (4 * (quarter / 2)) & 15;
        const int high = load_u8(p + 128 + half_block * 32 + e) >> (2 * quarter) & 3;
        code = low | high << 4;
        break;
      }
      default:
        LITHE_CHECK(false);
    }
    codes[e] = static_cast<U8>(code);
  }
}

/// Writes row `r`'s codes of one block into the panel's body.
void write_body(const PackedLayout& layout, const U8* codes, int r, std::byte* body) {
  for (int e = 0; e < kBlockCols; ++e) {
    const int quad = e / 4, byte = r * 4 + e % 4, code = codes[e];
    if (layout.code_bits == 8) {
      body[quad * 64 + byte] = static_cast<std::byte>(code);
      continue;
    }
    body[quad % 4 * 64 + byte] |= static_cast<std::byte>((code & 15) << (4 * (quad / 4)));
    if (layout.code_bits == 5) body[256 + byte] |= static_cast<std::byte>((code >> 4) << quad);
    if (layout.code_bits == 6) {
      body[256 + quad / 4 * 64 + byte] |= static_cast<std::byte>((code >> 4) << (2 * (quad % 4)));
    }
  }
}

U8 read_body(const PackedLayout& layout, const std::byte* body, int r, int e) {
  const int quad = e / 4, byte = r * 4 + e % 4;
  if (layout.code_bits == 8) return static_cast<U8>(load_u8(body + quad * 64 + byte));
  int code = load_u8(body + quad % 4 * 64 + byte) >> (4 * (quad / 4)) & 15;
  if (layout.code_bits == 5) code |= (load_u8(body + 256 + byte) >> quad & 1) << 4;
  if (layout.code_bits == 6)
    code |= (load_u8(body + 256 + quad / 4 * 64 + byte) >> (2 * (quad % 4)) & 3) << 4;
  return static_cast<U8>(code);
}

void pack_float_row(DType dtype, const std::byte* row, std::int64_t cols, int r, std::byte* panel) {
  for (std::int64_t c = 0; c < cols; ++c) {
    switch (dtype) {
      case DType::f32:
        std::memcpy(panel + (c * kPanelRows + r) * 4, row + c * 4, 4);
        break;
      case DType::f16:
        std::memcpy(panel + (c * kPanelRows + r) * 2, row + c * 2, 2);
        break;
      default:
        std::memcpy(panel + ((c / 2 * kPanelRows + r) * 2 + c % 2) * 2, row + c * 2, 2);
        break;
    }
  }
}

void pack_quantized_row(DType dtype, const std::byte* row, std::int64_t cols, int r, std::byte* panel) {
  const PackedLayout layout = packed_layout(dtype);
  U8 codes[kBlockCols];
  const std::int64_t blocks = cols / kBlockCols;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const int sub = static_cast<int>(b % layout.super_blocks);
    const std::byte* source = row + b / layout.super_blocks * block_format(dtype).block_bytes;
    std::byte* const scales = panel + layout.header_at(b) + layout.scale_row(b) * 32 + r * 2;
    std::byte* const subscales = panel + layout.super_at(b);
    switch (layout.kind) {
      case ScaleKind::simple:
        store_u16(scales, load_u16(source));
        break;
      case ScaleKind::with_min:
        store_u16(scales, load_u16(source));
        store_u16(scales + 32, load_u16(source + 2));
        break;
      case ScaleKind::k_with_min: {
        store_u16(scales, load_u16(source));
        store_u16(scales + 32, load_u16(source + 2));
        int scale, min;
        k_scale_min(source + 4, sub, &scale, &min);
        subscales[sub * kPanelRows + r] = static_cast<std::byte>(scale);
        subscales[128 + sub * kPanelRows + r] = static_cast<std::byte>(min);
        break;
      }
      case ScaleKind::k_signed:
        store_u16(scales, load_u16(source + 208));
        for (int h = 0; h < 2; ++h) subscales[(sub * 2 + h) * kPanelRows + r] = source[192 + sub * 2 + h];
        break;
      case ScaleKind::none:
        break;
    }
    read_codes(dtype, source, sub, codes);
    write_body(layout, codes, r, panel + layout.body_at(b));
  }
}

void unpack_quantized(DType dtype, const std::byte* panel, int r, std::int64_t cols, float* out) {
  const PackedLayout layout = packed_layout(dtype);
  for (std::int64_t c = 0; c < cols; ++c) {
    const std::int64_t b = c / kBlockCols;
    const int sub = static_cast<int>(b % layout.super_blocks), e = static_cast<int>(c % kBlockCols);
    const std::byte* const scales = panel + layout.header_at(b) + layout.scale_row(b) * 32 + r * 2;
    const std::byte* const subscales = panel + layout.super_at(b);
    const int code = read_body(layout, panel + layout.body_at(b), r, e);
    const float d = load_f16(scales);
    switch (layout.kind) {
      case ScaleKind::simple:
        out[c] = d * static_cast<float>(code - (128 >> layout.code_shift));
        break;
      case ScaleKind::with_min:
        out[c] = d * static_cast<float>(code) + load_f16(scales + 32);
        break;
      case ScaleKind::k_with_min: {
        const float scale = d * static_cast<float>(load_u8(subscales + sub * kPanelRows + r));
        const float min =
            load_f16(scales + 32) * static_cast<float>(load_u8(subscales + 128 + sub * kPanelRows + r));
        out[c] = scale * static_cast<float>(code) - min;
        break;
      }
      case ScaleKind::k_signed: {
        const auto s = static_cast<std::int8_t>(load_u8(subscales + (sub * 2 + e / 16) * kPanelRows + r));
        out[c] = d * static_cast<float>(s) * static_cast<float>(code - 32);
        break;
      }
      case ScaleKind::none:
        break;
    }
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
  const std::size_t bytes = packed_panel_bytes(dtype, cols);
  std::memset(panel, 0, bytes);
  for (int r = 0; r < row_count; ++r) {
    const std::byte* row = rows + static_cast<std::size_t>(r) * row_bytes;
    if (is_float(dtype)) {
      pack_float_row(dtype, row, cols, r, panel);
    } else {
      pack_quantized_row(dtype, row, cols, r, panel);
    }
  }
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
