// A model from the hub into the cache, and from the cache to whoever runs it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "hub/download.h"
#include "hub/repo.h"
#include "hub/select.h"
#include "hub/settings.h"

namespace lithe::hub {

/// How much there is to do, before the first byte of it.
struct Plan {
  std::size_t files = 0;
  std::uint64_t bytes =
      0;  // of the files that are not in the cache; what an earlier run left of them counts as done at once
  std::string note;  // why these files, where there was a choice
};

struct Pulled {
  std::string commit;
  std::filesystem::path
      model;  // what a MODEL argument means: the GGUF's (first) file, or the snapshot's folder
  std::vector<std::string> files;   // names, sorted
  std::uint64_t bytes = 0;          // of all of them
  std::uint64_t missing_bytes = 0;  // of those that were not in the cache before
};

/// Asks the hub what `repo` is now, chooses files, and fetches those that the cache has not, up to four at once. The ref of
/// a branch changes after everything it names has arrived. Offline: the same from the cache alone.
/// not_found, with what to do: no such repository, revision or file, or a token that is missing; exhausted: the disk has
/// not enough room (before the first byte); corrupt: the server contradicts itself; else as fetch_blob().
Result<Pulled> pull(const Settings& settings, const Repo& repo, const Wanted& wanted, const Hooks& hooks,
                    const std::function<void(const Plan&)>& planned);

/// The model that `repo` means, from the cache alone. not_found names the `lithe pull` that fetches it.
Result<std::filesystem::path> find_cached(const Settings& settings, const Repo& repo);

}  // namespace lithe::hub
