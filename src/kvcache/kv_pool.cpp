#include "kvcache/kv_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/checked.h"

namespace lithe::kvcache {

struct PagePool::Impl {
  std::byte* base = nullptr;
  std::size_t mapped = 0;
  std::size_t page_bytes = 0;
  int page_tokens = 0;
  std::size_t state_floats = 0;
  std::vector<int> references;     // [pages]
  std::vector<PageId> free_pages;  // a stack: the page freed last is the warmest
  std::int64_t peak_used = 0;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (base != nullptr) munmap(base, mapped);
  }

  std::byte* data(PageId page) { return base + static_cast<std::size_t>(page) * page_bytes; }

  int& count(PageId page) {
    LITHE_CHECK(page >= 0 && static_cast<std::size_t>(page) < references.size());
    return references[static_cast<std::size_t>(page)];
  }

  PageId take() {
    const PageId page = free_pages.back();
    free_pages.pop_back();
    LITHE_CHECK(count(page) == 0);
    count(page) = 1;
    peak_used = std::max(peak_used, static_cast<std::int64_t>(references.size() - free_pages.size()));
    return page;
  }

  void retain(PageId page) {
    LITHE_CHECK(count(page) > 0);
    ++count(page);
  }

  void release(PageId page) {
    LITHE_CHECK(count(page) > 0);
    if (--count(page) == 0) free_pages.push_back(page);
  }
};

Result<PagePool> PagePool::create(std::size_t page_bytes, std::int64_t pages, int page_tokens,
                                  std::size_t state_floats) {
  if (page_bytes == 0 || page_bytes % 64 != 0) {
    return invalid("a KV page of {} bytes: must be a positive multiple of 64", page_bytes);
  }
  if (page_tokens <= 0) return invalid("a KV page of {} tokens", page_tokens);
  if (pages <= 0 || pages > INT32_MAX)
    return invalid("a KV pool of {} pages: must be 1 to {}", pages, INT32_MAX);
  const auto bytes = checked_mul<std::size_t>(page_bytes, static_cast<std::size_t>(pages));
  if (!bytes)
    return exhausted("a KV pool of {} pages of {} bytes does not fit an address space", pages, page_bytes);

  void* base =
      mmap(nullptr, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return exhausted("no room for a KV pool of {} MiB: {}", *bytes >> 20, std::strerror(errno));
  }
  // A sequence's keys of one layer are a few KiB per page, so 4 KiB pages would cost a TLB miss each. Best
  // effort.
  madvise(base, *bytes, MADV_HUGEPAGE);

  auto impl = std::make_unique<Impl>();
  impl->base = static_cast<std::byte*>(base);
  impl->mapped = *bytes;
  impl->page_bytes = page_bytes;
  impl->page_tokens = page_tokens;
  impl->state_floats = state_floats;
  impl->references.assign(static_cast<std::size_t>(pages), 0);
  impl->free_pages.reserve(static_cast<std::size_t>(pages));
  for (std::int64_t page = pages - 1; page >= 0; --page)
    impl->free_pages.push_back(static_cast<PageId>(page));
  return PagePool(std::move(impl));
}

PagePool::PagePool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PagePool::PagePool(PagePool&&) noexcept = default;
PagePool& PagePool::operator=(PagePool&&) noexcept = default;
PagePool::~PagePool() = default;

Result<PageId> PagePool::allocate() {
  if (impl_->free_pages.empty()) return exhausted("all {} KV pages are in use", total());
  return impl_->take();
}

void PagePool::retain(PageId page) {
  impl_->retain(page);
}
void PagePool::release(PageId page) {
  impl_->release(page);
}
int PagePool::references(PageId page) const {
  return impl_->count(page);
}

std::byte* PagePool::data(PageId page) {
  LITHE_CHECK(impl_->count(page) > 0);
  return impl_->data(page);
}

std::byte* PagePool::base() {
  return impl_->base;
}
std::size_t PagePool::page_bytes() const {
  return impl_->page_bytes;
}
int PagePool::page_tokens() const {
  return impl_->page_tokens;
}
std::size_t PagePool::state_floats() const {
  return impl_->state_floats;
}
std::int64_t PagePool::total() const {
  return static_cast<std::int64_t>(impl_->references.size());
}
std::int64_t PagePool::free() const {
  return static_cast<std::int64_t>(impl_->free_pages.size());
}
std::int64_t PagePool::peak_used() const {
  return impl_->peak_used;
}

Status PagePool::check_integrity() const {
  std::vector<bool> listed(impl_->references.size(), false);
  for (const PageId page : impl_->free_pages) {
    if (page < 0 || page >= total()) return internal("the free list holds page {} of {}", page, total());
    const auto index = static_cast<std::size_t>(page);
    if (listed[index]) return internal("page {} is twice in the free list", page);
    if (impl_->references[index] != 0) {
      return internal("page {} is free but has {} references", page, impl_->references[index]);
    }
    listed[index] = true;
  }
  for (std::size_t page = 0; page < listed.size(); ++page) {
    if (impl_->references[page] < 0)
      return internal("page {} has {} references", page, impl_->references[page]);
    if (impl_->references[page] == 0 && !listed[page]) return internal("page {} is lost", page);
  }
  return {};
}

SequenceCache::SequenceCache(SequenceCache&& other) noexcept
    : pool_(other.pool_),
      length_(std::exchange(other.length_, 0)),
      pages_(std::exchange(other.pages_, {})),
      state_(std::move(other.state_)) {}

SequenceCache& SequenceCache::operator=(SequenceCache&& other) noexcept {
  if (this != &other) {
    release_from(0);
    pool_ = other.pool_;
    length_ = std::exchange(other.length_, 0);
    pages_ = std::exchange(other.pages_, {});
    state_ = std::move(other.state_);
  }
  return *this;
}

SequenceCache::~SequenceCache() {
  release_from(0);
}

// Last page first, so that the free list hands a dropped sequence's pages out again in ascending order.
void SequenceCache::release_from(std::size_t first) {
  while (pages_.size() > first) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
}

// Uninitialised; null: no memory.
SequenceCache::State SequenceCache::new_state(std::size_t floats) {
  return State(static_cast<float*>(::operator new(floats * sizeof(float), kStateAlignment, std::nothrow)));
}

Status SequenceCache::reserve(std::int64_t count) {
  LITHE_CHECK(count >= 0);
  if (count == 0) return {};
  PagePool::Impl& pool = *pool_->impl_;
  const std::int64_t tokens = pool.page_tokens;
  const auto end = checked_add<std::int64_t>(length_, count);
  if (!end) return exhausted("{} more tokens do not fit any KV pool", count);

  const auto have = static_cast<std::int64_t>(pages_.size());
  const std::int64_t missing = std::max<std::int64_t>(0, *end / tokens + (*end % tokens != 0) - have);
  const auto last = static_cast<std::size_t>(length_ / tokens);  // the page that the next token goes to
  const bool copy = last < pages_.size() && pool.count(pages_[last]) > 1;
  const auto free = static_cast<std::int64_t>(pool.free_pages.size());
  if (missing + (copy ? 1 : 0) > free) {
    return exhausted("{} KV pages are needed and {} of {} are free", missing + (copy ? 1 : 0), free,
                     pool.references.size());
  }
  if (pool.state_floats > 0 && state_ == nullptr) {
    state_ = new_state(pool.state_floats);
    if (state_ == nullptr)
      return exhausted("no room for a sequence's state of {} bytes", pool.state_floats * sizeof(float));
    std::fill_n(state_.get(), pool.state_floats, 0.0f);
  }
  if (copy) {
    const PageId fresh = pool.take();
    std::memcpy(pool.data(fresh), pool.data(pages_[last]), pool.page_bytes);
    pool.release(std::exchange(pages_[last], fresh));
  }
  for (std::int64_t page = 0; page < missing; ++page) pages_.push_back(pool.take());
  return {};
}

void SequenceCache::commit(std::int64_t count) {
  LITHE_CHECK(count >= 0);
  const std::int64_t tokens = pool_->page_tokens();
  LITHE_CHECK(length_ + count <= static_cast<std::int64_t>(pages_.size()) * tokens);
  for (std::int64_t page = length_ / tokens; page * tokens < length_ + count; ++page) {
    LITHE_CHECK(pool_->references(pages_[static_cast<std::size_t>(page)]) ==
                1);  // or somebody else would see it
  }
  length_ += count;
}

void SequenceCache::truncate(std::int64_t length) {
  LITHE_CHECK(length >= 0 && length <= length_);
  if (pool_->state_floats() > 0 && length < length_) length = 0;
  if (length == 0) state_.reset();
  length_ = length;
  release_from(static_cast<std::size_t>(ceil_div<std::int64_t>(length, pool_->page_tokens())));
}

SequenceCache SequenceCache::fork() const {
  SequenceCache child(*pool_);
  if (state_ != nullptr && length_ > 0) {
    child.state_ = new_state(pool_->state_floats());
    if (child.state_ == nullptr) return child;
    std::copy_n(state_.get(), pool_->state_floats(), child.state_.get());
  }
  const auto shared = static_cast<std::size_t>(ceil_div<std::int64_t>(length_, pool_->page_tokens()));
  child.pages_.assign(pages_.begin(), pages_.begin() + static_cast<std::ptrdiff_t>(shared));
  child.length_ = length_;
  for (const PageId page : child.pages_) pool_->retain(page);
  return child;
}

}  // namespace lithe::kvcache
