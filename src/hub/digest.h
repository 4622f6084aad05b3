// Checking what arrives. The hub names a large file by the SHA-256 of its content and a small one by git's SHA-1.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"

namespace lithe::hub {

enum class DigestKind { none, sha256, git_sha1 };
/// By its form: 64 or 40 hexadecimal digits. none: it cannot be checked.
DigestKind digest_kind(const std::string& etag);

/// Content that comes piece by piece. `size`: of the whole, which git's form puts in front.
class Digest {
 public:
  Digest(DigestKind kind, std::uint64_t size);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  void update(std::span<const std::byte> bytes);
  std::string hex();  // once, at the end

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Digests a file in a thread of its own, behind whoever writes it: the bytes are read back while the page cache still
/// has them, so that a download is not slowed down and one that was resumed needs no second pass.
class TrailingDigest {
 public:
  /// fd: open for reading as long as this lives.
  TrailingDigest(int fd, DigestKind kind, std::uint64_t size);
  ~TrailingDigest();  // stops at once
  TrailingDigest(const TrailingDigest&) = delete;
  TrailingDigest& operator=(const TrailingDigest&) = delete;

  /// The first `bytes` of the file are final.
  void available(std::uint64_t bytes);
  /// Waits for the rest. io: the file cannot be read back.
  Result<std::string> finish();

 private:
  void work();
  Status catch_up(std::uint64_t end);

  int fd_;
  Digest digest_;
  std::uint64_t size_, done_ = 0;
  std::vector<std::byte> buffer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t available_ = 0;  // with mutex_, like the rest
  bool stop_ = false;
  Status status_;
  std::thread thread_;
};

}  // namespace lithe::hub
