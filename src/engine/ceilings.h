// What this machine could do at best, measured in the same run as what was reached: reading memory, and multiply-adds of
// the instruction set in use. About a second in all.
#pragma once

#include <cstdint>
#include <string>

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"

namespace lithe::engine {

struct Ceilings {
  double dram_gbs = 0;  // reading a buffer well beyond the caches, in 10^9 bytes a second
  double resident_gbs =
      0;  // reading a buffer as large as the weights, again and again: caches help as they can
  double f32_gflops = 0;   // fused multiply-adds; an operation is a multiply or an add
  double bf16_gflops = 0;  // 0: no unit for it
  double int8_gops = 0;    // the best instruction mix of the set; 0: not measured on this instruction set
  std::uint64_t resident_bytes = 0;
};

/// Which of the repetitions counts: the middle one beside other medians, the best one beside other bests.
enum class Pick : std::uint8_t { median, best };

/// Multiply-adds of all workers together with the best instructions of `isa`, in 10^9 operations a second; 0: it has none.
double f32_peak(ThreadPool& pool, kernels::Isa isa, Pick pick = Pick::median);
double bf16_peak(ThreadPool& pool, kernels::Isa isa, Pick pick = Pick::median);
double int8_peak(ThreadPool& pool, kernels::Isa isa, Pick pick = Pick::median);

/// Reading `bytes` in order and, when they are few, over and over, each worker its own share, in huge pages;
/// 10^9 bytes a second. 0: no memory.
double read_rate(ThreadPool& pool, std::uint64_t bytes, Pick pick = Pick::median);

/// Medians over a few repetitions on all workers of the pool.
Ceilings measure_ceilings(ThreadPool& pool, kernels::Isa isa, std::uint64_t weight_bytes);

/// "V" = AVX-512 with VNNI, "A" = AVX2, "N" = NEON, "-" = anything else: the classes of docs/performance.md.
std::string machine_class();

}  // namespace lithe::engine
