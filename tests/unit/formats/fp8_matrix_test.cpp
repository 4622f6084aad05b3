// Codes times scales, in each of the ways in which checkpoints lay scales out.
#include "formats/fp8_matrix.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gguf_bytes.h"
#include "tensor/fp8.h"

namespace lithe::formats {
namespace {

constexpr std::uint64_t kRows = 5, kCols = 7;

class Fp8MatrixTest : public testing::Test {
 protected:
  std::uint8_t code(std::uint64_t row, std::uint64_t col) const {
    return static_cast<std::uint8_t>(row * 37 + col * 11);
  }

  // A checkpoint of one matrix and, if `shape` is given, its scales 1, 2, 3, ...
  Result<HfDirectory> checkpoint(const std::string& ending, const std::vector<std::uint64_t>& shape,
                                 const std::string& config = "{}", float first = 1.0f) {
    SafetensorsWriter writer;
    writer.add_tensor("w", *find_safetensors_type("F8_E4M3"), {kRows, kCols});
    if (!ending.empty()) writer.add_tensor("w" + ending, *find_safetensors_type("F32"), shape);
    EXPECT_TRUE(writer.begin(folder_ / "", 1 << 20).ok());
    std::string codes;
    for (std::uint64_t i = 0; i < kRows * kCols; ++i) codes += static_cast<char>(code(i / kCols, i % kCols));
    EXPECT_TRUE(writer.write_tensor(as_bytes(codes)).ok());
    std::uint64_t count = 1;
    for (const std::uint64_t dim : shape) count *= dim;
    std::vector<float> scales(count, first);
    for (std::uint64_t i = 1; i < count; ++i) scales[i] = static_cast<float>(i + 1);
    if (!ending.empty() && count > 0) {
      EXPECT_TRUE(writer.write_tensor(std::as_bytes(std::span(scales))).ok());
    }
    EXPECT_TRUE(writer.commit().ok());
    std::ofstream(folder_ / "config.json") << config;
    return HfDirectory::open(folder_ / "");
  }

  template <typename Scale>
  void expect_scaled(const Result<HfDirectory>& directory, Scale scale) {
    ASSERT_TRUE(directory.ok()) << directory.status().message();
    const auto matrix = Fp8Matrix::find(*directory, *directory->find_tensor("w"));
    ASSERT_TRUE(matrix.ok()) << matrix.status().message();
    ASSERT_EQ(matrix->rows(), kRows);
    ASSERT_EQ(matrix->cols(), kCols);
    for (std::uint64_t row = 0; row < kRows; ++row) {
      float values[kCols];
      matrix->decode_row(row, values);
      for (std::uint64_t col = 0; col < kCols; ++col) {
        const float expected = f8_e4m3_to_f32(code(row, col)) * scale(row, col);
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(values[col]));
        } else {
          EXPECT_EQ(values[col], expected) << row << ", " << col;
        }
      }
    }
  }

  void refused(const Result<HfDirectory>& directory, std::string_view part) {
    ASSERT_TRUE(directory.ok()) << directory.status().message();
    const auto matrix = Fp8Matrix::find(*directory, *directory->find_tensor("w"));
    ASSERT_FALSE(matrix.ok()) << "expected: " << part;
    EXPECT_NE(matrix.status().message().find(part), std::string::npos) << matrix.status().message();
  }

  TemporaryFolder folder_;
};

TEST_F(Fp8MatrixTest, AppliesScalesInEveryLayout) {
  expect_scaled(checkpoint("", {}), [](auto, auto) { return 1.0f; });
  for (const std::vector<std::uint64_t>& shape : {std::vector<std::uint64_t>{}, {1}, {1, 1}})
    expect_scaled(checkpoint("_scale", shape, "{}", 0.5f), [](auto, auto) { return 0.5f; });
  for (const std::vector<std::uint64_t>& shape : {std::vector<std::uint64_t>{kRows}, {kRows, 1}})
    expect_scaled(checkpoint("_scale", shape), [](auto row, auto) { return static_cast<float>(row + 1); });
  const std::string blocks = R"({"quantization_config":{"weight_block_size":[2,3]}})";
  expect_scaled(checkpoint("_scale_inv", {3, 3}, blocks),
                [](auto row, auto col) { return static_cast<float>(row / 2 * 3 + col / 3 + 1); });
  expect_scaled(checkpoint("_scale_inv", {1, 1}, "{}", 2.0f), [](auto, auto) { return 2.0f; });
}

TEST_F(Fp8MatrixTest, RefusesScalesThatDoNotSuit) {
  refused(checkpoint("_scale_inv", {2, 2}), "do not suit the shape [5, 7] in blocks of 128 x 128");
  refused(checkpoint("_scale_inv", {3, 2}, R"({"quantization_config":{"weight_block_size":[2,3]}})"),
          "do not suit");
  refused(checkpoint("_scale", {0}), "do not suit");
  refused(checkpoint("_scale", {}, "{}", INFINITY), "not finite");
  for (const char* block : {"[0,3]", "[2]", "7", "[2,-3]", "[2,\"x\"]"})
    refused(checkpoint("_scale", {3, 3},
                       fmt::format(R"({{"quantization_config":{{"weight_block_size":{}}}}})", block)),
            "weight_block_size");
}

}  // namespace
}  // namespace lithe::formats
