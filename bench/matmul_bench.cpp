// How fast the matrix products run, and which share of the machine that is.
//
//   matmul_bench [--isa avx512] [--threads 2] [--rows 512] [--weights q8_0] [--x int8]   (all formats, shapes of the 135M and the 1B model)
//
// Rows > 4: Gop/s (2 * rows * outputs * columns) against the peak of f32 FMAs (f32 arithmetic) or of the 8-bit dot
// product (int8), both measured in the same run. Few rows: the bytes of packed weights over the time against reading
// as many bytes in order. Best of many runs: what the code can do, not what the neighbours leave.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/rng.h"
#include "engine/ceilings.h"
#include "kernels/kernel_table.h"

namespace lithe {
namespace {

using namespace kernels;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename F>
double best_seconds(F run) {
  double best = 1e30, total = 0;
  for (int i = 0; i < 5 || (total < 0.4 && i < 400); ++i) {
    const double start = now();
    run();
    const double time = now() - start;
    best = std::min(best, time);
    total += time;
  }
  return best;
}

const char* arithmetic_name(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::int8 ? "int8" : arithmetic == Arithmetic::f32 ? "f32" : "bf16";
}

struct Aligned {
  explicit Aligned(std::size_t size)
      : bytes(size), data(static_cast<std::byte*>(operator new(size, std::align_val_t(4096)))) {}
  ~Aligned() { operator delete(data, std::align_val_t(4096)); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  std::size_t bytes;
  std::byte* data;
};

struct Bench {
  const KernelTable& table;
  ThreadPool& pool;

  void run(DType dtype, Arithmetic arithmetic, std::int64_t n, std::int64_t k, std::int64_t rows) const {
    Rng rng(1);
    const auto row = static_cast<std::size_t>(*row_bytes(dtype, static_cast<std::uint64_t>(k)));
    PackedMatrix w = {dtype, n, k, nullptr, packed_panel_bytes(dtype, k)};
    Aligned packed(w.panel_bytes * static_cast<std::size_t>(w.panels()));
    std::vector<float> values(static_cast<std::size_t>(std::max(rows, std::int64_t{kPanelRows}) * k));
    for (auto& value : values) value = static_cast<float>(rng.uniform() - 0.5);
    std::vector<std::byte> source(row * kPanelRows);
    block_format(dtype).encode(values.data(), kPanelRows * k, source.data());
    for (std::int64_t p = 0; p < w.panels(); ++p) {
      pack_panel(dtype, source.data(), row, kPanelRows, k,
                 packed.data + static_cast<std::size_t>(p) * w.panel_bytes);
    }
    w.data = packed.data;
    const std::size_t x_bytes = table.activation_bytes(arithmetic, k);
    Aligned x(x_bytes * static_cast<std::size_t>(rows));
    table.prepare(arithmetic, values.data(), k, rows, k, x.data);
    std::vector<float> out(static_cast<std::size_t>(rows * n));
    const std::size_t scratch_bytes = (table.matmul_scratch_bytes() + 4095) / 4096 * 4096;
    Aligned scratch(scratch_bytes * static_cast<std::size_t>(pool.size()));
    const double time = best_seconds([&] {
      pool.run([&](int worker) {
        MatmulJob job;
        job.weights = w;
        job.x = {arithmetic, rows, k, x.data, x_bytes};
        job.out = out.data();
        job.out_stride = n;
        job.row_end = rows;
        job.panel_begin = w.panels() * worker / pool.size();
        job.panel_end = w.panels() * (worker + 1) / pool.size();
        job.scratch = {scratch.data + static_cast<std::size_t>(worker) * scratch_bytes, scratch_bytes};
        table.matmul(job);
      });
    });
    const double gops = 2e-9 * static_cast<double>(rows * n * k) / time;
    const double gbs = 1e-9 * static_cast<double>(packed.bytes) / time;
    double peak = 0;  // measured right here: on a shared machine it is not the same a minute later
    if (rows > 4 && arithmetic == Arithmetic::int8)
      peak = engine::int8_peak(pool, table.isa, engine::Pick::best);
    if (rows > 4 && arithmetic == Arithmetic::f32)
      peak = engine::f32_peak(pool, table.isa, engine::Pick::best);
    std::printf("| %s | %s | %lld x %lld | %lld | %.0f | %.1f |", block_format(dtype).name.data(),
                arithmetic_name(arithmetic), static_cast<long long>(n), static_cast<long long>(k),
                static_cast<long long>(rows), gops, gbs);
    if (rows > 4 && peak > 0) std::printf(" %.0f%% of %.0f Gop/s |\n", 100 * gops / peak, peak);
    if (rows > 4 && peak <= 0) std::printf(" |\n");
    if (rows <= 4) {
      const double ceiling = engine::read_rate(pool, packed.bytes, engine::Pick::best);
      std::printf(" %.0f%% of %.1f GB/s |\n", 100 * gbs / ceiling, ceiling);
    }
  }
};

/// The plain product of two square float matrices: a calibrator's daily bread. Each worker takes a stretch of rows.
void run_sgemm(const KernelTable& table, ThreadPool& pool, std::int64_t n) {
  const auto size = static_cast<std::size_t>(n * n);
  std::vector<float> a(size, 0.5f), b(size, 0.25f), c(size);
  const std::size_t scratch_bytes = (table.matmul_scratch_bytes() + 4095) / 4096 * 4096;
  Aligned scratch(scratch_bytes * static_cast<std::size_t>(pool.size()));
  const double time = best_seconds([&] {
    pool.run([&](int worker) {
      const std::int64_t begin = n * worker / pool.size(), end = n * (worker + 1) / pool.size();
      table.sgemm(end - begin, n, n, a.data() + begin * n, n, b.data(), n, c.data() + begin * n, n, false,
                  {scratch.data + static_cast<std::size_t>(worker) * scratch_bytes, scratch_bytes});
    });
  });
  const double gflops = 2e-9 * static_cast<double>(n * n * n) / time;
  const double peak = engine::f32_peak(pool, table.isa, engine::Pick::best);
  std::printf("| sgemm | f32 | %lld x %lld | %lld | %.0f | - | %.0f%% of %.0f Gop/s |\n",
              static_cast<long long>(n), static_cast<long long>(n), static_cast<long long>(n), gflops,
              100 * gflops / peak, peak);
}

int run_all(Isa isa, int threads, std::int64_t rows, std::string_view weights, std::string_view x) {
  const auto table = kernel_table(isa);
  if (!table.ok()) {
    std::fprintf(stderr, "%s\n", table.status().message().c_str());
    return 1;
  }
  ThreadPool pool(threads);
  const Bench bench = {**table, pool};
  std::printf("%s, %s, %d threads\n\n", cpu_model().c_str(), (*table)->name.data(), threads);
  std::printf("| weights | x | shape | rows | Gop/s | GB/s | share |\n|---|---|---|---|---|---|---|\n");
  constexpr std::int64_t kShapes[][2] = {{1536, 576}, {576, 1536}, {2048, 2048}, {2048, 8192}};
  for (const BlockFormat& format : block_formats()) {
    for (const auto& [n, k] : kShapes) {
      if (k % format.block_elems != 0 || (!weights.empty() && weights != format.name)) continue;
      for (const Arithmetic arithmetic : {Arithmetic::f32, Arithmetic::bf16, Arithmetic::int8}) {
        const bool legal =
            arithmetic == Arithmetic::f32 || (arithmetic == Arithmetic::int8 && format.quantized()) ||
            (arithmetic == Arithmetic::bf16 && format.dtype == DType::bf16 && (*table)->runs_bf16);
        if (!x.empty() && x != arithmetic_name(arithmetic)) continue;
        if (legal) bench.run(format.dtype, arithmetic, n, k, rows);
      }
    }
  }
  if (!weights.empty() && weights != "sgemm") return 0;
  for (const std::int64_t n : {576, 1024, 2048}) run_sgemm(**table, pool, n);
  return 0;
}

}  // namespace
}  // namespace lithe

int main(int argc, char** argv) {
  auto isa = lithe::kernels::available_isas().back();
  int threads = lithe::default_threads();
  long rows = 512;
  std::string weights, x;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--threads") threads = std::atoi(argv[i + 1]);
    if (flag == "--rows") rows = std::atol(argv[i + 1]);
    if (flag == "--weights") weights = argv[i + 1];
    if (flag == "--x") x = argv[i + 1];
    if (flag == "--isa") {
      for (const auto candidate : lithe::kernels::available_isas()) {
        if (lithe::kernels::isa_name(candidate) == argv[i + 1]) isa = candidate;
      }
    }
  }
  if (threads < 1 || rows < 1) {
    std::fprintf(
        stderr,
        "matmul_bench [--isa NAME] [--threads N] [--rows N] [--weights FORMAT|sgemm] [--x int8|f32|bf16]\n");
    return 2;
  }
  return lithe::run_all(isa, threads, rows, weights, x);
}
