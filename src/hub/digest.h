// Checking what arrives. The hub names a large file by the SHA-256 of its content and a small one by git's SHA-1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "hub/follower.h"

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

/// Digests a file in a thread of its own, behind whoever writes it, so that a download is not slowed down and one that was
/// resumed needs no second pass. The newest bytes are kept in memory; what fell behind them is read back while the page
/// cache still has it.
class TrailingDigest {
 public:
  /// fd: open for reading as long as this lives.
  TrailingDigest(int fd, DigestKind kind, std::uint64_t size);

  /// The first `bytes` of the file are final, `newest` the last of them: both may be told, or the first alone.
  void available(std::uint64_t bytes, std::span<const std::byte> newest = {});
  /// Waits for the rest. io: the file cannot be read back.
  Result<std::string> finish();

 private:
  Status read(std::uint64_t begin, std::uint64_t end);
  Status read_back(std::uint64_t begin, std::uint64_t end);

  int fd_;
  Digest digest_;
  std::vector<std::byte> buffer_;
  // The bytes [kept_begin_, kept_end_) of the file, each at its place modulo the size. The writer moves the end and never
  // into what the reader has still to take; only the reader moves the beginning while there are any.
  std::vector<std::byte> recent_;
  std::mutex mutex_;
  std::uint64_t kept_begin_ = 0, kept_end_ = 0;  // with mutex_
  Follower follower_;                            // last: it works with the others
};

}  // namespace lithe::hub
