#include "tensor/block_format.h"

#include <array>

#include "base/check.h"
#include "base/checked.h"
#include "tensor/codecs.h"

namespace lithe {
namespace {

#define LITHE_FORMAT(name, gguf_id, elems, bytes)                                         \
  BlockFormat {                                                                           \
    DType::name, #name, gguf_id, elems, bytes, codec::encode_##name, codec::decode_##name \
  }
constexpr std::array<BlockFormat, kDTypeCount> kFormats = {
    LITHE_FORMAT(f32, 0, 1, 4),       LITHE_FORMAT(f16, 1, 1, 2),       LITHE_FORMAT(bf16, 30, 1, 2),
    LITHE_FORMAT(q8_0, 8, 32, 34),    LITHE_FORMAT(q4_0, 2, 32, 18),    LITHE_FORMAT(q4_1, 3, 32, 20),
    LITHE_FORMAT(q5_0, 6, 32, 22),    LITHE_FORMAT(q5_1, 7, 32, 24),    LITHE_FORMAT(q4_k, 12, 256, 144),
    LITHE_FORMAT(q5_k, 13, 256, 176), LITHE_FORMAT(q6_k, 14, 256, 210),
};
#undef LITHE_FORMAT

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
  return nullptr;
}

std::optional<std::uint64_t> row_bytes(DType dtype, std::uint64_t cols) {
  const BlockFormat& format = block_format(dtype);
  const auto elems = static_cast<std::uint64_t>(format.block_elems);
  if (cols % elems != 0) return std::nullopt;
  return checked_mul<std::uint64_t>(cols / elems, static_cast<std::uint64_t>(format.block_bytes));
}

}  // namespace lithe
