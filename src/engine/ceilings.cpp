#include "engine/ceilings.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/cpu.h"
#include "layers/memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lithe::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepetitions = 5, kBestOf = 20;
constexpr std::uint64_t kLeastRead = 256u << 20;
constexpr std::int64_t kIterations = 1'000'000;  // of 12 independent instructions: a few milliseconds

/// The time of `body` on all workers at once.
double seconds(ThreadPool& pool, Pick pick, FunctionRef<void(int worker)> body) {
  pool.run(body);  // wakes threads, touches pages, raises clocks
  std::vector<double> times(pick == Pick::best ? kBestOf : kRepetitions);
  for (double& time : times) {
    const auto start = Clock::now();
    pool.run(body);
    time = std::chrono::duration<double>(Clock::now() - start).count();
  }
  if (pick == Pick::best) return *std::ranges::min_element(times);
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

double rate(ThreadPool& pool, Pick pick, double operations_a_round, void (*chain)(std::int64_t)) {
  const double time = seconds(pool, pick, [&](int) { chain(kIterations); });
  return operations_a_round * static_cast<double>(kIterations) * pool.size() / time / 1e9;
}

}  // namespace

double f32_peak(ThreadPool& pool, [[maybe_unused]] kernels::Isa isa, Pick pick) {
#if defined(__x86_64__)
  if (isa == kernels::Isa::avx512) return rate(pool, pick, 12 * 32, f32_avx512);
  if (isa == kernels::Isa::avx2) return rate(pool, pick, 12 * 16, f32_avx2);
#endif
  return rate(pool, pick, 64 * 2, f32_plain);
}

double bf16_peak([[maybe_unused]] ThreadPool& pool, [[maybe_unused]] kernels::Isa isa,
                 [[maybe_unused]] Pick pick) {
#if defined(__x86_64__)
  if (isa == kernels::Isa::avx512 && __builtin_cpu_supports("avx512bf16")) {
    return rate(pool, pick, 12 * 64, bf16_avx512);
  }
#endif
  return 0;
}

double int8_peak([[maybe_unused]] ThreadPool& pool, [[maybe_unused]] kernels::Isa isa,
                 [[maybe_unused]] Pick pick) {
#if defined(__x86_64__)
  if (isa == kernels::Isa::avx512 && __builtin_cpu_supports("avx512vnni")) {
    return rate(pool, pick, 12 * 128, int8_vnni512);
  }
  if (isa == kernels::Isa::avx2) return rate(pool, pick, 6 * 4 * 64, int8_avx2);
#endif
  return 0;
}

double read_rate(ThreadPool& pool, std::uint64_t bytes, Pick pick) {
  const auto workers = static_cast<std::size_t>(pool.size());
  const std::size_t share = static_cast<std::size_t>(bytes) / workers / 4096 * 4096;
  const std::size_t words = share / sizeof(std::uint64_t);
  const auto buffer = layers::PageBuffer::create(share * workers);
  if (words == 0 || !buffer.ok()) return 0;
  const auto part = [&](int worker) {
    return reinterpret_cast<std::uint64_t*>(buffer->data() + static_cast<std::size_t>(worker) * share);
  };
  pool.run([&](int worker) { std::fill_n(part(worker), words, worker + 1); });
  const auto passes = static_cast<int>(std::clamp<std::uint64_t>(kLeastRead / bytes, 1, 64));
  const double time = seconds(pool, pick, [&](int worker) {
    const std::uint64_t* p = part(worker);
    for (int pass = 0; pass < passes; ++pass) {
      // 256 bytes a round: enough for the compiler to keep several loads in flight.
      constexpr std::size_t kLanes = 32;
      std::uint64_t sums[kLanes] = {};
      for (std::size_t i = 0; i + kLanes <= words; i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] ^= p[i + lane];
      }
      asm volatile("" : : "m"(sums));
    }
  });
  return static_cast<double>(share) * passes * pool.size() / time / 1e9;
}

Ceilings measure_ceilings(ThreadPool& pool, kernels::Isa isa, std::uint64_t weight_bytes) {
  Ceilings out;
  const long cache = std::max(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0L);
  const std::uint64_t wanted = std::max<std::uint64_t>(4 * static_cast<std::uint64_t>(cache), kLeastRead);
  const std::uint64_t most = std::min<std::uint64_t>(std::uint64_t{1} << 30, available_memory() / 4);
  out.dram_gbs = read_rate(pool, std::min(wanted, most));
  out.resident_bytes = std::min(weight_bytes, most);
  out.resident_gbs = read_rate(pool, out.resident_bytes);
  out.f32_gflops = f32_peak(pool, isa);
  out.bf16_gflops = bf16_peak(pool, isa);
  out.int8_gops = int8_peak(pool, isa);
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
