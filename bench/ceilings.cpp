#include "ceilings.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lithe::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

#if defined(__x86_64__)
constexpr int kChains = 12;  // latency 4, two units: 8 would do
constexpr int kSteps = 200'000;

__attribute__((target("avx512f"))) float fma_avx512() {
  __m512 x[kChains];
  for (int i = 0; i < kChains; ++i) x[i] = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) x[i] = _mm512_fmadd_ps(x[i], a, b);
  }
  for (int i = 1; i < kChains; ++i) x[0] = _mm512_add_ps(x[0], x[i]);
  float lanes[16];
  _mm512_storeu_ps(lanes, x[0]);
  return lanes[0];
}

__attribute__((target("avx2,fma"))) float fma_avx2() {
  __m256 x[kChains];
  for (int i = 0; i < kChains; ++i) x[i] = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) x[i] = _mm256_fmadd_ps(x[i], a, b);
  }
  for (int i = 1; i < kChains; ++i) x[0] = _mm256_add_ps(x[0], x[i]);
  float lanes[8];
  _mm256_storeu_ps(lanes, x[0]);
  return lanes[0];
}
#endif

}  // namespace

double fma_gflops([[maybe_unused]] kernels::Isa isa, [[maybe_unused]] ThreadPool& pool) {
#if defined(__x86_64__)
  float (*run)() = isa == kernels::Isa::avx512 ? fma_avx512 : isa == kernels::Isa::avx2 ? fma_avx2 : nullptr;
  if (run == nullptr) return 0;
  const int lanes = isa == kernels::Isa::avx512 ? 16 : 8;
  double best = 0;
  std::atomic<float> sink{0};
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int) { sink = run(); });
    best = std::max(best, 2.0 * lanes * kChains * kSteps * pool.size() / seconds_since(start) / 1e9);
  }
  return best;
#else
  return 0;
#endif
}

double read_gbs(std::size_t bytes, ThreadPool& pool) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  const auto* words = static_cast<const std::uint64_t*>(memory);
  const std::size_t part = bytes / 8 / static_cast<std::size_t>(pool.size()) / 8 * 8;
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(pool.size()) * 8);
  double best = 0;
  for (int round = 0; round < 12; ++round) {
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int worker) {
      typedef std::uint64_t Line __attribute__((vector_size(64)));
      const auto* line = reinterpret_cast<const Line*>(words + static_cast<std::size_t>(worker) * part);
      Line a{}, b{}, c{}, d{};
      for (std::size_t i = 0; i + 4 <= part / 8; i += 4) {
        a += line[i];
        b += line[i + 1];
        c += line[i + 2];
        d += line[i + 3];
      }
      a += b + c + d;
      sums[static_cast<std::size_t>(worker) * 8] += a[0] + a[3];
    });
    best = std::max(best, static_cast<double>(part * 8 * static_cast<std::size_t>(pool.size())) /
                              seconds_since(start) / 1e9);
  }
  munmap(memory, bytes);
  return sums[0] == 0 ? 0 : best;
}

}  // namespace lithe::bench
