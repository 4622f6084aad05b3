#include "hub/pull.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/checked.h"
#include "base/file.h"
#include "base/text.h"
#include "hub/listing.h"

namespace lithe::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostConnections = 4, kMostAnswer = std::size_t{64} << 20;
constexpr int kMostPages = 1000;
constexpr std::uint64_t kSpareBytes = std::uint64_t{64} << 20;  // left free on the disk

// The API's answers, each tried until the server gives one.
class Api {
 public:
  Api(const Settings& settings, const Repo& repo, const Hooks& hooks)
      : settings_(settings), repo_(repo), hooks_(hooks), http_(settings, hooks.cancelled) {}

  Result<Listing> list();
  Status complete(RemoteFile& file, const std::string& commit);
  std::string file_url(const std::string& commit, const std::string& name) const {
    return settings_.endpoint + "/" + repo_.id + "/resolve/" + commit + "/" + url_escape_path(name);
  }

 private:
  Result<Answer> ask(const std::string& url, std::string& body);
  Result<std::vector<RemoteFile>> list_tree(const std::string& commit);

  const Settings& settings_;
  const Repo& repo_;
  const Hooks& hooks_;
  HttpClient http_;
};

Result<Answer> Api::ask(const std::string& url, std::string& body) {
  Backoff backoff(hooks_);
  while (true) {
    const Answer answer = http_.get_text(url, body, kMostAnswer);
    if (answer.good()) return answer;
    if (answer.retry && backoff.again(answer, repo_.text())) continue;
    if (hooks_.cancelled()) return cancelled("interrupted");
    return answer_status(answer, repo_.text());
  }
}

Result<Listing> Api::list() {
  std::string body;
  LITHE_RETURN_IF_ERROR(ask(settings_.endpoint + "/api/models/" + repo_.id + "/revision/" +
                                url_escape(repo_.revision) + "?blobs=true",
                            body)
                            .status());
  LITHE_ASSIGN_OR_RETURN(Listing listing, parse_model_info(body));
  const auto known = [](const RemoteFile& file) { return file.known; };
  if (!std::all_of(listing.files.begin(), listing.files.end(), known)) {
    // A mirror that does not do blobs=true; it may have the tree, and each file's headers say it anyway.
    if (auto tree = list_tree(listing.commit); tree.ok()) listing.files = std::move(tree).value();
  }
  return listing;
}

Result<std::vector<RemoteFile>> Api::list_tree(const std::string& commit) {
  std::vector<RemoteFile> files;
  std::string url = settings_.endpoint + "/api/models/" + repo_.id + "/tree/" + commit + "?recursive=true";
  for (int page = 0; !url.empty() && page < kMostPages; ++page) {
    std::string body;
    const Answer answer = http_.get_text(url, body, kMostAnswer);
    if (!answer.good()) return answer_status(answer, repo_.text());
    LITHE_ASSIGN_OR_RETURN(auto more, parse_tree(body));
    files.insert(files.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    url = next_page(answer.header("link"));
    if (!url.empty() && origin_of(url) != origin_of(settings_.endpoint))
      return corrupt("its list goes on elsewhere");
  }
  return files;
}

// Size and etag of a file that the listing was silent about, from its own headers.
Status Api::complete(RemoteFile& file, const std::string& commit) {
  if (file.known) return {};
  Backoff backoff(hooks_);
  Answer answer;
  while (true) {
    answer = http_.head(file_url(commit, file.name));
    const bool redirected = answer.fault.ok() && answer.status >= 300 && answer.status < 400;
    if (answer.good() || redirected) break;
    if (answer.retry && backoff.again(answer, printable(file.name, 300))) continue;
    if (hooks_.cancelled()) return cancelled("interrupted");
    return answer_status(answer, printable(file.name, 300));
  }
  const bool linked = !answer.header("x-linked-etag").empty();
  file.etag = clean_etag(answer.header(linked ? "x-linked-etag" : "etag"));
  const auto linked_size = parse_size(answer.header("x-linked-size"));
  const auto size = linked_size ? linked_size : parse_size(answer.header("content-length"));
  if (file.etag.empty() || !size)
    return corrupt("the server tells neither size nor etag of {}", in_quotes(file.name, 300));
  file.size = *size;
  file.known = true;
  return {};
}

std::vector<std::string> names_of(const Listing& listing) {
  std::vector<std::string> names;
  names.reserve(listing.files.size());
  for (const RemoteFile& file : listing.files) names.push_back(file.name);
  return names;
}

Status check_room(const fs::path& folder, std::uint64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || (space.available >= kSpareBytes && space.available - kSpareBytes >= bytes)) return {};
  return exhausted("{} has {} left, and {} are to come", shown_path(folder),
                   human_bytes(static_cast<double>(space.available)),
                   human_bytes(static_cast<double>(bytes)));
}

// Blobs, several at once. The first fault stops the others, which leave what they have for the next run.
class Fetcher {
 public:
  Fetcher(const Settings& settings, const RepoCache& cache, std::vector<Blob> blobs, const Hooks& hooks)
      : settings_(settings), cache_(cache), blobs_(std::move(blobs)), hooks_(hooks) {
    hooks_.cancelled = [this, asked = hooks.cancelled] {
      return failed_.load(std::memory_order_relaxed) || asked();
    };
  }

  Status run() {
    std::vector<std::thread> threads;
    const std::size_t count = std::min(kMostConnections, blobs_.size());
    for (std::size_t i = 1; i < count; ++i) threads.emplace_back([this] { work(); });
    if (count > 0) work();
    for (std::thread& thread : threads) thread.join();
    return status_;
  }

 private:
  void work() {
    HttpClient http(settings_, hooks_.cancelled);
    for (std::size_t i; (i = next_.fetch_add(1)) < blobs_.size() && !hooks_.cancelled();) {
      Status status = fetch_blob(http, cache_, blobs_[i], hooks_);
      if (!status.ok()) fail(std::move(status));
    }
  }
  void fail(Status status) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    failed_ = true;
  }

  const Settings& settings_;
  const RepoCache& cache_;
  std::vector<Blob> blobs_;
  Hooks hooks_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status status_;
};

// The folder itself, or a file in it.
fs::path model_path(const RepoCache& cache, const std::string& commit, const std::string& model) {
  return model.empty() ? cache.snapshot(commit) : cache.snapshot(commit) / model;
}

Result<Pulled> from_cache(const Settings& settings, const Repo& repo, const Wanted& wanted) {
  const RepoCache cache(settings.cache, repo.id);
  const auto commit = cache.commit_of(repo.revision);
  const auto names = commit ? cache.files(*commit) : std::vector<std::string>();
  if (names.empty()) return not_found("{} is not in the cache ({})", repo.text(), shown_path(settings.cache));
  auto chosen = select_files(names, wanted);
  if (!chosen.ok()) return std::move(chosen).status().with_context(repo.text() + " in the cache");
  Pulled out{*commit, model_path(cache, *commit, chosen->model), chosen->files};
  for (const std::string& name : out.files) {
    std::error_code ignored;
    out.bytes += fs::file_size(cache.snapshot(*commit) / name, ignored);
  }
  return out;
}

// What is to be fetched of the chosen files: each blob once, though several names may share it.
struct Work {
  std::vector<Blob> blobs;
  std::vector<const RemoteFile*> files;
  Pulled pulled;
};

Result<Work> plan_work(Api& api, Listing& listing, const Selection& chosen, const RepoCache& cache) {
  std::unordered_map<std::string_view, RemoteFile*> by_name;
  for (RemoteFile& file : listing.files) by_name.emplace(file.name, &file);
  Work out;
  out.pulled = {listing.commit, model_path(cache, listing.commit, chosen.model), chosen.files};
  std::set<std::string> etags;
  for (const std::string& name : chosen.files) {
    RemoteFile& file = *by_name.at(name);
    LITHE_RETURN_IF_ERROR(api.complete(file, listing.commit));
    out.files.push_back(&file);
    const auto sum = checked_add(out.pulled.bytes, file.size);
    if (!sum) return corrupt("the sizes that the hub lists overflow");
    out.pulled.bytes = *sum;
    if (has_blob(cache, file.etag, file.size) || !etags.insert(file.etag).second) continue;
    out.pulled.missing_bytes += file.size;
    out.blobs.push_back({api.file_url(listing.commit, name), name, listing.commit, file.etag, file.size});
  }
  return out;
}

// Bytes that earlier runs left of the blobs.
std::uint64_t begun_bytes(const RepoCache& cache, const std::vector<Blob>& blobs) {
  std::uint64_t bytes = 0;
  for (const Blob& blob : blobs) {
    std::error_code error;
    const auto size = fs::file_size(cache.incomplete(blob.etag), error);
    if (!error && size <= blob.size) bytes += size;
  }
  return bytes;
}

}  // namespace

Result<Pulled> pull(const Settings& settings, const Repo& repo, const Wanted& wanted, const Hooks& hooks,
                    const std::function<void(const Plan&)>& planned) {
  if (settings.offline) {
    auto found = from_cache(settings, repo, wanted);
    if (!found.ok()) return std::move(found).status().with_context("offline");
    return found;
  }
  if (origin_of(settings.endpoint).empty())
    return invalid("HF_ENDPOINT {} is no address of http or https", in_quotes(settings.endpoint));
  Api api(settings, repo, hooks);
  LITHE_ASSIGN_OR_RETURN(Listing listing, api.list());
  auto chosen = select_files(names_of(listing), wanted);
  if (!chosen.ok()) return std::move(chosen).status().with_context(repo.text());
  const RepoCache cache(settings.cache, repo.id);
  LITHE_ASSIGN_OR_RETURN(Work work, plan_work(api, listing, *chosen, cache));
  LITHE_RETURN_IF_ERROR(cache.prepare());
  LITHE_RETURN_IF_ERROR(
      check_room(cache.folder(), work.pulled.missing_bytes - begun_bytes(cache, work.blobs)));
  planned({work.blobs.size(), work.pulled.missing_bytes, chosen->note});
  LITHE_RETURN_IF_ERROR(Fetcher(settings, cache, std::move(work.blobs), hooks).run());
  if (hooks.cancelled()) return cancelled("interrupted");
  for (const RemoteFile* file : work.files)
    LITHE_RETURN_IF_ERROR(cache.link(listing.commit, file->name, file->etag));
  LITHE_RETURN_IF_ERROR(cache.set_ref(repo.revision, listing.commit));
  return work.pulled;
}

Result<fs::path> find_cached(const Settings& settings, const Repo& repo) {
  auto found = from_cache(settings, repo, {.type = repo.type});
  if (found.ok()) return found->model;
  if (found.status().code() != Code::not_found) return std::move(found).status();
  return not_found("{}: fetch it with `lithe pull {}`", found.status().message(), repo.text());
}

}  // namespace lithe::hub
