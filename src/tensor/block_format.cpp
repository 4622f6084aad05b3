#include "tensor/block_format.h"

#include <array>

#include "base/check.h"
#include "base/checked.h"
#include "tensor/codecs.h"

namespace lithe {
namespace {

#define LITHE_FORMAT(name, gguf_id, elems, bytes, file_type, fallback)                           \
  BlockFormat {                                                                                  \
    DType::name, #name, gguf_id, elems, bytes, file_type, DType::fallback, codec::encode_##name, \
        codec::decode_##name                                                                     \
  }
constexpr std::array<BlockFormat, kDTypeCount> kFormats = {
    LITHE_FORMAT(f32, 0, 1, 4, 0, f32),
    LITHE_FORMAT(f16, 1, 1, 2, 1, f16),
    LITHE_FORMAT(bf16, 30, 1, 2, 32, bf16),
    LITHE_FORMAT(q8_0, 8, 32, 34, 7, f16),
    LITHE_FORMAT(q4_0, 2, 32, 18, 2, f16),
    LITHE_FORMAT(q4_1, 3, 32, 20, 3, f16),
    LITHE_FORMAT(q5_0, 6, 32, 22, 8, f16),
    LITHE_FORMAT(q5_1, 7, 32, 24, 9, f16),
    LITHE_FORMAT(q4_k, 12, 256, 144, 14, q5_0),
    LITHE_FORMAT(q5_k, 13, 256, 176, 16, q5_1),
    LITHE_FORMAT(q6_k, 14, 256, 210, 18, q8_0),
    LITHE_FORMAT(q2_k, 10, 256, 84, 10, q4_0),
    LITHE_FORMAT(q3_k, 11, 256, 110, 11, q4_0),
    LITHE_FORMAT(iq4_nl, 20, 32, 18, 25, f16),
    LITHE_FORMAT(iq4_xs, 23, 256, 136, 30, iq4_nl),
    LITHE_FORMAT(tq1_0, 34, 256, 54, 36, q4_0),
    LITHE_FORMAT(tq2_0, 35, 256, 66, 37, q4_0),
    LITHE_FORMAT(mxfp4, 39, 32, 17, 38, f16),
};
#undef LITHE_FORMAT

// What a matrix runs as was chosen by the error that recoding adds (docs/formats.md).
#define LITHE_DECODE_ONLY(name, gguf_id, elems, bytes, runs_as)                                    \
  BlockFormat {                                                                                    \
    DType::runs_as, #name, gguf_id, elems, bytes, 0, DType::runs_as, nullptr, codec::decode_##name \
  }
constexpr BlockFormat kDecodeOnly[] = {
    LITHE_DECODE_ONLY(iq1_s, 19, 256, 50, q4_k),   LITHE_DECODE_ONLY(iq1_m, 29, 256, 56, q4_k),
    LITHE_DECODE_ONLY(iq2_xxs, 16, 256, 66, q4_k), LITHE_DECODE_ONLY(iq2_xs, 17, 256, 74, q4_k),
    LITHE_DECODE_ONLY(iq2_s, 22, 256, 82, q4_k),   LITHE_DECODE_ONLY(iq3_xxs, 18, 256, 98, q5_0),
    LITHE_DECODE_ONLY(iq3_s, 21, 256, 110, q5_0),  LITHE_DECODE_ONLY(q1_0, 41, 128, 18, q4_1),
    LITHE_DECODE_ONLY(q2_0, 42, 64, 18, q4_1),     LITHE_DECODE_ONLY(nvfp4, 40, 64, 36, q8_0),
};
#undef LITHE_DECODE_ONLY

constexpr bool in_enum_order() {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (static_cast<int>(kFormats[i].dtype) != i) return false;
  }
  return true;
}
static_assert(in_enum_order(), "block_format() indexes the table by DType");

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equal_without_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

}  // namespace

std::span<const BlockFormat> block_formats() {
  return kFormats;
}

std::span<const BlockFormat> decode_only_formats() {
  return kDecodeOnly;
}

const BlockFormat& block_format(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  LITHE_CHECK(index < kFormats.size());
  return kFormats[index];
}

const BlockFormat* find_format(std::string_view name) {
  for (const BlockFormat& format : kFormats) {
    if (equal_without_case(format.name, name)) return &format;
  }
  return nullptr;
}

const BlockFormat* find_format_by_gguf_id(std::uint32_t id) {
  for (const BlockFormat& format : kFormats) {
    if (format.gguf_id == id) return &format;
  }
  for (const BlockFormat& format : kDecodeOnly) {
    if (format.gguf_id == id) return &format;
  }
  return nullptr;
}

std::optional<std::uint64_t> row_bytes(DType dtype, std::uint64_t cols) {
  return row_bytes(block_format(dtype), cols);
}

std::optional<std::uint64_t> row_bytes(const BlockFormat& format, std::uint64_t cols) {
  const auto elems = static_cast<std::uint64_t>(format.block_elems);
  if (cols % elems != 0) return std::nullopt;
  return checked_mul<std::uint64_t>(cols / elems, static_cast<std::uint64_t>(format.block_bytes));
}

}  // namespace lithe
