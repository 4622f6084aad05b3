// How fast attention runs, and which share of the machine that is.
//
//   attention_bench [--isa avx512] [--threads 2] [--model smollm|llama1b] [--kv f16] [--what prefill|decode]
//                  [--tokens 2048]  (this length alone)
//                  [--clock cpu]   (with one thread: CPU time, for a machine that others use too)
//
// prefill: GFLOP/s counts 2 * (key_dim + value_dim) for every visible (query, key) pair; the share is of the FMA peak
// measured in the same run. decode: bytes of keys and values that one token of one sequence must read, all layers;
// the share is of reading as many bytes in order. Every layer has its own pages, as in a model.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/rng.h"
#include "engine/ceilings.h"
#include "kernels/kernel_table.h"
#include "kernels/kv_layout.h"
#include "kvcache/kv_pool.h"
#include "layers/attention.h"

namespace lithe {
namespace {

using kernels::AttentionJob;

struct Shape {
  const char* name;
  int layers, heads, kv_heads, head_dim;
};
constexpr Shape kShapes[] = {{"smollm", 30, 9, 3, 64}, {"llama1b", 16, 32, 8, 64}};

const char* name_of(DType dtype) {
  return dtype == DType::f32 ? "f32" : dtype == DType::f16 ? "f16" : "q8_0";
}

bool cpu_clock = false;  // set once, by main

double now() {
  timespec time;
  clock_gettime(cpu_clock ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The best of many, as for the ceilings: what the code can do, not what the neighbours leave.
template <typename F>
double best_seconds(F run) {
  std::vector<double> times;
  double total = 0;
  while (times.size() < 5 || (total < 0.6 && times.size() < 60)) {
    const double start = now();
    run();
    times.push_back(now() - start);
    total += times.back();
  }
  std::sort(times.begin(), times.end());
  return times.front();
}

class Bench {
 public:
  Bench(const Shape& shape, DType dtype, const kernels::KernelTable& table, ThreadPool& pool,
        std::int64_t tokens)
      : shape_(shape), context_(pool, table) {
    kv_ = {dtype, shape.kv_heads, shape.head_dim, shape.head_dim};
    layer_bytes_ = kernels::kv_layer_bytes(kv_);
    auto pages = kvcache::PagePool::create(layer_bytes_ * static_cast<std::size_t>(shape.layers),
                                           (tokens + kernels::kPageTokens - 1) / kernels::kPageTokens + 64,
                                           kernels::kPageTokens);
    pool_ = std::make_unique<kvcache::PagePool>(std::move(*pages));
    Rng rng(1);
    const auto row = static_cast<std::size_t>(shape.heads * shape.head_dim);
    q_.resize(4096 * row);
    out_.resize(q_.size());
    for (float& x : q_) x = static_cast<float>(rng.normal());
  }

  kvcache::SequenceCache sequence(std::int64_t tokens) {
    kvcache::SequenceCache cache(*pool_);
    if (!cache.reserve(tokens).ok()) std::abort();
    const std::int64_t stride = shape_.kv_heads * shape_.head_dim;
    std::vector<float> kv(q_.begin(), q_.begin() + 64 * stride);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      for (std::int64_t t = 0; t < tokens; t += 64) {
        context_.kernels().attention.store(view(cache, layer), kv.data(), stride, kv.data(), stride, t,
                                           std::min<std::int64_t>(64, tokens - t));
      }
    }
    cache.commit(tokens);
    return cache;
  }

  kernels::KvView view(const kvcache::SequenceCache& cache, int layer) {
    return {kv_, pool_->base() + layer_bytes_ * static_cast<std::size_t>(layer), pool_->page_bytes(),
            cache.pages().data()};
  }

  // Seconds of attention over all layers for `rows` new tokens of each sequence.
  double time(std::span<const kvcache::SequenceCache> caches, std::int64_t rows, layers::AttentionMode mode) {
    std::vector<AttentionJob> jobs(caches.size());
    const std::int64_t stride = shape_.heads * shape_.head_dim;
    return best_seconds([&] {
      for (int layer = 0; layer < shape_.layers; ++layer) {
        for (std::size_t i = 0; i < jobs.size(); ++i) {
          AttentionJob& job = jobs[i];
          job.kv = view(caches[i], layer);
          job.q = q_.data() + static_cast<std::int64_t>(i) * rows * stride;
          job.out = out_.data() + static_cast<std::int64_t>(i) * rows * stride;
          job.q_stride = job.out_stride = stride;
          job.q_heads = shape_.heads;
          job.rows = rows;
          job.key_count = caches[i].length();
          job.first_position = job.key_count - rows;
          job.scale = 0.125f;
        }
        layers::attention(context_, mode, jobs);
      }
    });
  }

  double kv_bytes(std::int64_t tokens) const {
    return static_cast<double>(tokens) / kernels::kPageTokens * static_cast<double>(layer_bytes_) *
           shape_.layers;
  }
  double flops(std::int64_t rows, std::int64_t tokens) const {
    const double pairs = static_cast<double>(rows) *
                         (static_cast<double>(tokens - rows) + 0.5 * static_cast<double>(rows + 1));
    return pairs * 4.0 * shape_.head_dim * shape_.heads * shape_.layers;
  }
  std::uint64_t peak_bytes() const { return context_.peak_attention_bytes(); }

 private:
  Shape shape_;
  layers::ExecContext context_;
  kernels::KvShape kv_;
  std::size_t layer_bytes_ = 0;
  std::unique_ptr<kvcache::PagePool> pool_;
  std::vector<float> q_, out_;
};

struct Options {
  std::string isa, model = "smollm", kv, what;
  std::int64_t tokens = 0;
  int threads = default_threads();
};

void prefill(const Options& options, const Shape& shape, DType dtype, const kernels::KernelTable& table,
             ThreadPool& pool) {
  const double peak = engine::f32_peak(pool, table.isa, engine::Pick::best);
  using layers::AttentionMode;
  for (const std::int64_t rows : {512, 2048}) {
    if (options.tokens != 0 && options.tokens != rows) continue;
    Bench bench(shape, dtype, table, pool, rows);
    std::vector<kvcache::SequenceCache> caches;
    caches.push_back(bench.sequence(rows));
    for (const auto mode : {AttentionMode::flash, AttentionMode::naive, AttentionMode::chunked}) {
      if (mode != AttentionMode::flash && (options.what != "prefill" || dtype != DType::f16)) continue;
      const double seconds = bench.time(caches, rows, mode);
      const double gflops = bench.flops(rows, rows) / seconds / 1e9;
      const char* name = mode == AttentionMode::flash   ? "flash"
                         : mode == AttentionMode::naive ? "naive"
                                                        : "chunked";
      std::printf(
          "| %-9s | %-7s | %-4s | prefill %4lld %-7s | %8.2f ms | %7.1f GFLOP/s | %5.1f%% of %.0f | %.1f MiB "
          "|\n",
          table.name.data(), shape.name, name_of(dtype), static_cast<long long>(rows), name, seconds * 1e3,
          gflops, 100 * gflops / peak, peak, static_cast<double>(bench.peak_bytes()) / (1 << 20));
    }
  }
}

void decode(const Options& options, const Shape& shape, DType dtype, const kernels::KernelTable& table,
            ThreadPool& pool) {
  for (const std::int64_t depth : {128, 1024, 2048, 4096}) {
    if (options.tokens != 0 && options.tokens != depth) continue;
    Bench bench(shape, dtype, table, pool, depth);
    std::vector<kvcache::SequenceCache> caches;
    caches.push_back(bench.sequence(depth));
    const double seconds = bench.time(caches, 1, layers::AttentionMode::flash);
    const double bytes = bench.kv_bytes(depth), gbs = bytes / seconds / 1e9;
    const double ceiling = engine::read_rate(pool, static_cast<std::uint64_t>(bytes), engine::Pick::best);
    std::printf(
        "| %-9s | %-7s | %-4s | decode at %5lld       | %8.3f ms | %7.1f GB/s    | %5.1f%% of %.0f |\n",
        table.name.data(), shape.name, name_of(dtype), static_cast<long long>(depth), seconds * 1e3, gbs,
        100 * gbs / ceiling, ceiling);
  }
  if (options.tokens != 0) return;
  Bench bench(shape, dtype, table, pool, 32 * 256);
  std::vector<kvcache::SequenceCache> caches;
  for (int i = 0; i < 32; ++i) caches.push_back(bench.sequence(192));
  const double seconds = bench.time(caches, 1, layers::AttentionMode::flash);
  const double bytes = 32 * bench.kv_bytes(192), gbs = bytes / seconds / 1e9;
  const double ceiling = engine::read_rate(pool, static_cast<std::uint64_t>(bytes), engine::Pick::best);
  std::printf("| %-9s | %-7s | %-4s | decode 32 x 192       | %8.3f ms | %7.1f GB/s    | %5.1f%% of %.0f |\n",
              table.name.data(), shape.name, name_of(dtype), seconds * 1e3, gbs, 100 * gbs / ceiling,
              ceiling);
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--isa")
      options.isa = value;
    else if (flag == "--threads")
      options.threads = std::max(1, std::atoi(value.c_str()));
    else if (flag == "--model")
      options.model = value;
    else if (flag == "--kv")
      options.kv = value;
    else if (flag == "--what")
      options.what = value;
    else if (flag == "--tokens")
      options.tokens = std::atoll(value.c_str());
    else if (flag == "--clock")
      cpu_clock = value == "cpu";
    else
      return std::fprintf(stderr, "no flag %s\n", flag.c_str()), 2;
  }
  ThreadPool pool(options.threads);
  std::printf("%s, %d threads\n", cpu_model().c_str(), options.threads);
  for (const kernels::Isa isa : kernels::available_isas()) {
    if (options.isa.empty() ? isa != kernels::available_isas().back() : options.isa != kernels::isa_name(isa))
      continue;
    for (const Shape& shape : kShapes) {
      if (options.model != shape.name) continue;
      for (const DType dtype : {DType::f32, DType::f16, DType::q8_0}) {
        if (!options.kv.empty() && options.kv != name_of(dtype)) continue;
        const kernels::KernelTable& table = **kernels::kernel_table(isa);
        if (options.what != "decode") prefill(options, shape, dtype, table, pool);
        if (options.what != "prefill" && options.what != "flash") decode(options, shape, dtype, table, pool);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace lithe

int main(int argc, char** argv) {
  return lithe::run(argc, argv);
}
