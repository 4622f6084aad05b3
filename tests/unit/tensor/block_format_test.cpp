#include "tensor/block_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/rng.h"
#include "tensor/half.h"

namespace lithe {
namespace {

std::vector<std::byte> encode(const BlockFormat& format, const std::vector<float>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::byte> out(*row_bytes(format.dtype, values.size()));
  format.encode(values.data(), count, out.data());
  return out;
}

std::vector<float> decode(const BlockFormat& format, const std::vector<std::byte>& blocks,
                          std::size_t count) {
  std::vector<float> values(count);
  format.decode(blocks.data(), static_cast<std::int64_t>(count), values.data());
  return values;
}

// Reads the records of a file of tests/golden/blocks.
class Golden {
 public:
  explicit Golden(const std::string& name)
      : text_(read_file(LITHE_TEST_DATA "/golden/blocks/" + name).value()) {}
  bool done() const { return at_ == text_.size(); }
  std::uint32_t number() { return read<std::uint32_t>(1)[0]; }
  std::string name() { return std::string(reinterpret_cast<const char*>(read<char>(8).data())); }
  template <typename T>
  std::vector<T> read(std::size_t count) {
    std::vector<T> out(count);
    std::memcpy(out.data(), text_.data() + at_, count * sizeof(T));
    at_ += count * sizeof(T);
    return out;
  }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

TEST(BlockFormat, EqualsGgmlByteForByte) {
  Golden golden("blocks.bin");
  const auto values = golden.read<float>(golden.number());
  int formats = 0;
  std::size_t bytes = 0, numbers = 0;
  while (!golden.done()) {
    const BlockFormat* format = find_format(golden.name());
    ASSERT_NE(format, nullptr);
    const auto expected = golden.read<std::byte>(golden.number());
    const auto encoded = encode(*format, values);
    ASSERT_EQ(encoded.size(), expected.size()) << format->name;
    EXPECT_EQ(encoded, expected) << format->name;
    const std::uint32_t count = golden.number();
    const auto blocks = golden.read<std::byte>(golden.number());
    const auto decoded = golden.read<float>(count);
    const auto ours = decode(*format, blocks, count);
    for (std::uint32_t i = 0; i < count; ++i)
      EXPECT_EQ(ours[i], decoded[i]) << format->name << " value " << i;
    if (!HasFailure()) {
      std::printf("[ proved ] format | %s | bytes | encoded and decoded byte for byte as ggml does\n",
                  std::string(format->name).c_str());
    }
    ++formats;
    bytes += expected.size();
    numbers += count;
  }
  EXPECT_EQ(formats, kDTypeCount - 3);
  std::printf("[ counts ] %d formats, %zu encoded bytes and %zu decoded values equal\n", formats, bytes,
              numbers);
}

// The golden values are ggml's, and the PyPI package gguf agrees with them.
TEST(BlockFormat, DecodesWhatItDoesNotRun) {
  Golden golden("decoded.bin");
  std::size_t formats = 0, numbers = 0;
  while (!golden.done()) {
    const std::string name = golden.name();
    const auto all = decode_only_formats();
    const auto format =
        std::find_if(all.begin(), all.end(), [&](const BlockFormat& f) { return f.name == name.c_str(); });
    ASSERT_NE(format, all.end()) << name;
    const std::uint32_t count = golden.number();
    const auto blocks = golden.read<std::byte>(golden.number());
    ASSERT_EQ(blocks.size(), row_bytes(*format, count));
    const auto expected = golden.read<float>(512);
    const auto ours = decode(*format, blocks, count);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(ours[i], expected[i]) << name << " value " << i;
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const std::byte byte : std::as_bytes(std::span(ours))) {
      hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
    }
    EXPECT_EQ(hash, golden.read<std::uint64_t>(1)[0]) << name;
    ++formats;
    numbers += count;
  }
  EXPECT_EQ(formats, decode_only_formats().size());
  std::printf("[ counts ] %zu formats, %zu decoded values equal\n", formats, numbers);
}

TEST(BlockFormat, DecodeOnlyFormatsRunAsOthersThatDivideTheirRows) {
  for (const BlockFormat& format : decode_only_formats()) {
    EXPECT_TRUE(format.decode_only());
    EXPECT_EQ(find_format_by_gguf_id(format.gguf_id), &format);
    EXPECT_EQ(find_format(format.name), nullptr) << "nothing is converted into it";
    const BlockFormat& runs_as = block_format(format.dtype);
    EXPECT_FALSE(runs_as.decode_only());
    EXPECT_EQ(format.block_elems % runs_as.block_elems, 0);
    EXPECT_LT(format.bits_per_weight(), runs_as.bits_per_weight());
  }
}

TEST(BlockFormat, TableIsConsistent) {
  EXPECT_EQ(block_formats().size(), static_cast<std::size_t>(kDTypeCount));
  for (const BlockFormat& format : block_formats()) {
    EXPECT_EQ(&block_format(format.dtype), &format);
    EXPECT_EQ(find_format(format.name), &format);
    EXPECT_EQ(find_format_by_gguf_id(format.gguf_id), &format);
    EXPECT_EQ(format.quantized(), format.bits_per_weight() < 16.0);
    const auto elems = static_cast<std::uint64_t>(format.block_elems);
    EXPECT_EQ(row_bytes(format.dtype, 3 * elems), 3u * static_cast<std::uint64_t>(format.block_bytes));
    EXPECT_EQ(row_bytes(format.dtype, 0), 0u);
    if (format.quantized()) {
      EXPECT_EQ(row_bytes(format.dtype, 3 * elems + 1), std::nullopt);
    }
    if (format.block_bytes >= 2 * format.block_elems) {
      EXPECT_EQ(row_bytes(format.dtype, std::uint64_t{1} << 63), std::nullopt);
    }
  }
  EXPECT_EQ(find_format("Q4_K"), &block_format(DType::q4_k));
  EXPECT_EQ(find_format("BF16"), &block_format(DType::bf16));
  EXPECT_EQ(find_format("q4_k_m"), nullptr);
  EXPECT_EQ(find_format(""), nullptr);
  EXPECT_EQ(find_format_by_gguf_id(4), nullptr);
}

// The greatest error a format may make, as a share of the block's greatest magnitude.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0.0;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::q8_0:
      return 0.5 / 127 + 0x1p-11;
    case DType::q4_0:
      return 1.01 / 8;  // the end without the extra level clips a whole step
    case DType::q4_1:
      return 1.01 / 15;
    case DType::q5_0:
      return 1.01 / 16;
    case DType::q5_1:
      return 1.01 / 31;
    case DType::q4_k:
      return 0.15;
    case DType::q5_k:
      return 0.08;
    case DType::q6_k:
      return 0.04;
    case DType::q2_k:
      return 0.6;
    case DType::q3_k:
      return 0.3;
    case DType::iq4_nl:
    case DType::iq4_xs:
      return 0.17;  // the side opposite to the peak ends at 113 of 127
    case DType::tq1_0:
    case DType::tq2_0:
      return 0.5 + 0x1p-11;
    case DType::mxfp4:
      return 0.25;  // 4 to 6, and beyond 6 up to the next power of two
  }
  return 0.0;
}

TEST(BlockFormat, RoundTripErrorIsBounded) {
  Rng rng(7);
  for (const BlockFormat& format : block_formats()) {
    // 1, 2, 3, 5 and 7 blocks: every block is coded alone, whatever its neighbours.
    for (const int blocks : {1, 2, 3, 5, 7}) {
      const auto count = static_cast<std::size_t>(blocks) * static_cast<std::size_t>(format.block_elems);
      std::vector<float> values(count);
      float peak = 0.0f;
      for (float& value : values) {
        value = static_cast<float>(rng.normal());
        peak = std::max(peak, std::fabs(value));
      }
      const auto coded = encode(format, values);
      const auto back = decode(format, coded, count);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_LE(std::fabs(back[i] - values[i]), tolerance(format.dtype) * peak)
            << format.name << " value " << i;
      }
      const auto elems = static_cast<std::size_t>(format.block_elems),
                 size = static_cast<std::size_t>(format.block_bytes);
      for (std::size_t b = 0; b < static_cast<std::size_t>(blocks); ++b) {
        const auto alone = encode(format, {values.begin() + static_cast<std::ptrdiff_t>(b * elems),
                                           values.begin() + static_cast<std::ptrdiff_t>((b + 1) * elems)});
        EXPECT_EQ(std::memcmp(alone.data(), coded.data() + b * size, size), 0)
            << format.name << " block " << b;
      }
    }
  }
}

TEST(BlockFormat, ExtremeButFiniteValuesStayFinite) {
  const float tiny = std::numeric_limits<float>::denorm_min(), small = std::numeric_limits<float>::min();
  const std::vector<std::vector<float>> patterns = {{0.0f},
                                                    {-0.0f},
                                                    {tiny},
                                                    {-tiny, tiny},
                                                    {small, 0.0f},
                                                    {1e-20f, -1e-30f},
                                                    {65504.0f, -65504.0f},
                                                    {30000.0f, 1e-7f, -30000.0f},
                                                    {1.0f},
                                                    {-1.0f},
                                                    {0.0f, 0.0f, 0.0f, -5.0f},
                                                    {3.0f, 3.0000002f}};
  int cases = 0;
  for (const BlockFormat& format : block_formats()) {
    for (const auto& pattern : patterns) {
      std::vector<float> values(static_cast<std::size_t>(format.block_elems) * 2);
      float peak = 0.0f;
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = pattern[i % pattern.size()];
        peak = std::max(peak, std::fabs(values[i]));
      }
      const auto back = decode(format, encode(format, values), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_TRUE(std::isfinite(back[i])) << format.name;
        // f16 scales add an absolute error of their own for values near their smallest.
        EXPECT_LE(std::fabs(back[i] - values[i]), tolerance(format.dtype) * peak + 2e-6)
            << format.name << ' ' << i;
      }
      ++cases;
    }
  }
  std::printf("[ counts ] %d format x pattern cases\n", cases);
}

TEST(Half, EveryF16SurvivesF32AndOrderIsKept) {
  int equal = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(static_cast<std::uint16_t>(bits));
    const std::uint16_t back = f32_to_f16(value);
    if (std::isnan(value)) {
      EXPECT_EQ(back & 0x7c00, 0x7c00);
      EXPECT_NE(back & 0x3ff, 0);
      continue;
    }
    ASSERT_EQ(back, bits);
    ++equal;
  }
  EXPECT_EQ(equal, 0x10000 - 2 * 1023);
}

}  // namespace
}  // namespace lithe
