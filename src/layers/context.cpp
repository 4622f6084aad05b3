#include "layers/context.h"

#include <new>

namespace lithe::layers {

ExecContext::ExecContext(ThreadPool& pool, const kernels::KernelTable& kernels)
    : pool_(&pool),
      kernels_(&kernels),
      shares_(pool.size()),
      worker_scratch_(static_cast<std::size_t>(pool.size())) {
  reserve_worker_scratch(kLeastWorkerScratch);
}

void ExecContext::reserve_worker_scratch(std::size_t bytes) {
  if (bytes <= worker_bytes_) return;
  if (!grow_worker_scratch(bytes).ok()) throw std::bad_alloc();
}

Status ExecContext::grow_worker_scratch(std::size_t bytes) {
  worker_bytes_ = 0;  // if it fails half way, the next pass tries again
  for (PageBuffer& buffer : worker_scratch_) {
    buffer = PageBuffer();  // first, so that the old and the new never need room together
    LITHE_ASSIGN_OR_RETURN(buffer, PageBuffer::create(bytes));
  }
  worker_bytes_ = bytes;
  return {};
}

Status ExecContext::reserve(const ScratchNeed& need) {
  arena_.reset();
  LITHE_RETURN_IF_ERROR(arena_.reserve(need.arena));
  if (need.per_worker <= worker_bytes_) return {};
  return grow_worker_scratch(need.per_worker);
}

}  // namespace lithe::layers
