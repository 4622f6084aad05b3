// The paged KV cache: a pool of pages, and per sequence a table of pages with fork, truncate and reference
// counts. Who owns what: the pool owns the bytes; a SequenceCache owns references to pages; a page shared by
// several sequences is never written (copy on write for the last page). Source: PagedAttention (2309.06180)
// section 4. Beside its pages a sequence of a recurrent model has a state of fixed size, which is its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/status.h"

namespace lithe::kvcache {

using PageId = std::int32_t;

class SequenceCache;

/// Memory for `pages` pages of `page_bytes` each: address space reserved at once, memory touched as pages are
/// used (zeros at a page's first use). Not thread-safe: the engine's. Caches point to their pool: do not move
/// it while it has any.
class PagePool {
 public:
  /// page_bytes > 0, a multiple of 64; page_tokens > 0; state_floats: of each sequence. resource_exhausted when the
  /// system refuses the room.
  static Result<PagePool> create(std::size_t page_bytes, std::int64_t pages, int page_tokens,
                                 std::size_t state_floats = 0);
  PagePool(PagePool&&) noexcept;
  PagePool& operator=(PagePool&&) noexcept;
  ~PagePool();

  Result<PageId> allocate();  // resource_exhausted when none is free; reference count 1
  void retain(PageId page);
  void release(PageId page);  // the last reference frees it
  int references(PageId page) const;
  std::byte* data(PageId page);
  std::byte* base();
  std::size_t page_bytes() const;
  int page_tokens() const;
  std::size_t state_floats() const;
  std::int64_t total() const;
  std::int64_t free() const;
  std::int64_t peak_used() const;
  /// free + used = total, every count >= 0: for tests and for an idle engine. internal: says which page is
  /// wrong.
  Status check_integrity() const;

 private:
  friend class SequenceCache;
  struct Impl;
  explicit PagePool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// One sequence's pages. Move-only; gives its pages back, last page first, when destroyed. Must not outlive
/// the pool.
class SequenceCache {
 public:
  explicit SequenceCache(PagePool& pool) : pool_(&pool) {}
  SequenceCache(SequenceCache&&) noexcept;
  SequenceCache& operator=(SequenceCache&&) noexcept;
  ~SequenceCache();

  /// Room for `count` more tokens, writable (a shared last page is copied first). All or nothing: on
  /// resource_exhausted nothing has changed. The room stays writable until the next fork() or truncate().
  Status reserve(std::int64_t count);
  /// The model has stored `count` tokens of the reserved room.
  void commit(std::int64_t count);
  /// Back to the first `length` tokens (speculation's roll-back). Frees whole pages behind. A state has no way back: with
  /// one, anything but the whole length is the beginning, and length() says so. At the beginning there is no state: its
  /// memory is given back, and the next reserve() makes zeros.
  void truncate(std::int64_t length);
  /// A second sequence that shares the pages of all committed tokens and has a copy of the state; reserved room stays
  /// with this one. Both must reserve() before they write again. Where a state finds no memory for its copy, the second
  /// sequence stands at the beginning.
  SequenceCache fork() const;

  std::int64_t length() const { return length_; }
  std::span<const PageId> pages() const { return pages_; }
  PagePool& pool() const { return *pool_; }
  /// [pool().state_floats()] after the first reserve(), aligned to a cache line; zeros before the first token. The model
  /// writes it.
  std::span<float> state() const { return {state_.get(), state_ == nullptr ? 0 : pool_->state_floats()}; }

 private:
  static constexpr std::align_val_t kStateAlignment{64};
  struct FreeState {
    void operator()(float* state) const { ::operator delete(state, kStateAlignment); }
  };
  using State = std::unique_ptr<float[], FreeState>;
  static State new_state(std::size_t floats);
  void release_from(std::size_t first);

  PagePool* pool_;
  std::int64_t length_ = 0;
  std::vector<PageId> pages_;
  State state_;
};

}  // namespace lithe::kvcache
