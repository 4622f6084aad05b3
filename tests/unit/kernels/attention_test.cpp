#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>

#include "attention_case.h"
#include "kernels/kv_layout.h"

namespace lithe::kernels {
namespace {

class AttentionTest : public testing::TestWithParam<Isa> {
 protected:
  const KernelTable& kernels() { return **kernel_table(GetParam()); }
  /// All shapes; fewer for the slow tables.
  std::vector<AttentionShape> shapes() const {
    std::vector<AttentionShape> all = attention_shapes(), some;
    if (GetParam() > Isa::portable) return all;
    for (std::size_t i = 0; i < all.size(); i += GetParam() == Isa::reference ? 13 : 3)
      some.push_back(all[i]);
    return some;
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, AttentionTest,
                         testing::ValuesIn(available_isas().begin(), available_isas().end()),
                         [](const auto& isa) { return std::string(isa_name(isa.param)); });

std::vector<float> run_flash(const KernelTable& kernels, AttentionCase& c, std::int64_t chunk) {
  std::vector<float> out = c.blank();
  Scratch scratch(kernels.attention.scratch_bytes(c.view().shape, c.shape.kv_heads * c.shape.group));
  for (std::int64_t row = 0; row < c.shape.tokens; row += chunk) {
    const std::int64_t end = std::min(c.shape.tokens, row + chunk);
    c.store(kernels, row, end - row);
    const AttentionJob job = c.job(row, end, end, out);
    for (int head = 0; head < c.shape.kv_heads; ++head) {
      kernels.attention.flash(job, head, 0, job.rows, scratch.span());
    }
  }
  return out;
}

struct Errors {
  double largest = 0;
  std::int64_t values = 0;
};
Errors errors(const std::vector<float>& got, const std::vector<double>& want) {
  Errors errors;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) continue;
    const double error = std::fabs(static_cast<double>(got[i]) - want[i]);
    errors.largest = std::isnan(error) ? INFINITY : std::max(errors.largest, error);
    ++errors.values;
  }
  return errors;
}
double largest_error(const std::vector<float>& got, const std::vector<double>& want) {
  return errors(got, want).largest;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double tolerance(const AttentionShape& shape) {
  return 2e-6 * std::sqrt(shape.key_dim) * (1 + std::fabs(static_cast<double>(shape.shift)) / 8);
}

TEST_P(AttentionTest, FlashMatchesF64) {
  std::int64_t values = 0;
  double worst = 0;
  std::uint64_t seed = 1;
  for (const AttentionShape& shape : shapes()) {
    AttentionCase c(shape, seed++);
    const std::vector<float> got = run_flash(kernels(), c, shape.tokens);
    const Errors error = errors(got, c.exact());
    EXPECT_LT(error.largest, tolerance(shape)) << shape.text();
    worst = std::max(worst, error.largest);
    values += error.values;
  }
  std::printf("[ counts ] %zu shapes, %lld values within %.1e of f64\n", shapes().size(),
              static_cast<long long>(values), worst);
}

// Integer tiles round queries to 8 bits and weights to 16 (q8_0), or everything to 13 to 15 bits (f16); other tables
// have none and stay exact.
TEST_P(AttentionTest, IntegerTilesAreClose) {
  for (const DType dtype : {DType::q8_0, DType::f16}) {
    double worst = 0;
    std::uint64_t seed = 1;
    for (AttentionShape shape : shapes()) {
      shape.f32_arithmetic = false;
      if (shape.dtype != dtype) continue;
      AttentionCase c(shape, seed++);
      const std::vector<float> got = run_flash(kernels(), c, shape.tokens);
      const double error = largest_error(got, c.exact());
      worst = std::max(worst, error);
      const double allowed = dtype == DType::q8_0 ? 0.06 : 2e-3;
      EXPECT_LT(error, GetParam() == Isa::avx512 ? allowed : tolerance(shape)) << shape.text();
    }
    std::printf("[ counts ] integer tiles, %s: within %.1e of f64\n", dtype == DType::q8_0 ? "q8_0" : "f16",
                worst);
  }
}

TEST_P(AttentionTest, ShiftedScoresAndCaps) {
  for (const float shift : {80.0f, -80.0f, 800.0f}) {
    if (GetParam() == Isa::reference && shift != 80) continue;
    for (const DType dtype : {DType::f32, DType::f16, DType::q8_0}) {
      AttentionShape shape;
      shape.dtype = dtype;
      shape.shift = shift;
      shape.group = 3;
      for (const float cap : {0.0f, 30.0f}) {
        shape.soft_cap = cap;
        AttentionCase c(shape, 5);
        const std::vector<float> got = run_flash(kernels(), c, shape.tokens);
        EXPECT_LT(largest_error(got, c.exact()), tolerance(shape)) << shape.text();
      }
    }
  }
}

// Latent attention as DeepSeek has it: one kv head for all, keys of 576 channels, values of 512.
TEST_P(AttentionTest, LatentHeads) {
  double worst = 0;
  for (const DType dtype : {DType::f32, DType::f16, DType::q8_0}) {
    for (const bool f32_arithmetic : {true, false}) {
      AttentionShape shape;
      shape.dtype = dtype;
      shape.f32_arithmetic = f32_arithmetic;
      shape.key_dim = 576;
      shape.value_dim = 512;
      shape.latent = true;
      shape.kv_heads = 1;
      shape.group = 14;  // two register tiles
      shape.tokens = GetParam() == Isa::reference ? 9 : kKeyBlock + 21;
      AttentionCase c(shape, 15);
      const std::vector<float> whole = run_flash(kernels(), c, shape.tokens);
      const double error = largest_error(whole, c.exact());
      const bool rounded = GetParam() == Isa::avx512 && !f32_arithmetic && dtype != DType::f32;
      EXPECT_LT(error, rounded ? (dtype == DType::q8_0 ? 0.06 : 2e-3) : tolerance(shape)) << shape.text();
      EXPECT_TRUE(same_bits(whole, run_flash(kernels(), c, 7))) << shape.text();
      worst = std::max(worst, error);
    }
  }
  std::printf("[ counts ] latent heads: within %.1e of f64\n", worst);
}

// Promise 1: chunks of any size, pages in any order, rows alone or together: the same bits.
TEST_P(AttentionTest, ChunksAndPagesDoNotChangeABit) {
  std::int64_t compared = 0;
  std::uint64_t seed = 100;
  for (AttentionShape shape : shapes()) {
    shape.causal = true;  // bidirectional rows see later chunks: no such claim
    shape.f32_arithmetic = seed % 3 == 0;
    AttentionCase c(shape, seed++);
    const std::vector<float> whole = run_flash(kernels(), c, shape.tokens);
    for (const std::int64_t chunk : {1, 7, 16, 64}) {
      if (GetParam() == Isa::reference && chunk != 7) continue;
      c.scatter();
      const std::vector<float> got = run_flash(kernels(), c, chunk);
      EXPECT_TRUE(same_bits(whole, got)) << shape.text() << " chunk " << chunk;
      compared += static_cast<std::int64_t>(got.size());
    }
  }
  std::printf("[ counts ] %lld values bit-equal\n", static_cast<long long>(compared));
}

// Promise 1: any cut of the rows, and flash-decoding, give the bits of one flash over everything.
TEST_P(AttentionTest, RowCutsAndPartialsDoNotChangeABit) {
  std::int64_t compared = 0;
  std::uint64_t seed = 200;
  for (AttentionShape shape : shapes()) {
    shape.f32_arithmetic = seed % 3 == 0;
    AttentionCase c(shape, seed++);
    const std::vector<float> whole = run_flash(kernels(), c, shape.tokens);
    std::vector<float> cut = c.blank(), merged = c.blank();
    const AttentionKernels& attention = kernels().attention;
    Scratch scratch(attention.scratch_bytes(c.view().shape, shape.kv_heads * shape.group));
    const AttentionJob cut_job = c.job(0, shape.tokens, shape.tokens, cut);
    const AttentionJob merge_job = c.job(0, shape.tokens, shape.tokens, merged);
    const std::int64_t blocks = (shape.tokens + kKeyBlock - 1) / kKeyBlock;
    for (int head = 0; head < shape.kv_heads; ++head) {
      for (std::int64_t row = 0; row < shape.tokens;) {
        const std::int64_t end = std::min(shape.tokens, row + 1 + row % 11);
        attention.flash(cut_job, head, row, end, scratch.span());
        const std::int64_t stride = (end - row) * shape.group * (shape.value_dim + 2);
        std::vector<float> partials(static_cast<std::size_t>(blocks * stride));
        for (std::int64_t block = blocks - 1; block >= 0; --block) {  // blocks the rows do not see included
          attention.partial(merge_job, head, row, end, block, partials.data() + block * stride,
                            scratch.span());
        }
        attention.merge(merge_job, head, row, end, blocks, partials.data(), stride);
        row = end;
      }
    }
    EXPECT_TRUE(same_bits(whole, cut)) << shape.text();
    EXPECT_TRUE(same_bits(whole, merged)) << shape.text();
    compared += 2 * static_cast<std::int64_t>(whole.size());
  }
  std::printf("[ counts ] %lld values bit-equal\n", static_cast<long long>(compared));
}

TEST_P(AttentionTest, NaiveAndChunkedAgree) {
  std::uint64_t seed = 300;
  for (AttentionShape shape : shapes()) {
    if (seed % 24 == 0) shape.tokens = 1100;  // more than one chunk of keys
    AttentionCase c(shape, seed++);
    c.store(kernels(), 0, shape.tokens);
    const std::vector<double> exact = c.exact();
    const AttentionKernels& attention = kernels().attention;
    std::vector<float> naive = c.blank(), chunked = c.blank();
    const AttentionJob naive_job = c.job(0, shape.tokens, shape.tokens, naive);
    const AttentionJob chunked_job = c.job(0, shape.tokens, shape.tokens, chunked);
    Scratch naive_scratch(attention.naive_scratch_bytes(naive_job));
    Scratch chunked_scratch(attention.chunked_scratch_bytes(chunked_job));
    for (int head = 0; head < naive_job.q_heads; ++head) {
      attention.naive(naive_job, head, naive_scratch.span());
      attention.chunked(chunked_job, head, chunked_scratch.span());
    }
    EXPECT_LT(largest_error(naive, exact), tolerance(shape)) << shape.text();
    EXPECT_LT(largest_error(chunked, exact), tolerance(shape)) << shape.text();
  }
}

TEST_P(AttentionTest, WindowOfOneSeesOnlyItself) {
  for (const DType dtype : {DType::f32, DType::f16, DType::q8_0}) {
    AttentionShape shape;
    shape.dtype = dtype;
    shape.window = 1;
    shape.f32_arithmetic = true;
    AttentionCase c(shape, 7);
    const std::vector<float> got = run_flash(kernels(), c, 13);
    std::vector<float> value(static_cast<std::size_t>(shape.value_dim));
    for (std::int64_t row = 0; row < shape.tokens; ++row) {
      for (int head = 0; head < shape.kv_heads; ++head) {
        load_value(c.view(), head, row, value.data());
        for (int i = 0; i < shape.value_dim; ++i) {
          ASSERT_EQ(got[static_cast<std::size_t>(row * c.out_stride + head * shape.value_dim + i)],
                    value[static_cast<std::size_t>(i)]);
        }
      }
    }
  }
}

TEST_P(AttentionTest, AWindowOfTheWholeLengthIsNoWindow) {
  AttentionShape shape;
  AttentionCase full(shape, 8);
  shape.window = shape.tokens;
  AttentionCase windowed(shape, 8);
  EXPECT_TRUE(same_bits(run_flash(kernels(), full, 64), run_flash(kernels(), windowed, 64)));
}

TEST_P(AttentionTest, NothingToSeeGivesZeros) {
  AttentionShape shape;
  AttentionCase c(shape, 9);
  std::vector<float> out = c.blank();
  const AttentionKernels& attention = kernels().attention;
  AttentionJob job = c.job(0, 3, 0, out);  // an empty cache
  Scratch scratch(attention.scratch_bytes(job.kv.shape, job.q_heads));
  std::vector<float> partials(static_cast<std::size_t>(3 * (shape.value_dim + 2)));
  for (int round = 0; round < 2; ++round) {
    for (int head = 0; head < shape.kv_heads; ++head) {
      if (round == 0) {
        attention.flash(job, head, 0, 3, scratch.span());
      } else {
        attention.partial(job, head, 0, 3, 0, partials.data(), scratch.span());
        attention.merge(job, head, 0, 3, 1, partials.data(), static_cast<std::int64_t>(partials.size()));
      }
    }
    for (std::int64_t row = 0; row < 3; ++row) {
      for (int i = 0; i < shape.kv_heads * shape.value_dim; ++i) {
        ASSERT_EQ(out[static_cast<std::size_t>(row * c.out_stride + i)], 0.0f);
      }
    }
    out = c.blank();
    job.out = out.data();
  }
}

// Values of keys that a row does not see may be infinite: a later token's fault is not an earlier one's.
TEST_P(AttentionTest, UnseenValuesAreNotTouched) {
  for (const auto& [dtype, exact] :
       {std::pair(DType::f32, true), std::pair(DType::f16, true), std::pair(DType::f16, false),
        std::pair(DType::q8_0, true), std::pair(DType::q8_0, false)}) {
    AttentionShape shape;
    shape.f32_arithmetic = exact;
    shape.dtype = dtype;
    shape.group = 3;
    shape.window = 100;
    AttentionCase clean(shape, 10), dirty(shape, 10);
    const std::int64_t bad = 200;
    for (std::int64_t i = 0; i < dirty.v_stride; ++i) {
      dirty.v[static_cast<std::size_t>(bad * dirty.v_stride + i)] = std::numeric_limits<float>::quiet_NaN();
    }
    const std::vector<float> want = run_flash(kernels(), clean, shape.tokens);
    const std::vector<float> got = run_flash(kernels(), dirty, shape.tokens);
    for (std::int64_t row = 0; row < shape.tokens; ++row) {
      const auto at = static_cast<std::size_t>(row * clean.out_stride);
      if (row < bad || row >= bad + shape.window) {
        ASSERT_EQ(std::memcmp(&want[at], &got[at], static_cast<std::size_t>(clean.out_stride) * 4), 0) << row;
      } else {
        ASSERT_TRUE(std::isnan(got[at])) << row;
      }
    }
  }
}

// A query or a key that is not finite makes the lines that see it NaN, however many keys they see: a fault must not come
// out as a number, least of all as zero.
TEST_P(AttentionTest, FaultsComeOutAsNaN) {
  std::int64_t lines = 0;
  for (const auto& [dtype, exact] :
       {std::pair(DType::f32, true), std::pair(DType::f16, true), std::pair(DType::f16, false),
        std::pair(DType::q8_0, true), std::pair(DType::q8_0, false)}) {
    for (const std::int64_t tokens : {1, 2, 17, 31, 33, 48, 63, 65, 112, 256, 257}) {
      for (const bool in_query : {true, false}) {
        AttentionShape shape;
        shape.dtype = dtype;
        shape.f32_arithmetic = exact;
        shape.tokens = tokens;
        shape.kv_heads = 1;
        shape.group = 3;
        AttentionCase c(shape, 13);
        const float fault = std::numeric_limits<float>::quiet_NaN();
        if (in_query) {  // of the last row
          c.q[static_cast<std::size_t>((tokens - 1) * c.q_stride + 70)] = fault;
        } else {
          c.k[5] = fault;
        }
        const std::vector<float> got = run_flash(kernels(), c, tokens);
        for (std::int64_t row = 0; row < tokens; ++row) {
          for (int head = 0; head < shape.group; ++head) {
            const bool faulty = in_query ? row == tokens - 1 && head == 1 : true;
            const float* out = &got[static_cast<std::size_t>(row * c.out_stride + head * shape.value_dim)];
            for (int i = 0; i < shape.value_dim; ++i) {
              ASSERT_EQ(std::isnan(out[i]), faulty)
                  << shape.text() << (exact ? "" : " integers") << " row " << row;
            }
            ++lines;
          }
        }
      }
    }
  }
  std::printf("[ counts ] %lld lines, NaN or not as they should be\n", static_cast<long long>(lines));
}

// Codes at their bounds: queries, keys and values all at their largest, and equal weights for all keys of a block.
TEST_P(AttentionTest, LargestCodesDoNotOverflow) {
  for (const DType dtype : {DType::f16, DType::q8_0}) {
    for (const int dim : {64, 128, 192, 576}) {
      AttentionShape shape;
      shape.dtype = dtype;
      shape.f32_arithmetic = false;
      shape.key_dim = shape.value_dim = dim;
      shape.kv_heads = 1;
      shape.tokens = 2 * kKeyBlock;
      AttentionCase c(shape, 14);
      std::fill(c.q.begin(), c.q.end(), 3.0f);
      std::fill(c.k.begin(), c.k.end(), -2.0f);
      std::fill(c.v.begin(), c.v.end(), 5.0f);
      const std::vector<float> got = run_flash(kernels(), c, shape.tokens);
      EXPECT_LT(largest_error(got, c.exact()), 2e-3) << shape.text();
    }
  }
}

// Every table stores the bytes of the reference.
TEST_P(AttentionTest, StoredBytesEqualTheReference) {
  std::int64_t bytes = 0;
  for (const DType dtype : {DType::f32, DType::f16, DType::q8_0}) {
    for (const int dim : {64, 128, 80, 40, 33, 7}) {
      for (const std::int64_t chunk : {1, 5, 16, 100}) {
        AttentionShape shape;
        shape.dtype = dtype;
        shape.key_dim = dim;
        shape.value_dim = dim + (dim == 33 ? 2 : 0);
        shape.tokens = 100;
        AttentionCase a(shape, 11), b(shape, 11);
        a.k[5] = 1e6f, b.k[5] = 1e6f;    // infinite as f16
        a.k[6] = 1e-7f, b.k[6] = 1e-7f;  // subnormal as f16
        std::fill(a.v.begin(), a.v.begin() + 200, 0.0f);
        std::fill(b.v.begin(), b.v.begin() + 200, 0.0f);
        for (std::int64_t t = 0; t < shape.tokens; t += chunk) {
          a.store(kernels(), t, std::min(chunk, shape.tokens - t));
        }
        reference_store(b.view(), b.k.data(), b.k_stride, b.v.data(), b.v_stride, 0, shape.tokens);
        ASSERT_EQ(a.pool, b.pool) << shape.text() << " chunk " << chunk;
        bytes += static_cast<std::int64_t>(a.pool.size());
      }
    }
  }
  std::printf("[ counts ] %lld bytes equal\n", static_cast<long long>(bytes));
}

// What is stored is what a format of that kind can hold: f32 exactly, f16 rounded, q8_0 within half a step.
TEST(KvLayoutTest, StoredValuesAreClose) {
  for (const DType dtype : {DType::f32, DType::f16, DType::q8_0}) {
    AttentionShape shape;
    shape.dtype = dtype;
    shape.key_dim = 70;
    shape.value_dim = 35;
    AttentionCase c(shape, 12);
    reference_store(c.view(), c.k.data(), c.k_stride, c.v.data(), c.v_stride, 0, shape.tokens);
    std::vector<float> row(70);
    double worst = 0;
    for (std::int64_t t = 0; t < shape.tokens; ++t) {
      for (int head = 0; head < shape.kv_heads; ++head) {
        load_key(c.view(), head, t, row.data());
        for (int i = 0; i < 70; ++i) {
          worst = std::max(
              worst,
              std::fabs(static_cast<double>(row[static_cast<std::size_t>(i)] -
                                            c.k[static_cast<std::size_t>(t * c.k_stride + head * 70 + i)])));
        }
        load_value(c.view(), head, t, row.data());
        for (int i = 0; i < 35; ++i) {
          worst = std::max(
              worst,
              std::fabs(static_cast<double>(row[static_cast<std::size_t>(i)] -
                                            c.v[static_cast<std::size_t>(t * c.v_stride + head * 35 + i)])));
        }
      }
    }
    EXPECT_LE(worst, dtype == DType::f32   ? 0.0
                     : dtype == DType::f16 ? 2e-3
                                           : 5.0 / 127 * 0.51)
        << shape.text();
    EXPECT_EQ(kv_layer_bytes(c.view().shape) % 64, 0u);
  }
}

}  // namespace
}  // namespace lithe::kernels
