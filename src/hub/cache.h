// The hub's cache as huggingface_hub keeps it, shared both ways: models--org--name/{blobs,refs,snapshots}. A blob is named
// after its content, a snapshot is a folder of relative links to blobs, a ref names the commit of a branch or tag.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace lithe::hub {

/// An exclusive flock() on a file that is left behind, as huggingface_hub's own; released at the end of its life.
class FileLock {
 public:
  /// Waits while another process holds it; `cancelled` is asked ten times a second. `waiting` is called once, if at all.
  static Result<FileLock> acquire(const std::filesystem::path& path, const std::function<bool()>& cancelled,
                                  const std::function<void()>& waiting);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

/// The folders of one repository. Names and etags must have passed hub/repo.h's checks.
class RepoCache {
 public:
  RepoCache(const std::filesystem::path& cache, const std::string& repo_id);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path blob(const std::string& etag) const { return folder_ / "blobs" / etag; }
  std::filesystem::path incomplete(const std::string& etag) const {
    return folder_ / "blobs" / (etag + ".incomplete");
  }
  std::filesystem::path lock(const std::string& etag) const { return locks_ / (etag + ".lock"); }
  std::filesystem::path snapshot(const std::string& commit) const { return folder_ / "snapshots" / commit; }

  /// Makes the folders that a download writes to.
  Status prepare() const;
  /// The commit that a revision meant when it was last fetched; a commit means itself.
  std::optional<std::string> commit_of(const std::string& revision) const;
  Status set_ref(const std::string& revision, const std::string& commit) const;
  /// Links a snapshot's file to a blob, in the place of whatever stands there.
  Status link(const std::string& commit, const std::string& name, const std::string& etag) const;
  /// The files of a snapshot whose blobs are there, by their names, sorted.
  std::vector<std::string> files(const std::string& commit) const;

 private:
  std::filesystem::path folder_, locks_;
};

}  // namespace lithe::hub
