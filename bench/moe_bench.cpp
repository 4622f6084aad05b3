// How fast a mixture of experts runs beside a dense feed-forward layer of as many active weights.
//
//   moe_bench [--isa avx512] [--threads 2] [--weights q8_0] [--rows 512] [--turns 5]
//
// The shape is Qwen1.5-MoE-A2.7B's: 2,048 channels, 60 experts of 1,408, 4 of them for each token, and a shared one of
// 5,632; the dense layer is as wide as what a token meets, 11,264. Four layers of each, random weights and rows, taking turns.
// Many rows: Gop/s of the active weights, and the share that the router takes. One row: the bytes of active weights over
// the time, beside reading as many bytes in order from a buffer as large as the weights.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/rng.h"
#include "engine/ceilings.h"
#include "layers/moe.h"

namespace lithe {
namespace {

using layers::Linear;

constexpr std::int64_t kHidden = 2048, kWidth = 1408, kShared = 5632;
constexpr int kExperts = 60, kUsed = 4, kLayers = 4;
constexpr std::int64_t kDense = kShared + kUsed * kWidth;
constexpr std::int64_t kActive = 3 * kHidden * kDense;  // multiply-adds a token and layer

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Layer {
  layers::Moe moe;
  layers::Ffn dense;
};

/// Rows that are no whole number of super-blocks are stored in another type, as llama-quantize does.
DType fitting(DType dtype, std::int64_t cols) {
  return cols % block_format(dtype).block_elems == 0 ? dtype : DType::q5_0;
}

/// Matrices of noise; those of one shape have the same numbers in different memory.
class Maker {
 public:
  Maker(DType dtype, layers::ExecContext& context, layers::WeightMemory& memory)
      : dtype_(dtype), context_(context), memory_(memory) {}

  Linear matrix(DType dtype, std::int64_t rows, std::int64_t cols) {
    dtype = fitting(dtype, cols);
    const BlockFormat& format = block_format(dtype);
    constexpr std::int64_t kOwn = 16;  // rows that are not copies
    std::vector<float> values(static_cast<std::size_t>(kOwn * cols));
    for (float& value : values) value = static_cast<float>(0.02 * rng_.normal());
    const std::size_t bytes = *row_bytes(format, static_cast<std::uint64_t>(cols));
    std::vector<std::byte> own(bytes * kOwn), stored;
    format.encode(values.data(), std::ssize(values), own.data());
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto from = own.begin() + static_cast<std::ptrdiff_t>(bytes) * (row % kOwn);
      stored.insert(stored.end(), from, from + static_cast<std::ptrdiff_t>(bytes));
    }
    return Linear::pack({dtype, rows, cols, stored},
                        layers::choose_arithmetic(dtype, context_.kernels(), false), memory_,
                        context_.pool());
  }

  Layer layer() {
    Layer out;
    out.moe.rule = {.experts = kExperts, .used = kUsed};
    std::vector<float> router(static_cast<std::size_t>(kExperts * kHidden));
    for (float& value : router) value = static_cast<float>(0.02 * rng_.normal());
    out.moe.router = Linear::pack({DType::f32, kExperts, kHidden, std::as_bytes(std::span(router))},
                                  kernels::Arithmetic::f32, memory_, context_.pool());
    for (int i = 0; i < kExperts; ++i) {
      out.moe.gate.push_back(matrix(dtype_, kWidth, kHidden));
      out.moe.up.push_back(matrix(dtype_, kWidth, kHidden));
      out.moe.down.push_back(matrix(dtype_, kHidden, kWidth));
    }
    out.moe.shared = ffn(kShared);
    out.moe.shared_gate = matrix(DType::f32, 1, kHidden);
    out.dense = ffn(kDense);
    return out;
  }

 private:
  layers::Ffn ffn(std::int64_t width) {
    layers::Ffn out;
    out.gate = matrix(dtype_, width, kHidden);
    out.up = matrix(dtype_, width, kHidden);
    out.down = matrix(dtype_, kHidden, width);
    return out;
  }

  DType dtype_;
  layers::ExecContext& context_;
  layers::WeightMemory& memory_;
  Rng rng_{1};
};

std::size_t bytes_needed(DType dtype) {
  const auto ffn = [&](std::int64_t width) {
    return 2 * Linear::packed_bytes(dtype, width, kHidden) +
           Linear::packed_bytes(fitting(dtype, width), kHidden, width);
  };
  const std::size_t router =
      Linear::packed_bytes(DType::f32, kExperts, kHidden) + Linear::packed_bytes(DType::f32, 1, kHidden);
  return kLayers * (kExperts * ffn(kWidth) + ffn(kShared) + ffn(kDense) + router);
}

int run(kernels::Isa isa, int threads, const BlockFormat& format, std::int64_t rows, int turns) {
  const auto table = kernels::kernel_table(isa);
  if (!table.ok()) {
    std::fprintf(stderr, "%s\n", table.status().message().c_str());
    return 1;
  }
  ThreadPool pool(threads);
  layers::ExecContext context(pool, **table);
  auto memory = layers::WeightMemory::create(bytes_needed(format.dtype));
  if (!memory.ok()) {
    std::fprintf(stderr, "%s\n", memory.status().message().c_str());
    return 1;
  }
  Maker maker(format.dtype, context, *memory);
  std::vector<Layer> layers;
  for (int i = 0; i < kLayers; ++i) layers.push_back(maker.layer());
  std::vector<float> x(static_cast<std::size_t>(rows * kHidden)), out(x.size());
  Rng rng(2);
  const layers::LinearInput input{.x = x.data(), .stride = kHidden, .rows = rows, .cols = kHidden};
  std::vector<double> sparse, dense, routed;
  for (int turn = -1; turn < turns; ++turn) {
    double times[3] = {};
    const int passes = rows == 1 ? 8 : 1;
    for (int pass = 0; pass < passes; ++pass) {
      for (float& value : x) value = static_cast<float>(rng.normal());
      const auto timed = [&](int which, auto&& run_layer) {
        const double start = now();
        for (const Layer& layer : layers) run_layer(layer);
        times[which] += (now() - start) / (passes * kLayers);
      };
      timed(0, [&](const Layer& layer) { layer.moe.run(context, 0, input, out.data(), kHidden, false); });
      timed(1, [&](const Layer& layer) { layer.dense.run(context, input, out.data(), kHidden, false); });
      timed(2, [&](const Layer& layer) { layer.moe.route(context, 0, input); });
    }
    if (turn < 0) continue;
    sparse.push_back(times[0]), dense.push_back(times[1]), routed.push_back(times[2]);
  }
  const double a = median(sparse), b = median(dense), r = median(routed);
  const layers::Moe& moe = layers.front().moe;
  const auto bytes = [](const Linear& gate, const Linear& up, const Linear& down) {
    return 1e-9 * static_cast<double>(gate.weight_bytes() + up.weight_bytes() + down.weight_bytes());
  };
  const double operations = 2e-9 * static_cast<double>(kActive * rows);
  const double sparse_work = rows > 1 ? operations
                                      : bytes(moe.shared.gate, moe.shared.up, moe.shared.down) +
                                            kUsed * bytes(moe.gate[0], moe.up[0], moe.down[0]);
  const layers::Ffn& ffn = layers.front().dense;
  const double dense_work = rows > 1 ? operations : bytes(ffn.gate, ffn.up, ffn.down);
  std::printf("| %s | %s | %lld | %.3f ms | %.3f ms | %.1f | %.1f %s | %.0f%% | %.2f%% |", format.name.data(),
              (*table)->name.data(), static_cast<long long>(rows), 1e3 * a, 1e3 * b, sparse_work / a,
              dense_work / b, rows == 1 ? "GB/s" : "Gop/s", 100 * (sparse_work / a) / (dense_work / b),
              100 * r / a);
  if (rows == 1) std::printf(" %.1f GB/s |", engine::read_rate(pool, memory->used(), engine::Pick::median));
  std::printf("\n");
  return 0;
}

}  // namespace
}  // namespace lithe

int main(int argc, char** argv) {
  auto isa = lithe::kernels::available_isas().back();
  int threads = lithe::default_threads(), turns = 5;
  long rows = 512;
  std::string weights = "q8_0";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--threads") threads = std::atoi(argv[i + 1]);
    if (flag == "--rows") rows = std::atol(argv[i + 1]);
    if (flag == "--turns") turns = std::atoi(argv[i + 1]);
    if (flag == "--weights") weights = argv[i + 1];
    if (flag == "--isa") {
      for (const auto candidate : lithe::kernels::available_isas()) {
        if (lithe::kernels::isa_name(candidate) == argv[i + 1]) isa = candidate;
      }
    }
  }
  const lithe::BlockFormat* format = lithe::find_format(weights);
  if (format == nullptr || threads < 1 || rows < 1 || turns < 1) {
    std::fprintf(stderr, "moe_bench [--isa NAME] [--threads N] [--weights FORMAT] [--rows N] [--turns N]\n");
    return 2;
  }
  return lithe::run(isa, threads, *format, rows, turns);
}
