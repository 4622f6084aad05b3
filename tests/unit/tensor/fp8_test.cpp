// Every code of both 8-bit float formats, against PyTorch's values.
#include "tensor/fp8.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lithe {
namespace {

#include "fp8_golden.inc"

void expect_equal(const std::uint32_t (&golden)[256], float (*decode)(std::uint8_t)) {
  for (int code = 0; code < 256; ++code) {
    const float value = decode(static_cast<std::uint8_t>(code));
    if (std::isnan(std::bit_cast<float>(golden[code]))) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(value), golden[code]) << code << " decodes as " << value;
    }
  }
}

TEST(Fp8, E4M3EqualsPyTorchOnEveryCode) {
  expect_equal(kE4M3, f8_e4m3_to_f32);
  EXPECT_EQ(f8_e4m3_to_f32(0x7e), 448.0f);
}

TEST(Fp8, E5M2EqualsPyTorchOnEveryCode) {
  expect_equal(kE5M2, f8_e5m2_to_f32);
  EXPECT_EQ(f8_e5m2_to_f32(0x7b), 57344.0f);
}

}  // namespace
}  // namespace lithe
