// The Mamba-2 mixer against plain loops in double, on every instruction set, and the life of its state.
#include "layers/mamba.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"

namespace lithe::layers {
namespace {

using kernels::Isa;

std::vector<float> noise(std::int64_t count, std::uint64_t seed, double scale, double mean = 0) {
  Rng rng(seed);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& value : out) value = static_cast<float>(mean + scale * rng.normal());
  return out;
}

struct Mixer {
  Mixer(const MambaSpec& spec, std::int64_t hidden_size, std::uint64_t seed) : hidden(hidden_size) {
    ThreadPool pool(1);
    const std::int64_t inner = spec.inner();
    in = noise(spec.projected() * hidden, seed, 1 / std::sqrt(static_cast<double>(hidden)));
    out = noise(hidden * inner, seed + 1, 1 / std::sqrt(static_cast<double>(inner)));
    memory = std::move(*WeightMemory::create(Linear::packed_bytes(DType::f32, spec.projected(), hidden) +
                                             Linear::packed_bytes(DType::f32, hidden, inner)));
    const auto pack = [&](const std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
      return Linear::pack({DType::f32, rows, cols, std::as_bytes(std::span(values)), nullptr},
                          kernels::Arithmetic::f32, memory, pool);
    };
    layer.spec = spec;
    layer.in = pack(in, spec.projected(), hidden);
    layer.out = pack(out, hidden, inner);
    layer.conv = noise(spec.taps * spec.convolved(), seed + 2, 0.5);
    if (seed % 2 == 0) layer.conv_bias = noise(spec.convolved(), seed + 3, 0.3);
    layer.decay = noise(spec.heads, seed + 4, 0.5);
    for (float& decay : layer.decay) decay = -std::exp(decay);
    layer.skip = noise(spec.heads, seed + 5, 1);
    layer.step_bias = noise(spec.heads, seed + 6, 1, -1);
    layer.step_bias.front() = 25;  // where softplus is the number itself
    layer.norm.weight = noise(inner, seed + 7, 0.3, 1);
  }

  // All rows of one sequence, or of several, through the layer.
  std::vector<float> run(ExecContext& context, const std::vector<float>& x,
                         const std::vector<MambaRun>& runs) const {
    context.arena().reset();
    const std::int64_t rows = runs.back().begin + runs.back().count;
    std::vector<std::int64_t> all(static_cast<std::size_t>(rows));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    std::vector<float> y(static_cast<std::size_t>(rows * hidden));
    const Mamba::Mixed mixed =
        layer.mix(context, {.x = x.data(), .stride = hidden, .rows = rows, .cols = hidden}, runs);
    layer.project(context, mixed, all, y.data(), hidden, false);
    // Some of the rows: the same.
    const std::vector<std::int64_t> some{rows / 2};
    std::vector<float> one(static_cast<std::size_t>(hidden), 1.0f);
    layer.project(context, mixed, some, one.data(), hidden, true);
    for (std::int64_t i = 0; i < hidden; ++i) {
      EXPECT_EQ(one[static_cast<std::size_t>(i)], 1.0f + y[static_cast<std::size_t>(rows / 2 * hidden + i)]);
    }
    return y;
  }

  std::vector<double> exact(const std::vector<float>& x, std::int64_t rows) const;

  std::int64_t hidden;
  std::vector<float> in, out;
  WeightMemory memory;
  Mamba layer;
};

std::vector<double> product(const std::vector<float>& matrix, const std::vector<double>& x) {
  std::vector<double> y(matrix.size() / x.size());
  for (std::size_t row = 0; row < y.size(); ++row) {
    for (std::size_t i = 0; i < x.size(); ++i)
      y[row] += static_cast<double>(matrix[row * x.size() + i]) * x[i];
  }
  return y;
}

double silu(double x) {
  return x / (1 + std::exp(-x));
}

// As the paper writes it, one token after another, sums in double.
std::vector<double> Mixer::exact(const std::vector<float>& x, std::int64_t rows) const {
  const MambaSpec& spec = layer.spec;
  const auto at = [](const std::vector<float>& from, std::int64_t i) {
    return static_cast<double>(from[static_cast<std::size_t>(i)]);
  };
  const std::int64_t inner = spec.inner(), width = spec.convolved();
  std::vector<std::vector<double>> past;  // rows of what is convolved
  std::vector<double> state(static_cast<std::size_t>(inner * spec.state)), result;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::vector<double> token(x.begin() + row * hidden, x.begin() + (row + 1) * hidden);
    const std::vector<double> projected = product(in, token);
    past.emplace_back(projected.begin() + inner, projected.begin() + inner + width);
    std::vector<double> seen(static_cast<std::size_t>(width));
    for (std::int64_t c = 0; c < width; ++c) {
      double sum = layer.conv_bias.empty() ? 0 : at(layer.conv_bias, c);
      for (std::int64_t tap = 0; tap < spec.taps; ++tap) {
        const std::int64_t from = row + tap - (spec.taps - 1);
        if (from >= 0)
          sum += at(layer.conv, tap * width + c) *
                 past[static_cast<std::size_t>(from)][static_cast<std::size_t>(c)];
      }
      seen[static_cast<std::size_t>(c)] = silu(sum);
    }
    std::vector<double> y(static_cast<std::size_t>(inner));
    for (std::int64_t i = 0; i < inner; ++i) {
      const std::int64_t head = i / spec.head_dim, group = head * spec.groups / spec.heads;
      const double step = std::log1p(
          std::exp(projected[static_cast<std::size_t>(inner + width + head)] + at(layer.step_bias, head)));
      const double value = seen[static_cast<std::size_t>(i)];
      double sum = at(layer.skip, head) * value;
      for (std::int64_t j = 0; j < spec.state; ++j) {
        double& number = state[static_cast<std::size_t>(i * spec.state + j)];
        number = std::exp(step * at(layer.decay, head)) * number +
                 step * value * seen[static_cast<std::size_t>(inner + group * spec.state + j)];
        sum += number * seen[static_cast<std::size_t>(inner + (spec.groups + group) * spec.state + j)];
      }
      y[static_cast<std::size_t>(i)] = sum * silu(projected[static_cast<std::size_t>(i)]);
    }
    const std::int64_t part = inner / spec.groups;
    for (std::int64_t begin = 0; begin < inner; begin += part) {
      double squares = 0;
      for (std::int64_t i = begin; i < begin + part; ++i)
        squares += y[static_cast<std::size_t>(i)] * y[static_cast<std::size_t>(i)];
      const double factor = 1 / std::sqrt(squares / static_cast<double>(part) + 1e-5);
      for (std::int64_t i = begin; i < begin + part; ++i)
        y[static_cast<std::size_t>(i)] *= factor * at(layer.norm.weight, i);
    }
    const std::vector<double> projected_back = product(out, y);
    result.insert(result.end(), projected_back.begin(), projected_back.end());
  }
  return result;
}

struct Size {
  MambaSpec spec;
  std::int64_t hidden;
};
const std::vector<Size>& sizes() {
  static const std::vector<Size> all{
      {{.heads = 1, .head_dim = 1, .state = 1, .groups = 1, .taps = 1}, 3},
      {{.heads = 6, .head_dim = 5, .state = 7, .groups = 2, .taps = 4}, 13},
      {{.heads = 3, .head_dim = 23, .state = 20, .groups = 3, .taps = 3}, 37},
      {{.heads = 4, .head_dim = 64, .state = 33, .groups = 1, .taps = 4}, 64},
      {{.heads = 2, .head_dim = 80, .state = 16, .groups = 1, .taps = 7}, 29},
  };
  return all;
}

class MambaTest : public testing::TestWithParam<Isa> {
 protected:
  const kernels::KernelTable& kernels() { return **kernels::kernel_table(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Isas, MambaTest,
                         testing::ValuesIn(kernels::available_isas().begin(),
                                           kernels::available_isas().end()),
                         [](const auto& isa) { return std::string(kernels::isa_name(isa.param)); });

TEST_P(MambaTest, IsWhatThePaperSays) {
  ThreadPool pool(2);
  double worst = 0;
  std::size_t compared = 0;
  for (std::size_t i = 0; i < sizes().size(); ++i) {
    const Size& size = sizes()[i];
    const Mixer mixer(size.spec, size.hidden, 10 + i);
    constexpr std::int64_t kRows = 19;
    const std::vector<float> x = noise(kRows * size.hidden, 99 + i, 1);
    ExecContext context(pool, kernels());
    std::vector<float> state(static_cast<std::size_t>(size.spec.state_floats()));
    const std::vector<float> got = mixer.run(context, x, {{0, kRows, state.data()}});
    const ScratchNeed need = mixer.layer.scratch(kernels(), kRows);
    EXPECT_LE(context.peak_scratch_bytes() - 2 * context.worker_scratch(0).size(), need.arena);
    EXPECT_LE(need.per_worker, ExecContext::kLeastWorkerScratch);
    const std::vector<double> want = mixer.exact(x, kRows);
    double largest = 0;
    for (const double value : want) largest = std::max(largest, std::fabs(value));
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t at = 0; at < want.size(); ++at) {
      const double error = std::fabs(static_cast<double>(got[at]) - want[at]) / largest;
      ASSERT_LT(error, 1e-5) << "size " << i << ", number " << at;
      worst = std::max(worst, error);
    }
    compared += want.size();
  }
  std::printf("[ counts ] %zu values, the worst %.1e of the largest away\n", compared, worst);
}

// Promise 1: pieces, threads and neighbours change no bit, neither of what comes out nor of the state.
TEST_P(MambaTest, PiecesAndNeighboursGiveTheSameBits) {
  for (std::size_t i = 0; i < sizes().size(); ++i) {
    const Size& size = sizes()[i];
    const Mixer mixer(size.spec, size.hidden, 10 + i);
    constexpr std::int64_t kRows = 13;
    const std::int64_t hidden = size.hidden;
    const std::vector<float> a = noise(kRows * hidden, 1, 1), b = noise(kRows * hidden, 2, 1);
    const auto fresh = [&] { return std::vector<float>(static_cast<std::size_t>(size.spec.state_floats())); };
    ThreadPool alone(1), together(3);
    ExecContext one(alone, kernels()), three(together, kernels());
    std::vector<float> a_state = fresh(), b_state = fresh();
    const std::vector<float> a_whole = mixer.run(one, a, {{0, kRows, a_state.data()}});
    const std::vector<float> b_whole = mixer.run(one, b, {{0, kRows, b_state.data()}});
    const auto rows_of = [&](const std::vector<float>& from, std::int64_t begin, std::int64_t count) {
      return std::vector<float>(from.begin() + begin * hidden, from.begin() + (begin + count) * hidden);
    };
    for (const std::int64_t piece : {1, 2, 5}) {
      std::vector<float> a_again = fresh(), b_again = fresh();
      std::int64_t a_done = 0, b_done = 0;
      while (a_done < kRows ||
             b_done < kRows) {  // b goes on in pieces of another size, behind a in the batch
        const std::int64_t a_rows = std::min(piece, kRows - a_done),
                           b_rows = std::min<std::int64_t>(7 - piece, kRows - b_done);
        std::vector<float> x = rows_of(a, a_done, a_rows), more = rows_of(b, b_done, b_rows);
        x.insert(x.end(), more.begin(), more.end());
        std::vector<MambaRun> runs;
        if (a_rows > 0) runs.push_back({0, a_rows, a_again.data()});
        if (b_rows > 0) runs.push_back({a_rows, b_rows, b_again.data()});
        const std::vector<float> y = mixer.run(three, x, runs);
        ASSERT_EQ(rows_of(y, 0, a_rows), rows_of(a_whole, a_done, a_rows)) << "size " << i << ", " << piece;
        ASSERT_EQ(rows_of(y, a_rows, b_rows), rows_of(b_whole, b_done, b_rows)) << "size " << i;
        a_done += a_rows;
        b_done += b_rows;
      }
      ASSERT_EQ(a_again, a_state);
      ASSERT_EQ(b_again, b_state);
    }
  }
}

}  // namespace
}  // namespace lithe::layers
