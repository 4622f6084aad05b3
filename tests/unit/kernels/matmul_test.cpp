// Every matrix product of every ISA against scalar loops in double precision, and promise 1: an output's bits depend
// on its row of weights and its row of activations alone.
#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

#include "kernels/activation_layout.h"
#include "matmul_case.h"

namespace lithe::kernels {
namespace {

constexpr Arithmetic kArithmetics[] = {Arithmetic::f32, Arithmetic::bf16, Arithmetic::int8};

const KernelTable& table_of(Isa isa) {
  return *kernel_table(isa).value();
}

/// Odd shapes: one row, rows no multiple of 16, one block, several chunks of columns.
std::vector<std::pair<std::int64_t, std::int64_t>> shapes(DType dtype) {
  const std::int64_t unit = block_format(dtype).block_elems;
  if (unit == 1) return {{1, 1}, {17, 3}, {48, 64}, {35, 77}, {16, 2}, {33, 1031}};
  if (unit == 32) return {{1, 32}, {17, 96}, {48, 576}, {35, 64}, {33, 1568}};
  return {{1, 256}, {17, 768}, {48, 512}, {35, 1536}};
}

/// |x|.|w| for a bound, in double.
std::vector<double> magnitudes(const PackedMatrix& w, const std::vector<float>& x, std::int64_t m) {
  std::vector<double> out(static_cast<std::size_t>(m * w.rows));
  std::vector<float> row(static_cast<std::size_t>(w.cols));
  for (std::int64_t o = 0; o < w.rows; ++o) {
    unpack_row(w, o, row.data());
    for (std::int64_t r = 0; r < m; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < w.cols; ++c) {
        sum += std::fabs(static_cast<double>(x[static_cast<std::size_t>(r * w.cols + c)]) *
                         row[static_cast<std::size_t>(c)]);
      }
      out[static_cast<std::size_t>(r * w.rows + o)] = sum;
    }
  }
  return out;
}

TEST(Matmul, EqualsTheScalarLoops) {
  const KernelTable& reference = table_of(Isa::reference);
  std::int64_t combinations = 0, outputs = 0;
  double worst = 0;
  for (const Isa isa : available_isas()) {
    if (isa == Isa::reference) continue;
    const KernelTable& table = table_of(isa);
    Buffer scratch(table.matmul_scratch_bytes());
    for (const BlockFormat& format : block_formats()) {
      for (const auto& [rows, cols] : shapes(format.dtype)) {
        Rng rng(static_cast<std::uint64_t>(rows * 1000 + cols));
        const PackedCase w(format.dtype, rows, cols, rng);
        for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 12, 13, 33}) {
          std::vector<float> x(static_cast<std::size_t>(m * cols));
          for (auto& value : x) value = random_float(rng);
          const auto scale = magnitudes(w.matrix, x, m);
          for (const Arithmetic arithmetic : kArithmetics) {
            if (!legal(table, format.dtype, arithmetic)) continue;
            ++combinations;
            const PreparedCase prepared(table, arithmetic, x.data(), cols, m, cols);
            std::vector<float> got(static_cast<std::size_t>(m * rows), NAN), expected = got;
            table.matmul(whole_job(w.matrix, prepared.x, got.data(), rows, scratch));
            reference.matmul(whole_job(w.matrix, prepared.x, expected.data(), rows, scratch));
            // A chain of n roundings of partial sums, each below |x|.|w|; int8 rounds three or four times a block.
            const double steps = arithmetic == Arithmetic::int8 ? 4.0 * static_cast<double>(cols) / 16
                                                                : static_cast<double>(cols);
            for (std::size_t i = 0; i < got.size(); ++i) {
              const double bound = (std::sqrt(steps) + 2) * 0x1p-24 * scale[i] * 1.1;
              const double error = std::fabs(static_cast<double>(got[i]) - expected[i]);
              worst = std::max(worst, error / bound);
              ASSERT_LE(error, bound) << describe(table, format.dtype, arithmetic, rows, cols, m)
                                      << " output " << i << ": " << got[i] << " instead of " << expected[i];
            }
            outputs += static_cast<std::int64_t>(got.size());
          }
        }
      }
    }
  }
  std::printf(
      "[ counts ] %lld kernel x isa x shape combinations, %lld outputs; largest error %.2f of the bound\n",
      static_cast<long long>(combinations), static_cast<long long>(outputs), worst);
  for (const BlockFormat& format : block_formats()) {
    std::printf(
        "[ proved ] format | %s | kernels | products of scalar loops, but for rounding, on every instruction "
        "set\n",
        std::string(format.name).c_str());
  }
}

/// Bits for any rows together, any split of rows and panels, any strides.
TEST(Matmul, BitsDependOnTheRowAlone) {
  std::int64_t comparisons = 0;
  for (const Isa isa : available_isas()) {
    const KernelTable& table = table_of(isa);
    Buffer scratch(table.matmul_scratch_bytes());
    for (const BlockFormat& format : block_formats()) {
      // Formats that share their kernels need one turn.
      if (kKernelTypes[static_cast<std::size_t>(format.dtype)] != format.dtype) continue;
      const std::int64_t rows = 83, cols = format.block_elems == 256 ? 1536 : 1056, m = 61, stride = 91;
      Rng rng(11);
      const PackedCase w(format.dtype, rows, cols, rng);
      std::vector<float> x(static_cast<std::size_t>(m * (cols + 5)));
      for (auto& value : x) value = random_float(rng);
      for (const Arithmetic arithmetic : kArithmetics) {
        if (!legal(table, format.dtype, arithmetic)) continue;
        const PreparedCase all(table, arithmetic, x.data(), cols + 5, m, cols);
        std::vector<float> together(static_cast<std::size_t>(m * stride), NAN), got = together;
        const MatmulJob whole = whole_job(w.matrix, all.x, together.data(), stride, scratch);
        table.matmul(whole);
        const auto compare = [&](const char* what, std::int64_t begin, std::int64_t end) {
          for (std::int64_t r = begin; r < end; ++r) {
            ASSERT_EQ(0, std::memcmp(got.data() + r * stride, together.data() + r * stride,
                                     static_cast<std::size_t>(rows) * sizeof(float)))
                << what << ", row " << r << ": " << describe(table, format.dtype, arithmetic, rows, cols, m);
            ++comparisons;
          }
        };
        // Rows in groups of each height, prepared alone; every height up to 14 meets another kernel.
        for (std::int64_t height = 1; height <= 14; ++height) {
          if (isa == Isa::reference && height % 5 != 1) continue;  // one loop for all
          std::fill(got.begin(), got.end(), NAN);
          for (std::int64_t r = 0; r + height <= m; r += height) {
            const PreparedCase part(table, arithmetic, x.data() + r * (cols + 5), cols + 5, height, cols);
            MatmulJob job = whole_job(w.matrix, part.x, got.data() + r * stride, stride, scratch);
            table.matmul(job);
          }
          compare("group alone", 0, m / height * height);
        }
        // Ranges of rows and panels of one job.
        std::fill(got.begin(), got.end(), NAN);
        const std::int64_t row_cuts[] = {0, 1, 8, 27, m}, panel_cuts[] = {0, 1, 4, w.matrix.panels()};
        for (int i = 0; i < 4; ++i) {
          for (int j = 0; j < 3; ++j) {
            MatmulJob job = whole;
            job.out = got.data();
            job.row_begin = row_cuts[i];
            job.row_end = row_cuts[i + 1];
            job.panel_begin = panel_cuts[j];
            job.panel_end = panel_cuts[j + 1];
            table.matmul(job);
          }
        }
        compare("ranges", 0, m);
      }
    }
  }
  std::printf("[ counts ] %lld rows bit-equal in other company\n", static_cast<long long>(comparisons));
}

TEST(Matmul, AddsBiasAndAccumulatesAndKeepsItsColumns) {
  for (const Isa isa : available_isas()) {
    const KernelTable& table = table_of(isa);
    Buffer scratch(table.matmul_scratch_bytes());
    for (const BlockFormat& format : block_formats()) {
      for (const Arithmetic arithmetic : kArithmetics) {
        if (!legal(table, format.dtype, arithmetic)) continue;
        for (const std::int64_t m : {1, 3, 9}) {
          const std::int64_t rows = 21, cols = format.block_elems == 256 ? 1024 : 832, stride = 40;
          Rng rng(3);
          const PackedCase w(format.dtype, rows, cols, rng);
          std::vector<float> x(static_cast<std::size_t>(m * cols)), bias(rows),
              before(static_cast<std::size_t>(m * stride));
          for (auto* v : {&x, &bias, &before}) {
            for (auto& value : *v) value = random_float(rng);
          }
          const PreparedCase prepared(table, arithmetic, x.data(), cols, m, cols);
          std::vector<float> product(before), biased(before), added(before);
          MatmulJob job = whole_job(w.matrix, prepared.x, product.data(), stride, scratch);
          table.matmul(job);
          job.bias = bias.data();
          job.out = biased.data();
          table.matmul(job);
          job.out = added.data();
          job.accumulate = true;
          table.matmul(job);
          const std::string what = describe(table, format.dtype, arithmetic, rows, cols, m);
          for (std::int64_t r = 0; r < m; ++r) {
            for (std::int64_t o = 0; o < stride; ++o) {
              const auto i = static_cast<std::size_t>(r * stride + o);
              if (o >= rows) {
                ASSERT_EQ(added[i], before[i]) << what << ": wrote beyond the last row of weights";
                ASSERT_EQ(product[i], before[i]) << what;
                continue;
              }
              ASSERT_EQ(biased[i], product[i] + bias[static_cast<std::size_t>(o)]) << what;
              ASSERT_EQ(added[i], before[i] + biased[i]) << what;
            }
          }
        }
      }
    }
  }
}

TEST(Prepare, GivesTheSameBytesOnEveryIsa) {
  const KernelTable& reference = table_of(Isa::reference);
  const std::int64_t rows = 5, cols = 32 * 19, stride = cols + 3;
  std::vector<float> x(static_cast<std::size_t>(rows * stride));
  Rng rng(5);
  for (auto& value : x) value = random_float(rng) * std::exp2(static_cast<float>(rng.normal()) * 8);
  for (int i = 0; i < 64; ++i) x[static_cast<std::size_t>(i)] = 0;
  x[100] = NAN;
  x[170] = std::numeric_limits<float>::infinity();
  for (int i = 192; i < 224; ++i) x[static_cast<std::size_t>(i)] = 1e-35f;
  x[300] = 0x1p101f;
  for (int i = 320; i < 352; ++i)
    x[static_cast<std::size_t>(i)] = static_cast<float>(i - 336) + 0.5f;  // ties
  x[320] = 127.0f;
  for (const Arithmetic arithmetic : kArithmetics) {
    PreparedCase expected(reference, arithmetic, x.data(), stride, rows, cols);
    for (const Isa isa : available_isas()) {
      PreparedCase got(table_of(isa), arithmetic, x.data(), stride, rows, cols);
      ASSERT_EQ(got.x.row_bytes, expected.x.row_bytes);
      const std::size_t used = arithmetic == Arithmetic::int8 ? pair_sums_offset(cols) + cols / 8
                                                              : static_cast<std::size_t>(cols) *
                                                                    (arithmetic == Arithmetic::bf16 ? 2 : 4);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::size_t i = 0; i < used; ++i) {
          const std::size_t at = static_cast<std::size_t>(r) * got.x.row_bytes + i;
          ASSERT_EQ(got.memory.data()[at], expected.memory.data()[at])
              << isa_name(isa) << " arithmetic " << static_cast<int>(arithmetic) << " row " << r << " byte "
              << i;
        }
      }
    }
  }
}

TEST(Prepare, LosesNoMoreThanHalfAStep) {
  const std::int64_t cols = 64;
  std::vector<float> x(cols);
  Rng rng(6);
  for (auto& value : x) value = random_float(rng);
  PreparedCase got(table_of(available_isas().back()), Arithmetic::int8, x.data(), cols, 1, cols);
  for (std::int64_t c = 0; c < cols; ++c) {
    const std::byte* block = got.memory.data() + static_cast<std::size_t>(c / 32) * kInt8BlockBytes;
    Int8Params params;
    std::memcpy(&params, block + 32, sizeof params);
    const float value = params.scale * static_cast<float>(static_cast<std::int8_t>(block[c % 32]));
    EXPECT_LE(std::fabs(value - x[static_cast<std::size_t>(c)]), params.scale * 0.5001f);
  }
}

/// A value that is no number must show, in its row and nowhere else.
TEST(Matmul, NotANumberStaysOne) {
  for (const Isa isa : available_isas()) {
    const KernelTable& table = table_of(isa);
    Buffer scratch(table.matmul_scratch_bytes());
    for (const BlockFormat& format : block_formats()) {
      for (const Arithmetic arithmetic : kArithmetics) {
        if (!legal(table, format.dtype, arithmetic)) continue;
        for (const float bad : {NAN, std::numeric_limits<float>::infinity()}) {
          const std::int64_t rows = 16, cols = 256, m = 8;
          Rng rng(9);
          const PackedCase w(format.dtype, rows, cols, rng);
          std::vector<float> x(static_cast<std::size_t>(m * cols)), out(static_cast<std::size_t>(m * rows));
          for (auto& value : x) value = random_float(rng);
          x[static_cast<std::size_t>(3 * cols + 70)] = bad;
          const PreparedCase prepared(table, arithmetic, x.data(), cols, m, cols);
          table.matmul(whole_job(w.matrix, prepared.x, out.data(), rows, scratch));
          for (std::int64_t r = 0; r < m; ++r) {
            int finite = 0;
            for (std::int64_t o = 0; o < rows; ++o)
              finite += std::isfinite(out[static_cast<std::size_t>(r * rows + o)]);
            EXPECT_EQ(finite, r == 3 ? 0 : rows)
                << describe(table, format.dtype, arithmetic, rows, cols, m) << " row " << r;
          }
        }
      }
    }
  }
}

TEST(Sgemm, EqualsTheScalarLoops) {
  const KernelTable& reference = table_of(Isa::reference);
  int products = 0;
  for (const Isa isa : available_isas()) {
    const KernelTable& table = table_of(isa);
    Buffer scratch(table.matmul_scratch_bytes());
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                  {13, 17, 5},
                                  {12, 32, 64},
                                  {25, 70, 300},
                                  {64, 33, 777},
                                  {30, 70, 384}}) {
      Rng rng(static_cast<std::uint64_t>(m + n + k));
      // Rows of `a` a power of two apart are gathered first.
      const std::int64_t lda = k % 128 == 0 ? k : k + 3, ldb = n + 1, ldc = n + 2;
      std::vector<float> a(static_cast<std::size_t>(m * lda)), b(static_cast<std::size_t>(k * ldb)),
          c(static_cast<std::size_t>(m * ldc));
      for (auto* v : {&a, &b, &c}) {
        for (auto& value : *v) value = random_float(rng);
      }
      for (const bool accumulate : {false, true}) {
        auto got = c, expected = c;
        table.sgemm(m, n, k, a.data(), lda, b.data(), ldb, got.data(), ldc, accumulate, scratch.span());
        reference.sgemm(m, n, k, a.data(), lda, b.data(), ldb, expected.data(), ldc, accumulate,
                        scratch.span());
        for (std::size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], expected[i], 1e-6 * (std::sqrt(static_cast<double>(k)) * 4 + 4))
              << table.name << " " << m << "x" << n << "x" << k << " at " << i;
        }
        ++products;
      }
    }
  }
  std::printf("[ counts ] %d sgemm products\n", products);
}

}  // namespace
}  // namespace lithe::kernels
