// One blob into the cache: resumed, retried, checked, and only then under its name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "hub/cache.h"
#include "hub/http.h"

namespace lithe::hub {

struct Blob {
  std::string url;
  std::string name;    // for messages
  std::string commit;  // what X-Repo-Commit must say, if it says anything
  std::string etag;
  std::uint64_t size = 0;
};

/// Called from several threads at once.
struct Hooks {
  std::function<bool()> cancelled;
  std::function<void(double bytes)> advanced;  // may be negative: bytes that were thrown away
  std::function<void(const std::string& line)> warning;
};

/// Does nothing when the blob is there. What was fetched stays as ETAG.incomplete, for the next attempt or the next run,
/// unless it proved wrong. io: the network's or the server's fault after all attempts; corrupt: the server sent something else
/// than the hub lists, twice; cancelled.
Status fetch_blob(HttpClient& http, const RepoCache& cache, const Blob& blob, const Hooks& hooks);

/// Whether a blob is in the cache with its whole length.
bool has_blob(const RepoCache& cache, const std::string& etag, std::uint64_t size);

/// The message for an answer that is not good, about REPO's `what`; says what a user can do about 401, 403 and 404.
Status answer_status(const Answer& answer, const std::string& what);

/// Waits between attempts: half a second, doubled up to half a minute, or as long as the server asked.
class Backoff {
 public:
  explicit Backoff(const Hooks& hooks) : hooks_(hooks) {}
  /// False: enough attempts, or the server asks for longer than anyone waits.
  bool again(const Answer& answer, const std::string& what);
  void reset() { attempts_ = 0; }

 private:
  const Hooks& hooks_;
  int attempts_ = 0;
};

}  // namespace lithe::hub
