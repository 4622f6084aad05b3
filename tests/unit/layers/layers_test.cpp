// Layers against plain loops in double.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "base/rng.h"
#include "layers/embedding.h"
#include "layers/ffn.h"
#include "layers/linear.h"
#include "layers/memory.h"
#include "layers/norm.h"
#include "layers/rope.h"
#include "layers/shares.h"

namespace lithe::layers {
namespace {

std::vector<float> noise(std::int64_t count, std::uint64_t seed, double scale = 1) {
  Rng rng(seed);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& value : out) value = static_cast<float>(scale * rng.normal());
  return out;
}

// What only decodes is packed as the type it runs as, panel by panel.
TEST(Linear, RecodesWhatDoesNotRun) {
  ThreadPool pool(2);
  constexpr std::int64_t kRows = 37, kCols = 512;
  for (const BlockFormat& format : decode_only_formats()) {
    const std::size_t stride = *row_bytes(format, kCols);
    std::vector<std::byte> bytes(stride * kRows);
    Rng rng(3);
    for (auto& byte : bytes)
      byte = static_cast<std::byte>(rng.next_u64() & 0x3b);  // scales are ordinary numbers
    WeightMemory memory = std::move(*WeightMemory::create(Linear::packed_bytes(format.dtype, kRows, kCols)));
    const Linear linear =
        Linear::pack({format.dtype, kRows, kCols, bytes, &format}, kernels::Arithmetic::f32, memory, pool);
    EXPECT_EQ(linear.weights().dtype, format.dtype);
    const BlockFormat& runs_as = block_format(format.dtype);
    std::vector<float> values(kCols), expected(kCols), got(kCols);
    std::vector<std::byte> recoded(*row_bytes(runs_as, kCols));
    for (std::int64_t row = 0; row < kRows; ++row) {
      format.decode(bytes.data() + stride * static_cast<std::size_t>(row), kCols, values.data());
      runs_as.encode(values.data(), kCols, recoded.data());
      runs_as.decode(recoded.data(), kCols, expected.data());
      kernels::unpack_row(linear.weights(), row, got.data());
      ASSERT_EQ(got, expected) << format.name << " row " << row;
    }
  }
}

// A matrix packed from floats, and the floats it really holds.
struct Matrix {
  WeightMemory memory;
  Linear linear;
  std::vector<float> exact;

  Matrix(DType dtype, std::int64_t rows, std::int64_t cols, std::uint64_t seed, ThreadPool& pool,
         const kernels::KernelTable& table, bool full = false)
      : exact(static_cast<std::size_t>(rows * cols)) {
    const BlockFormat& format = block_format(dtype);
    const std::vector<float> values = noise(rows * cols, seed, 0.3);
    std::vector<std::byte> bytes(*row_bytes(dtype, static_cast<std::uint64_t>(cols)) *
                                 static_cast<std::size_t>(rows));
    format.encode(values.data(), rows * cols, bytes.data());
    format.decode(bytes.data(), rows * cols, exact.data());
    memory = std::move(*WeightMemory::create(Linear::packed_bytes(dtype, rows, cols)));
    linear = Linear::pack({dtype, rows, cols, bytes}, choose_arithmetic(dtype, table, full), memory, pool);
  }

  double product(std::span<const float> x, std::int64_t row) const {
    double sum = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      sum += static_cast<double>(x[k]) * exact[static_cast<std::size_t>(row) * x.size() + k];
    }
    return sum;
  }
};

class LayersTest : public testing::TestWithParam<kernels::Isa> {
 protected:
  LayersTest() : table_(**kernels::kernel_table(GetParam())) {}
  const kernels::KernelTable& table_;
};

std::span<const float> row_of(const std::vector<float>& x, std::int64_t row, std::int64_t cols) {
  return std::span(x).subspan(static_cast<std::size_t>(row * cols), static_cast<std::size_t>(cols));
}

// Three matrices of odd sizes and different formats on one input, made row by row, with bias and accumulation.
TEST_P(LayersTest, AGroupIsItsMatricesOneByOne) {
  constexpr std::int64_t kCols = 64;
  std::int64_t checked = 0;
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    ExecContext context(pool, table_);
    Matrix a(DType::f32, 37, kCols, 1, pool, table_), b(DType::q8_0, 16, kCols, 2, pool, table_),
        c(DType::f16, 5, kCols, 3, pool, table_);
    const std::vector<float> bias = noise(37, 4);
    a.linear.set_bias(bias);
    for (const std::int64_t rows : {1, 2, 5, 70}) {
      const std::vector<float> x = noise(rows * kCols, 5), before = noise(rows * 16, 6);
      const auto twice = [&](std::int64_t row, float* out) {
        for (std::int64_t k = 0; k < kCols; ++k) out[k] = 2 * x[static_cast<std::size_t>(row * kCols + k)];
      };
      const FunctionRef<void(std::int64_t, float*)> make(twice);
      std::vector<float> out_a(static_cast<std::size_t>(rows * 40)),
          out_b = before, out_c(static_cast<std::size_t>(rows * 5));
      const std::array products{Product{&a.linear, out_a.data(), 40},
                                Product{&b.linear, out_b.data(), 16, true},
                                Product{&c.linear, out_c.data(), 5}};
      multiply(context, {.rows = rows, .cols = kCols, .make = &make}, products);
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto in = row_of(x, row, kCols);
        for (std::int64_t o = 0; o < 37; ++o) {
          EXPECT_NEAR(out_a[static_cast<std::size_t>(row * 40 + o)],
                      2 * a.product(in, o) + bias[static_cast<std::size_t>(o)], 1e-4);
        }
        for (std::int64_t o = 0; o < 16;
             ++o) {  // int8 activations: 64 products, each off by up to 1/254 of the largest
          EXPECT_NEAR(out_b[static_cast<std::size_t>(row * 16 + o)],
                      2 * b.product(in, o) + before[static_cast<std::size_t>(row * 16 + o)], 0.25);
        }
        for (std::int64_t o = 0; o < 5; ++o) {
          EXPECT_NEAR(out_c[static_cast<std::size_t>(row * 5 + o)], 2 * c.product(in, o), 1e-4);
        }
        checked += 58;
      }
    }
  }
  std::printf("[ counts ] %lld products\n", static_cast<long long>(checked));
}

TEST_P(LayersTest, FeedForwardIsItsFormula) {
  constexpr std::int64_t kHidden = 24, kWidth = 41, kRows = 3;
  ThreadPool pool(2);
  ExecContext context(pool, table_);
  for (const FfnKind kind : {FfnKind::gated, FfnKind::plain}) {
    for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
      Matrix gate(DType::f32, kWidth, kHidden, 1, pool, table_),
          up(DType::f32, kWidth, kHidden, 2, pool, table_),
          down(DType::f32, kHidden, kWidth, 3, pool, table_);
      Ffn ffn{kind, activation, kind == FfnKind::gated ? gate.linear : Linear(), up.linear, down.linear};
      const std::vector<float> x = noise(kRows * kHidden, 4);
      std::vector<float> out = noise(kRows * kHidden, 5);
      const std::vector<float> before = out;
      ffn.run(context, {.x = x.data(), .stride = kHidden, .rows = kRows, .cols = kHidden}, out.data(),
              kHidden, true);
      for (std::int64_t row = 0; row < kRows; ++row) {
        std::vector<float> middle(kWidth);
        for (std::int64_t i = 0; i < kWidth; ++i) {
          const double raised = up.product(row_of(x, row, kHidden), i);
          const double z = kind == FfnKind::gated ? gate.product(row_of(x, row, kHidden), i) : raised;
          const double act =
              activation == Activation::silu
                  ? z / (1 + std::exp(-z))
                  : 0.5 * z * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z)));
          middle[static_cast<std::size_t>(i)] =
              static_cast<float>(kind == FfnKind::gated ? act * raised : act);
        }
        for (std::int64_t o = 0; o < kHidden; ++o) {
          const auto at = static_cast<std::size_t>(row * kHidden + o);
          EXPECT_NEAR(out[at], before[at] + down.product(middle, o), 1e-4);
        }
      }
    }
  }
}

TEST_P(LayersTest, NormsAreTheirFormulas) {
  constexpr std::size_t kN = 77;
  const std::vector<float> x = noise(kN, 1, 3), weight = noise(kN, 2), bias = noise(kN, 3);
  double mean = 0, square = 0, spread = 0;
  for (const float v : x) mean += v / static_cast<double>(kN), square += static_cast<double>(v) * v / kN;
  for (const float v : x) spread += (v - mean) * (v - mean) / kN;
  std::vector<float> out(kN);
  Norm{NormKind::rms, 1e-5f, weight, {}}.apply(table_, x.data(), out.data());
  for (std::size_t i = 0; i < kN; ++i) EXPECT_NEAR(out[i], x[i] / std::sqrt(square + 1e-5) * weight[i], 1e-5);
  Norm{NormKind::layer, 1e-5f, weight, bias}.apply(table_, x.data(), out.data());
  for (std::size_t i = 0; i < kN; ++i) {
    EXPECT_NEAR(out[i], (x[i] - mean) / std::sqrt(spread + 1e-5) * weight[i] + bias[i], 1e-5);
  }
}

TEST_P(LayersTest, EmbeddingsAreRowsOfThePackedMatrix) {
  ThreadPool pool(2);
  ExecContext context(pool, table_);
  for (const DType dtype : {DType::f32, DType::bf16, DType::q4_1, DType::q8_0}) {
    Matrix matrix(dtype, 35, 64, 9, pool, table_);
    const std::vector<std::int32_t> tokens{34, 0, 17, 17};
    std::vector<float> out(4 * 64);
    embed(context, matrix.linear, tokens, 2.0f, out.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
      EXPECT_EQ(out[i], 2 * matrix.exact[static_cast<std::size_t>(tokens[i / 64]) * 64 + i % 64]);
    }
  }
}

TEST_P(LayersTest, ArithmeticFollowsTheFormat) {
  EXPECT_EQ(choose_arithmetic(DType::q4_k, table_, false), kernels::Arithmetic::int8);
  EXPECT_EQ(choose_arithmetic(DType::q4_k, table_, true), kernels::Arithmetic::f32);
  EXPECT_EQ(choose_arithmetic(DType::f16, table_, false), kernels::Arithmetic::f32);
  EXPECT_EQ(choose_arithmetic(DType::bf16, table_, false) == kernels::Arithmetic::bf16, table_.has_bf16);
  EXPECT_EQ(choose_arithmetic(DType::bf16, table_, true), kernels::Arithmetic::f32);
}

// An observer sees each matrix once, with the rows it multiplies.
TEST_P(LayersTest, ObserversSeeInputs) {
  struct Watch : Observer {
    std::set<int> ids;
    double sum = 0;
    void on_linear_input(int id, const float* x, std::int64_t rows, std::int64_t cols,
                         std::int64_t stride) override {
      EXPECT_TRUE(ids.insert(id).second);
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t k = 0; k < cols; ++k) sum += x[row * stride + k];
      }
    }
  } watch;
  ThreadPool pool(2);
  ExecContext context(pool, table_);
  context.set_observer(&watch);
  Matrix a(DType::f32, 8, 4, 1, pool, table_), b(DType::f32, 3, 4, 2, pool, table_);
  a.linear.describe(3, "a", ShardRole::output_rows);
  b.linear.describe(5, "b", ShardRole::output_rows);
  const auto fill = [](std::int64_t row, float* out) { std::fill_n(out, 4, static_cast<float>(row)); };
  const FunctionRef<void(std::int64_t, float*)> make(fill);
  std::vector<float> out_a(6 * 8), out_b(6 * 3);
  const std::array products{Product{&a.linear, out_a.data(), 8}, Product{&b.linear, out_b.data(), 3}};
  multiply(context, {.rows = 6, .cols = 4, .make = &make}, products);
  EXPECT_EQ(watch.ids, (std::set<int>{3, 5}));
  EXPECT_EQ(watch.sum, 2 * 4 * (0 + 1 + 2 + 3 + 4 + 5));
}

INSTANTIATE_TEST_SUITE_P(Isas, LayersTest,
                         testing::ValuesIn(kernels::available_isas().begin(),
                                           kernels::available_isas().end()),
                         [](const auto& instance) { return std::string(kernels::isa_name(instance.param)); });

TEST(RopeTest, TablesAreCosinesOfScaledPositions) {
  RopeTable table(
      {.kind = RopeKind::half, .dim = 8, .theta = 10000, .scaling = RopeScaling::linear, .factor = 4});
  table.extend(3);
  table.extend(1000);  // growing leaves what was there
  for (const std::int64_t position : {0, 2, 511, 512, 999}) {
    for (int i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(position) * std::pow(10000.0, -2.0 * i / 8) / 4;
      EXPECT_NEAR(table.cos(position)[i], std::cos(angle), 1e-4);
      EXPECT_NEAR(table.sin(position)[i], std::sin(angle), 1e-4);
    }
  }
}

// Llama 3.1's published rule on its published numbers: short waves as they are, long ones 8 times as long.
TEST(RopeTest, Llama3ScalingStretchesLongWaves) {
  RopeSpec spec{
      .dim = 128, .theta = 500000, .scaling = RopeScaling::llama3, .factor = 8, .original_context = 8192};
  const std::vector<float> scaled = rope_frequencies(spec);
  spec.scaling = RopeScaling::none;
  const std::vector<float> plain = rope_frequencies(spec);
  int kept = 0, blended = 0, stretched = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2 * std::numbers::pi / plain[i], ratio = plain[i] / scaled[i];
    if (wavelength < 8192.0 / 4) {
      ++kept;
      EXPECT_NEAR(ratio, 1, 1e-6);
    } else if (wavelength > 8192.0) {
      ++stretched;
      EXPECT_NEAR(ratio, 8, 1e-5);
    } else {
      ++blended;
      EXPECT_TRUE(ratio > 1 && ratio < 8) << ratio;
    }
  }
  EXPECT_GT(kept, 20);
  EXPECT_GT(blended, 2);
  EXPECT_GT(stretched, 20);
}

// Every unit once, whoever takes it; alone, a worker walks its own stretch first.
TEST(SharesTest, EveryUnitOnce) {
  ThreadPool pool(3);
  WorkShares shares(3);
  std::int64_t units = 0;
  for (const std::int64_t count : {0, 1, 2, 3, 7, 100, 4097}) {
    for (const std::int64_t most : {1, 5, 1000}) {
      std::vector<std::atomic<int>> taken(static_cast<std::size_t>(count));
      shares.deal(count, most);
      pool.run([&](int worker) {
        for (UnitRange range = shares.take(worker); !range.empty(); range = shares.take(worker)) {
          for (std::int64_t i = range.begin; i < range.end; ++i) ++taken[static_cast<std::size_t>(i)];
        }
      });
      for (const auto& times : taken) EXPECT_EQ(times, 1);
      units += count;
    }
  }
  std::printf("[ counts ] %lld units\n", static_cast<long long>(units));
  shares.deal(30, 4);
  std::int64_t next = 10, all = 0;
  for (UnitRange range = shares.take(1); !range.empty(); range = shares.take(1)) {
    all += range.end - range.begin;
    EXPECT_LE(range.end - range.begin, 4);
    if (next == 20) continue;  // from here on others' units, from their ends
    EXPECT_EQ(range.begin, next);
    next = range.end;
  }
  EXPECT_EQ(all, 30);
}

TEST(MemoryTest, ScratchIsAlignedReusedAndKept) {
  ScratchArena arena;
  float* first = arena.take<float>(10);
  {
    ScratchArena::Scope scope(arena);
    float* inner = arena.take<float>(3 << 20);  // a second block
    inner[(3 << 20) - 1] = 1;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(inner) % kCacheLine, 0u);
  }
  float* second = arena.take<float>(10);
  EXPECT_EQ(second, first + 16);  // the scope gave its memory back
  EXPECT_GT(arena.high_water(), std::size_t{12} << 20);
  arena.reset();
  first = arena.take<float>(3 << 20);  // one block of the high-water mark now
  EXPECT_EQ(arena.take<float>(1), first + (3 << 20));
  EXPECT_EQ(arena.used(), (std::size_t{12} << 20) + kCacheLine);
}

}  // namespace
}  // namespace lithe::layers
