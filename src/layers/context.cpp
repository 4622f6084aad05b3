#include "layers/context.h"

#include <utility>

#include "base/check.h"

namespace lithe::layers {

ExecContext::ExecContext(ThreadPool& pool, const kernels::KernelTable& kernels)
    : pool_(&pool),
      kernels_(&kernels),
      shares_(pool.size()),
      worker_scratch_(static_cast<std::size_t>(pool.size())) {
  reserve_worker_scratch(std::size_t{256} << 10);
}

void ExecContext::reserve_worker_scratch(std::size_t bytes) {
  if (bytes <= worker_bytes_) return;
  for (PageBuffer& buffer : worker_scratch_) {
    auto grown = PageBuffer::create(bytes);
    LITHE_CHECK(grown.ok());
    buffer = std::move(*grown);
  }
  worker_bytes_ = bytes;
}

}  // namespace lithe::layers
