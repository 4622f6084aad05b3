#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace lithe {
namespace {

constexpr int kTemporaryNames = 1000;  // tried, when others are taken

Status errno_status(const char* action, const std::filesystem::path& path) {
  const int error = errno;
  const std::string text = fmt::format("cannot {} {}: {}", action, shown_path(path), std::strerror(error));
  return Status(error == ENOENT ? Code::not_found : Code::io, text);
}

Status write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno_status("write", path);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace

std::string shown_path(const std::filesystem::path& path) {
  return printable(path.string(), PATH_MAX);
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe that nobody writes to would wait forever, before we see that it is one.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno_status("open", path);
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    Status status = errno_status("stat", path);
    ::close(fd);
    return status;
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return invalid("{} is not a regular file", shown_path(path));
  }
  MappedFile file;
  file.path_ = path;
  file.size_ = static_cast<std::size_t>(info.st_size);
  if (file.size_ > 0) {
    void* data = ::mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
      Status status = errno_status("map", path);
      ::close(fd);
      return status;
    }
    file.data_ = static_cast<const std::byte*>(data);
  }
  ::close(fd);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::size_t offset, std::size_t size) const {
  // Only whole pages inside the range: its first and last page may hold a neighbour's bytes.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = (offset + page - 1) / page * page;
  const std::size_t end = std::min(offset + size, size_) / page * page;
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

Result<std::string> read_file(const std::filesystem::path& path, std::size_t limit) {
  LITHE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > limit) return invalid("{} is larger than {} bytes", shown_path(path), limit);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path, unsigned mode) {
  // rename() would put a plain file in a device's or a pipe's place.
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return invalid("{} exists and is not a regular file", shown_path(path));
  }
  AtomicFile file;
  file.path_ = path;
  // Not mkostemp(): only the kernel can apply the umask without changing it for other threads.
  for (int attempt = 0; file.fd_ < 0; ++attempt) {
    file.temporary_ = fmt::format("{}.{}-{}", path.string(), ::getpid(), attempt);
    file.fd_ = ::open(file.temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file.fd_ < 0 && (errno != EEXIST || attempt == kTemporaryNames)) return errno_status("create", path);
  }
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  LITHE_RETURN_IF_ERROR(write_all(fd_, bytes, path_));
  size_ += bytes.size();
  return {};
}

Status AtomicFile::write(const std::string& text) {
  return write(std::as_bytes(std::span(text.data(), text.size())));
}

Status AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno_status("write", path_);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Status AtomicFile::commit() {
  if (::fsync(fd_) != 0) return errno_status("sync", path_);
  if (::close(std::exchange(fd_, -1)) != 0) {
    ::unlink(temporary_.c_str());
    return errno_status("close", path_);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    Status status = errno_status("rename to", path_);
    ::unlink(temporary_.c_str());
    return status;
  }
  return {};
}

}  // namespace lithe
