// Memory for weights and scratch: whole pages from the operating system, huge ones where it grants them, so
// that a stream over a hundred megabytes of weights does not miss the TLB every 4 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace lithe::layers {

inline constexpr std::size_t kCacheLine = 64;

/// Anonymous pages, zeroed, touched only as used. Move-only.
class PageBuffer {
 public:
  PageBuffer() = default;
  /// resource_exhausted when the system has no room. 0 bytes is an empty buffer.
  static Result<PageBuffer> create(std::size_t bytes);
  PageBuffer(PageBuffer&& other) noexcept;
  PageBuffer& operator=(PageBuffer&& other) noexcept;
  ~PageBuffer();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;  // aligned to a huge page when big enough to hold one
  std::size_t size_ = 0;
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
};

/// All packed weights of a model, one after another in the order of use, in one reservation: matrices of half
/// a megabyte could not fill huge pages of their own.
class WeightMemory {
 public:
  WeightMemory() = default;
  /// Room for `bytes` in all; padded() tells what each part takes.
  static Result<WeightMemory> create(std::size_t bytes);

  /// What one allocation of `bytes` takes of the reservation.
  static std::size_t padded(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }
  /// The next `bytes`, aligned to a cache line. The reservation must have been big enough.
  std::byte* take(std::size_t bytes);
  std::size_t used() const { return used_; }

 private:
  PageBuffer buffer_;
  std::size_t used_ = 0;
};

/// Scratch of one forward pass: a bump allocator. Memory stays valid until reset() or the end of the Scope
/// that was open when it was taken. Once reserved, or after the first passes, the arena is one block of the
/// high-water mark and a pass allocates nothing.
class ScratchArena {
 public:
  /// Sets `bytes` aside, touched only as used. Nothing may be taken. resource_exhausted.
  Status reserve(std::size_t bytes);
  /// Uninitialised, aligned to a cache line. std::bad_alloc, as operator new.
  std::byte* take_bytes(std::size_t bytes);
  template <typename T>
  T* take(std::int64_t count) {
    return reinterpret_cast<T*>(take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
  }
  /// Forgets everything taken.
  void reset();
  std::size_t used() const { return before_ + offset_; }
  std::size_t high_water() const { return high_water_; }

  /// Gives back, at its end, what was taken since its beginning.
  class Scope {
   public:
    explicit Scope(ScratchArena& arena) : arena_(arena), block_(arena.block_), offset_(arena.offset_) {}
    ~Scope() { arena_.rewind(block_, offset_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ScratchArena& arena_;
    std::size_t block_, offset_;
  };

 private:
  void rewind(std::size_t block, std::size_t offset);
  std::vector<PageBuffer> blocks_;
  std::size_t block_ = 0, offset_ = 0;  // the next free byte
  std::size_t before_ = 0;              // bytes in the blocks before block_
  std::size_t high_water_ = 0;
};

}  // namespace lithe::layers
