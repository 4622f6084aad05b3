#include "hub/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "hub/digest.h"
#include "hub/follower.h"
#include "hub/listing.h"

namespace lithe::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMostAttempts = 6;
constexpr double kFirstWait = 0.5, kLongestWait = 30.0, kMostPatience = 120.0;  // seconds
constexpr std::uint64_t kProgress = std::uint64_t{1} << 20;    // bytes that make a failed attempt a good one
constexpr std::uint64_t kWriteBack = std::uint64_t{32} << 20;  // bytes written back at a time

// The file that a download writes to.
class PartFile {
 public:
  explicit PartFile(fs::path path) : path_(std::move(path)) {}
  ~PartFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  Status open() {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) return fault("open");
    struct stat info {};
    if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) return fault("use");
    size_ = static_cast<std::uint64_t>(info.st_size);
    return {};
  }
  Status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fault("write");
      size_ += static_cast<std::uint64_t>(n);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }
  Status empty() {
    if (::ftruncate(fd_, 0) != 0) return fault("empty");
    size_ = 0;
    return {};
  }
  Status move_to(const fs::path& path) {
    if (::fsync(fd_) != 0) return fault("sync");
    if (::rename(path_.c_str(), path.c_str()) != 0) return fault("rename");
    return {};
  }

  int fd() const { return fd_; }
  std::uint64_t size() const { return size_; }

 private:
  Status fault(const char* action) const {
    return io_error("cannot {} {}: {}", action, shown_path(path_), std::strerror(errno));
  }
  fs::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

// One blob on its way.
class Download {
 public:
  Download(HttpClient& http, const RepoCache& cache, const Blob& blob, const Hooks& hooks)
      : http_(http),
        cache_(cache),
        blob_(blob),
        hooks_(hooks),
        part_(cache.incomplete(blob.etag)),
        backoff_(hooks) {}

  Status run();

 private:
  Status fetch_all();
  Answer attempt();
  Status look_at(const Answer& answer, std::uint64_t asked);
  Status take(std::span<const std::byte> bytes);
  Status start_over();
  void follow();
  void unfollow();
  Status verify();
  std::string what() const { return printable(blob_.name, 300); }

  HttpClient& http_;
  const RepoCache& cache_;
  const Blob& blob_;
  const Hooks& hooks_;
  PartFile part_;
  Backoff backoff_;
  std::optional<TrailingDigest> digest_;
  std::optional<Follower> write_back_;  // to the disk, so that the sync at the end finds little to do
};

Status Download::run() {
  LITHE_RETURN_IF_ERROR(part_.open());
  hooks_.advanced(static_cast<double>(part_.size()));
  if (part_.size() > blob_.size) LITHE_RETURN_IF_ERROR(start_over());
  follow();
  for (int round = 0;; ++round) {
    Status status = fetch_all();
    if (status.ok()) status = verify();
    if (status.ok()) return part_.move_to(cache_.blob(blob_.etag));
    if (status.code() != Code::corrupt) return status;
    LITHE_RETURN_IF_ERROR(start_over());  // what cannot be right is never kept
    if (round > 0) return status;
    hooks_.warning(status.message() + "; fetching it again");
    follow();
  }
}

void Download::follow() {
  unfollow();
  const std::uint64_t there = part_.size();
  if (blob_.size >= 2 * kWriteBack) {
    write_back_.emplace(blob_.size, kWriteBack, [fd = part_.fd()](std::uint64_t begin, std::uint64_t end) {
      ::sync_file_range(fd, static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                        SYNC_FILE_RANGE_WRITE);
      return Status();  // a hint: the sync at the end tells of faults
    });
    write_back_->available(there);
  }
  if (const DigestKind kind = digest_kind(blob_.etag); kind != DigestKind::none) {
    digest_.emplace(part_.fd(), kind, blob_.size);
    digest_->available(there);
  }
}

void Download::unfollow() {
  digest_.reset();
  write_back_.reset();
}

Status Download::start_over() {
  hooks_.advanced(-static_cast<double>(part_.size()));
  unfollow();
  return part_.empty();
}

Status Download::fetch_all() {
  while (part_.size() < blob_.size) {
    const std::uint64_t before = part_.size();
    const Answer answer = attempt();
    if (part_.size() == blob_.size) break;
    if (answer.fault.code() == Code::cancelled) return answer.fault;
    if (part_.size() >= before + kProgress) backoff_.reset();
    // Without a fault the body was whole, and shorter than the hub's own listing says.
    const bool short_body = answer.good();
    if (!short_body && !answer.retry) return answer_status(answer, what());
    if (backoff_.again(answer, what())) continue;
    if (hooks_.cancelled()) return cancelled("interrupted");
    if (short_body) {
      return io_error("{}: the server sent {} of {} bytes; what came is kept for the next attempt", what(),
                      part_.size(), blob_.size);
    }
    return answer_status(answer, what());
  }
  return {};
}

Answer Download::attempt() {
  const std::uint64_t asked = part_.size();
  Answer answer = http_.get(
      blob_.url, asked, [&](const Answer& head) { return look_at(head, asked); },
      [&](std::span<const std::byte> bytes) { return take(bytes); });
  if (answer.status == 416 && asked > 0) {  // nothing of that range: what we have is not of this file
    answer.fault = start_over();
    answer.retry = answer.fault.ok();
    follow();
  }
  return answer;
}

// Whether a body is the part that was asked for, of the file that was listed.
Status Download::look_at(const Answer& answer, std::uint64_t asked) {
  if (const std::string commit = answer.header("x-repo-commit"); !commit.empty() && commit != blob_.commit)
    return corrupt("{}: the server answers for commit {}, asked for {}", what(), printable(commit),
                   blob_.commit);
  std::uint64_t begin = 0;
  std::optional<std::uint64_t> total;
  const auto length = parse_size(answer.header("content-length"));
  if (answer.status == 206) {
    const auto range = parse_content_range(answer.header("content-range"));
    if (!range || !range->begin) return corrupt("{}: the server sends a part and does not say which", what());
    begin = *range->begin;
    total = range->total;
  } else if (length) {
    total = length;
  }
  if (begin != asked) {
    if (begin != 0)
      return corrupt("{}: asked for bytes from {}, the server sends from {}", what(), asked, begin);
    LITHE_RETURN_IF_ERROR(start_over());  // it knows no ranges
    follow();
  }
  if (total && *total > blob_.size)
    return corrupt("{}: the server sends {} bytes, the hub lists {}", what(), *total, blob_.size);
  return {};
}

Status Download::take(std::span<const std::byte> bytes) {
  if (bytes.size() > blob_.size - part_.size()) {
    return corrupt("{}: the server sends more than the {} bytes that the hub lists", what(), blob_.size);
  }
  LITHE_RETURN_IF_ERROR(part_.append(bytes));
  if (digest_) digest_->available(part_.size(), bytes);
  if (write_back_) write_back_->available(part_.size());
  hooks_.advanced(static_cast<double>(bytes.size()));
  return {};
}

Status Download::verify() {
  if (!digest_) return {};
  LITHE_ASSIGN_OR_RETURN(const std::string digest, digest_->finish());
  if (digest == blob_.etag) return {};
  return corrupt("{}: what came is not what the hub lists: its checksum is {}... instead of {}...", what(),
                 digest.substr(0, 12), blob_.etag.substr(0, 12));
}

}  // namespace

bool Backoff::again(const Answer& answer, const std::string& what) {
  if (hooks_.cancelled()) return false;
  double wait = std::min(kLongestWait, kFirstWait * std::exp2(attempts_));
  if (answer.retry_after) wait = std::max(wait, *answer.retry_after);
  if (++attempts_ >= kMostAttempts || wait > kMostPatience) return false;
  const std::string why = !answer.fault.ok()     ? answer.fault.message()
                          : answer.status == 429 ? "the server asks for patience"
                          : answer.status >= 500 ? fmt::format("the server answers {}", answer.status)
                                                 : "it came incomplete";
  hooks_.warning(fmt::format("{}: {}; again in {:.1f} s", what, why, wait));
  using Clock = std::chrono::steady_clock;
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait));
  while (Clock::now() < end) {
    if (hooks_.cancelled()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

Status answer_status(const Answer& answer, const std::string& what) {
  if (!answer.fault.ok()) return Status(answer.fault).with_context(what);
  const std::string kind = answer.header("x-error-code");
  const std::string said = error_text(answer.error);
  switch (answer.status) {
    case 401:
      return not_found("{}: there is none, or it needs a token: set HF_TOKEN or log in with `hf auth login`",
                       what);
    case 403:
      if (kind == "GatedRepo")
        return not_found("{} is gated: accept its terms on its page of the hub, then set HF_TOKEN", what);
      return not_found("{}: the token may not read it{}", what, said.empty() ? "" : ": " + said);
    case 404:
      return not_found("{}: there is none on the hub{}", what,
                       kind == "RevisionNotFound" ? " in this revision" : "");
    case 429:
      return io_error(
          "{}: the server asks for patience{}; try again later, or set HF_TOKEN for a higher limit", what,
          answer.retry_after ? fmt::format(" ({:.0f} s)", *answer.retry_after) : "");
    default:
      return io_error("{}: the server answers {}{}", what, answer.status, said.empty() ? "" : ": " + said);
  }
}

bool has_blob(const RepoCache& cache, const std::string& etag, std::uint64_t size) {
  std::error_code error;
  const auto there = fs::file_size(cache.blob(etag), error);
  return !error && there == size;
}

Status fetch_blob(HttpClient& http, const RepoCache& cache, const Blob& blob, const Hooks& hooks) {
  LITHE_ASSIGN_OR_RETURN(const FileLock lock, FileLock::acquire(cache.lock(blob.etag), hooks.cancelled, [&] {
                           hooks.warning(fmt::format("{}: waiting for another process that fetches it",
                                                     printable(blob.name, 300)));
                         }));
  if (has_blob(cache, blob.etag, blob.size)) {
    hooks.advanced(static_cast<double>(blob.size));
    return {};
  }
  return Download(http, cache, blob, hooks).run();
}

}  // namespace lithe::hub
