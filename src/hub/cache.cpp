#include "hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/file.h"
#include "hub/repo.h"

namespace lithe::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 16;  // of folders in a snapshot
constexpr std::size_t kMostFiles = 100'000;

Status make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? io_error("cannot make the folder {}: {}", shown_path(folder), error.message()) : Status();
}

// "models--org--name"
std::string folder_name(const std::string& repo_id) {
  std::string out = "models--";
  for (const char c : repo_id) {
    if (c == '/') {
      out += "--";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

Result<FileLock> FileLock::acquire(const fs::path& path, const std::function<bool()>& cancelled_now,
                                   const std::function<void()>& waiting) {
  LITHE_RETURN_IF_ERROR(make_folders(path.parent_path()));
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return io_error("cannot open {}: {}", shown_path(path), std::strerror(errno));
  FileLock lock(fd);
  for (bool told = false; ::flock(fd, LOCK_EX | LOCK_NB) != 0;) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return io_error("cannot lock {}: {}", shown_path(path), std::strerror(errno));
    if (cancelled_now()) return cancelled("interrupted");
    if (!std::exchange(told, true)) waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

RepoCache::RepoCache(const fs::path& cache, const std::string& repo_id)
    : folder_(cache / folder_name(repo_id)), locks_(cache / ".locks" / folder_name(repo_id)) {}

Status RepoCache::prepare() const {
  for (const char* name : {"blobs", "refs", "snapshots"}) LITHE_RETURN_IF_ERROR(make_folders(folder_ / name));
  return {};
}

std::optional<std::string> RepoCache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  auto text = read_file(folder_ / "refs" / revision, 128);
  if (!text.ok()) return std::nullopt;
  while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  if (!is_commit(*text)) return std::nullopt;
  return *text;
}

Status RepoCache::set_ref(const std::string& revision, const std::string& commit) const {
  if (is_commit(revision) || commit_of(revision) == commit) return {};
  const fs::path path = folder_ / "refs" / revision;
  LITHE_RETURN_IF_ERROR(make_folders(path.parent_path()));
  LITHE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  LITHE_RETURN_IF_ERROR(file.write(commit));
  return file.commit();
}

Status RepoCache::link(const std::string& commit, const std::string& name, const std::string& etag) const {
  const fs::path path = snapshot(commit) / name;
  std::string target = "../../";  // out of snapshots/COMMIT
  for (const char c : name) {
    if (c == '/') target += "../";
  }
  target += "blobs/" + etag;
  std::error_code error;
  if (fs::is_symlink(path, error) && fs::read_symlink(path, error) == target) return {};
  LITHE_RETURN_IF_ERROR(make_folders(path.parent_path()));
  // A name of its own first: a link cannot replace another in one step.
  const fs::path temporary = path.string() + "." + std::to_string(::getpid());
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int fault = errno;
    ::unlink(temporary.c_str());
    return io_error("cannot link {} to its blob: {}", shown_path(path), std::strerror(fault));
  }
  return {};
}

std::vector<std::string> RepoCache::files(const std::string& commit) const {
  const fs::path root = snapshot(commit);
  std::vector<std::string> names;
  std::error_code error;
  // Folders that are links are not entered.
  for (fs::recursive_directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
    if (at.depth() >= kMaxDepth) at.disable_recursion_pending();
    std::error_code ignored;
    if (!fs::is_regular_file(at->path(), ignored)) continue;  // also: a link whose blob has gone
    std::string name = at->path().lexically_relative(root).string();
    if (!check_file_name(name).ok()) continue;
    names.push_back(std::move(name));
    if (names.size() == kMostFiles) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lithe::hub
