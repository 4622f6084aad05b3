#include "layers/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/text.h"

namespace lithe::layers {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kArenaBlock = std::size_t{1} << 20;

PageBuffer block_or_throw(std::size_t bytes) {
  auto block = PageBuffer::create(bytes);
  if (!block.ok()) throw std::bad_alloc();
  return std::move(*block);
}

}  // namespace

Result<PageBuffer> PageBuffer::create(std::size_t bytes) {
  PageBuffer buffer;
  if (bytes == 0) return buffer;
  // One huge page more than asked, so that the data can begin on a huge page; what is never touched costs
  // nothing.
  const std::size_t slack = bytes >= kHugePage ? kHugePage : 0;
  const auto mapped = checked_add(bytes, slack);
  if (!mapped) return exhausted("{} bytes of memory are more than this machine can address", bytes);
  void* mapping =
      ::mmap(nullptr, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return exhausted("no room for {} of memory", human_bytes(static_cast<double>(bytes)));
  buffer.mapping_ = mapping;
  buffer.mapped_ = *mapped;
  buffer.size_ = bytes;
  buffer.data_ = static_cast<std::byte*>(mapping);
  if (slack != 0) {
    buffer.data_ += (kHugePage - reinterpret_cast<std::uintptr_t>(mapping) % kHugePage) % kHugePage;
    ::madvise(buffer.data_, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // advice only
  }
  return buffer;
}

PageBuffer::PageBuffer(PageBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)) {}

PageBuffer& PageBuffer::operator=(PageBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

PageBuffer::~PageBuffer() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
}

Result<WeightMemory> WeightMemory::create(std::size_t bytes) {
  WeightMemory memory;
  LITHE_ASSIGN_OR_RETURN(memory.buffer_, PageBuffer::create(bytes));
  return memory;
}

std::byte* WeightMemory::take(std::size_t bytes) {
  LITHE_CHECK(padded(bytes) <= buffer_.size() - used_);
  std::byte* out = buffer_.data() + used_;
  used_ += padded(bytes);
  return out;
}

Status ScratchArena::reserve(std::size_t bytes) {
  LITHE_CHECK(used() == 0);
  if (!blocks_.empty() && blocks_.front().size() >= bytes) return {};
  blocks_.clear();
  LITHE_ASSIGN_OR_RETURN(PageBuffer block, PageBuffer::create(bytes));
  blocks_.push_back(std::move(block));
  return {};
}

std::byte* ScratchArena::take_bytes(std::size_t bytes) {
  bytes = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  while (block_ < blocks_.size() && bytes > blocks_[block_].size() - offset_) {
    before_ += blocks_[block_].size();
    ++block_;
    offset_ = 0;
  }
  if (block_ == blocks_.size()) {
    blocks_.push_back(block_or_throw(std::max(bytes, kArenaBlock)));
  }
  std::byte* out = blocks_[block_].data() + offset_;
  offset_ += bytes;
  high_water_ = std::max(high_water_, before_ + offset_);
  return out;
}

void ScratchArena::rewind(std::size_t block, std::size_t offset) {
  while (block_ > block) before_ -= blocks_[--block_].size();
  offset_ = offset;
}

void ScratchArena::reset() {
  block_ = offset_ = before_ = 0;
  if (blocks_.size() <= 1) return;
  blocks_.clear();
  blocks_.push_back(block_or_throw(high_water_));
}

}  // namespace lithe::layers
