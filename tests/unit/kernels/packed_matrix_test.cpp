#include "kernels/packed_matrix.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"

namespace lithe::kernels {
namespace {

/// Rows of random bits: every code and every scale, NaN and infinity included.
std::vector<std::byte> random_rows(DType dtype, std::int64_t rows, std::int64_t cols, Rng& rng) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows) *
                               *row_bytes(dtype, static_cast<std::uint64_t>(cols)));
  for (auto& byte : bytes) byte = static_cast<std::byte>(rng.next_u64());
  return bytes;
}

TEST(PackedMatrix, UnpacksToTheDecodersBits) {
  std::int64_t values = 0;
  Rng rng(7);
  for (const BlockFormat& format : block_formats()) {
    for (const std::int64_t units : {1, 2, 3, 4, 7}) {
      const std::int64_t cols = units * format.block_elems;
      const std::size_t panel_bytes = packed_panel_bytes(format.dtype, cols);
      EXPECT_EQ(panel_bytes % kPanelAlign, 0u);
      const auto bytes_per_row =
          static_cast<std::size_t>(*row_bytes(format.dtype, static_cast<std::uint64_t>(cols)));
      EXPECT_GE(panel_bytes, bytes_per_row * kPanelRows);
      for (const int rows : {1, 5, 16}) {
        const auto source = random_rows(format.dtype, rows, cols, rng);
        std::vector<std::byte> panel(panel_bytes, std::byte{0xee});
        pack_panel(format.dtype, source.data(), bytes_per_row, rows, cols, panel.data());
        const PackedMatrix matrix = {format.dtype, kPanelRows, cols, panel.data(), panel_bytes};
        std::vector<float> expected(static_cast<std::size_t>(cols)), got(expected);
        for (int r = 0; r < kPanelRows; ++r) {
          unpack_row(matrix, r, got.data());
          if (r < rows) {
            format.decode(source.data() + static_cast<std::size_t>(r) * bytes_per_row, cols, expected.data());
          } else {
            std::fill(expected.begin(), expected.end(), 0.0f);
          }
          for (std::size_t c = 0; c < expected.size(); ++c) {
            if (std::isnan(expected[c])) {
              EXPECT_TRUE(std::isnan(got[c]));
            } else {
              ASSERT_EQ(expected[c], got[c]) << format.name << " row " << r << " column " << c;
            }
            ++values;
          }
        }
      }
    }
  }
  std::printf("[ counts ] %lld packed values equal the decoders'\n", static_cast<long long>(values));
}

TEST(KernelTables, NameWhatRuns) {
  ASSERT_FALSE(available_isas().empty());
  EXPECT_EQ(available_isas().front(), Isa::reference);
  for (const Isa isa : available_isas()) {
    const auto table = kernel_table(isa);
    ASSERT_TRUE(table.ok());
    EXPECT_EQ((*table)->isa, isa);
    EXPECT_TRUE((*table)->name.starts_with(isa_name(isa))) << (*table)->name;
  }
}

}  // namespace
}  // namespace lithe::kernels
