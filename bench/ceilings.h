// What this machine gives, measured in the same run as whatever is compared with it.
#pragma once

#include <cstddef>

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"

namespace lithe::bench {

/// f32 fused multiply-adds of all threads together, in GFLOP/s, with the vectors of `isa`; 0 where unknown.
double fma_gflops(kernels::Isa isa, ThreadPool& pool);

/// Reading `bytes` over and over, all threads together, each its own part in order; GB/s. Huge pages.
double read_gbs(std::size_t bytes, ThreadPool& pool);

}  // namespace lithe::bench
