#include "engine/ceilings.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "base/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lithe::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepetitions = 5;
constexpr std::int64_t kIterations = 1'000'000;  // of 12 independent instructions: a few milliseconds

/// The median time of `body` on all workers at once.
double median_seconds(ThreadPool& pool, FunctionRef<void(int worker)> body) {
  pool.run(body);  // wakes threads, touches pages, raises clocks
  std::vector<double> times;
  for (int i = 0; i < kRepetitions; ++i) {
    const auto start = Clock::now();
    pool.run(body);
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + kRepetitions / 2, times.end());
  return times[kRepetitions / 2];
}

// Each instruction chain keeps 12 accumulators, more than latency x units of any core here, and hides its operands from
// the optimiser. The intrinsics stay in these few functions, whatever the rest of the file is compiled for.
#if defined(__x86_64__)

#define LITHE_OPAQUE(x) asm volatile("" : "+v"(x))
#define LITHE_TWELVE(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)

/// NAME(n): n rounds of STEP on 12 accumulators of TYPE, initially INIT. `x` is an operand of that type.
#define LITHE_CHAIN(NAME, TARGET, TYPE, INIT, STEP)                          \
  __attribute__((target(TARGET), noinline)) void NAME(std::int64_t rounds) { \
    TYPE x = INIT;                                                           \
    LITHE_OPAQUE(x);                                                         \
    TYPE a[12];                                                              \
    for (auto& accumulator : a) accumulator = x;                             \
    for (std::int64_t i = 0; i < rounds; ++i) {                              \
      LITHE_TWELVE(STEP)                                                     \
    }                                                                        \
    for (auto& accumulator : a) LITHE_OPAQUE(accumulator);                   \
  }

#define LITHE_STEP(k) a[k] = _mm512_fmadd_ps(x, x, a[k]);
LITHE_CHAIN(f32_avx512, "avx512f", __m512, _mm512_set1_ps(1e-3f), LITHE_STEP)
#undef LITHE_STEP
#define LITHE_STEP(k) a[k] = _mm256_fmadd_ps(x, x, a[k]);
LITHE_CHAIN(f32_avx2, "avx2,fma", __m256, _mm256_set1_ps(1e-3f), LITHE_STEP)
#undef LITHE_STEP
#define LITHE_STEP(k) a[k] = _mm512_dpbusd_epi32(a[k], x, x);
LITHE_CHAIN(int8_vnni512, "avx512f,avx512bw,avx512vnni", __m512i, _mm512_set1_epi8(3), LITHE_STEP)
#undef LITHE_STEP
#define LITHE_STEP(k) \
  a[k] = _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(a[k]), (__m512bh)x, (__m512bh)x));
LITHE_CHAIN(bf16_avx512, "avx512f,avx512bf16", __m512i, _mm512_set1_epi16(0x3a80), LITHE_STEP)
#undef LITHE_STEP

/// The best mix AVX2 has: four maddubs summed in 16 bits, widened by one madd.
__attribute__((target("avx2"), noinline)) void int8_avx2(std::int64_t rounds) {
  __m256i x = _mm256_set1_epi8(3), one = _mm256_set1_epi16(1);
  LITHE_OPAQUE(x);
  LITHE_OPAQUE(one);
  __m256i a[6];
  for (auto& accumulator : a) accumulator = x;
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (auto& accumulator : a) {
      __m256i p = x, q = x, r = x, s = x;
      LITHE_OPAQUE(p);
      LITHE_OPAQUE(q);
      LITHE_OPAQUE(r);
      LITHE_OPAQUE(s);
      const __m256i left = _mm256_add_epi16(_mm256_maddubs_epi16(p, x), _mm256_maddubs_epi16(q, x));
      const __m256i right = _mm256_add_epi16(_mm256_maddubs_epi16(r, x), _mm256_maddubs_epi16(s, x));
      accumulator = _mm256_add_epi32(accumulator, _mm256_madd_epi16(_mm256_add_epi16(left, right), one));
    }
  }
  for (auto& accumulator : a) LITHE_OPAQUE(accumulator);
}

#undef LITHE_CHAIN
#undef LITHE_TWELVE

#endif

/// Plain loops that any compiler vectorises for its baseline: NEON, SSE2.
__attribute__((noinline)) void f32_plain(std::int64_t rounds) {
  float a[64];
  std::fill(std::begin(a), std::end(a), 1e-3f);
  float x = 1e-3f;
  asm volatile("" : "+m"(x));
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (float& accumulator : a) accumulator = accumulator * x + x;
  }
  asm volatile("" : : "m"(a));
}

double rate(ThreadPool& pool, double operations_a_round, void (*chain)(std::int64_t)) {
  const double seconds = median_seconds(pool, [&](int) { chain(kIterations); });
  return operations_a_round * static_cast<double>(kIterations) * pool.size() / seconds / 1e9;
}

/// Reads a private share of a buffer on each worker, in four streams.
double read_rate(ThreadPool& pool, std::uint64_t bytes, int passes) {
  const std::size_t share =
      static_cast<std::size_t>(bytes) / static_cast<std::size_t>(pool.size()) / 4096 * 4096;
  const std::size_t words = share / sizeof(std::uint64_t);
  if (words == 0) return 0;
  std::vector<std::unique_ptr<std::uint64_t[]>> buffers(static_cast<std::size_t>(pool.size()));
  pool.run([&](int worker) {
    auto& buffer = buffers[static_cast<std::size_t>(worker)];
    buffer.reset(new std::uint64_t[words]);
    std::memset(buffer.get(), worker + 1, share);
  });
  const auto body = [&](int worker) {
    const std::uint64_t* p = buffers[static_cast<std::size_t>(worker)].get();
    for (int pass = 0; pass < passes; ++pass) {
      constexpr std::size_t kLanes =
          32;  // 256 bytes a round: enough for the compiler to keep several loads in flight
      std::uint64_t sums[kLanes] = {};
      for (std::size_t i = 0; i + kLanes <= words; i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] ^= p[i + lane];
      }
      asm volatile("" : : "m"(sums));
    }
  };
  const double seconds = median_seconds(pool, body);
  return static_cast<double>(share) * passes * pool.size() / seconds / 1e9;
}

}  // namespace

Ceilings measure_ceilings(ThreadPool& pool, kernels::Isa isa, std::uint64_t weight_bytes) {
  Ceilings out;
  const long cache = std::max(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0L);
  const std::uint64_t wanted = std::max<std::uint64_t>(4 * static_cast<std::uint64_t>(cache), 256u << 20);
  const std::uint64_t most = std::min<std::uint64_t>(std::uint64_t{1} << 30, available_memory() / 4);
  out.dram_gbs = read_rate(pool, std::min(wanted, most), 1);
  out.resident_bytes = std::min(weight_bytes, most);
  const auto passes = static_cast<int>(
      std::clamp<std::uint64_t>((256u << 20) / std::max<std::uint64_t>(out.resident_bytes, 1), 1, 64));
  out.resident_gbs = read_rate(pool, out.resident_bytes, passes);
#if defined(__x86_64__)
  if (isa == kernels::Isa::avx512) {
    out.f32_gflops = rate(pool, 12 * 32, f32_avx512);
    if (__builtin_cpu_supports("avx512vnni")) out.int8_gops = rate(pool, 12 * 128, int8_vnni512);
    if (__builtin_cpu_supports("avx512bf16")) out.bf16_gflops = rate(pool, 12 * 64, bf16_avx512);
    return out;
  }
  if (isa == kernels::Isa::avx2) {
    out.f32_gflops = rate(pool, 12 * 16, f32_avx2);
    out.int8_gops = rate(pool, 6 * 4 * 64, int8_avx2);
    return out;
  }
#else
  (void)isa;
#endif
  out.f32_gflops = rate(pool, 64 * 2, f32_plain);
  return out;
}

std::string machine_class() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni")) return "V";
  if (__builtin_cpu_supports("avx2")) return "A";
#elif defined(__aarch64__)
  return "N";
#endif
  return "-";
}

}  // namespace lithe::engine
