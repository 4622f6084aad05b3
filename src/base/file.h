// Files: read-only maps, and outputs that appear whole or not at all (promise 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/status.h"

namespace lithe {

/// A path as messages show it: printable(), cut after PATH_MAX bytes.
std::string shown_path(const std::filesystem::path& path);

/// A whole file mapped read-only. Move-only; the bytes live as long as the object.
class MappedFile {
 public:
  /// io / not_found with the path in the message. An empty file maps to an empty span.
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

  /// Tells the kernel that [offset, offset + size) will not be read again, so that the pages leave our
  /// resident memory (promise 2: weights that were repacked are not held twice). Reading them later still
  /// works.
  void release(std::size_t offset, std::size_t size) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::filesystem::path path_;
};

/// The whole of a small file, refused above `limit` bytes.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t limit = std::size_t{64} << 20);

/// Writes to a temporary name beside `path`; commit() syncs and renames. Destroyed without commit() it leaves
/// nothing behind.
class AtomicFile {
 public:
  /// mode: as of open(), so less the umask; 0600 for what only its owner may read.
  static Result<AtomicFile> create(const std::filesystem::path& path, unsigned mode = 0666);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status write(const std::string& text);
  /// Overwrites bytes already written, e.g. a header known only at the end, or writes beyond them; size() stays.
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  std::uint64_t size() const { return size_; }
  Status commit();

 private:
  AtomicFile() = default;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::filesystem::path path_, temporary_;
};

}  // namespace lithe
