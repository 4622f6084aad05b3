#include "hub/repo.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace lithe::hub {
namespace {

constexpr std::size_t kMostId = 96, kMostRevision = 200, kMostComponent = 255, kMostPath = 1024;

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f'); });
}

// Calls check(part) for each part between slashes; false as soon as one is.
template <typename Check>
bool every_part(std::string_view path, Check check) {
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (!check(path.substr(at, end - at))) return false;
    at = end + 1;
  }
  return true;
}

// The rules of the hub itself.
bool is_repo_id(std::string_view id) {
  if (id.empty() || id.size() > kMostId || std::count(id.begin(), id.end(), '/') > 1) return false;
  if (id.find("--") != std::string_view::npos || id.find("..") != std::string_view::npos) return false;
  return every_part(id, [](std::string_view part) {
    return !part.empty() && std::all_of(part.begin(), part.end(), is_plain) && part.front() != '.' &&
           part.front() != '-' && part.back() != '.' && part.back() != '-';
  });
}

}  // namespace

std::string Repo::text() const {
  return id + (revision == "main" ? "" : "@" + revision) + (type.empty() ? "" : ":" + type);
}

Status check_revision(std::string_view revision) {
  const bool good =
      revision.size() <= kMostRevision && every_part(revision, [](std::string_view part) {
        return !part.empty() && part.front() != '.' && part.front() != '-' &&
               std::all_of(part.begin(), part.end(), [](char c) { return is_plain(c) || c == '+'; });
      });
  return good ? Status() : invalid("{} is no name of a revision", in_quotes(revision));
}

Result<Repo> parse_repo(std::string_view text) {
  Repo out;
  std::string_view rest = text;
  // Either may come first: neither may contain the other's sign.
  while (true) {
    const std::size_t at = rest.find_last_of("@:");
    if (at == std::string_view::npos) break;
    const bool is_type = rest[at] == ':';
    const std::string_view part = rest.substr(at + 1);
    if (is_type) {
      if (!out.type.empty() || part.empty() || part.size() > 40 ||
          !std::all_of(part.begin(), part.end(), is_plain))
        return invalid("{}: the type after ':' is none, e.g. org/name:Q4_K_M", in_quotes(text));
      out.type = part;
    } else {
      LITHE_RETURN_IF_ERROR(check_revision(part));
      out.revision = part;
    }
    rest = rest.substr(0, at);
  }
  if (!is_repo_id(rest))
    return invalid("{} is no name of a repository, e.g. org/name or org/name:Q4_K_M", in_quotes(text));
  out.id = rest;
  return out;
}

bool looks_like_repo(std::string_view text) {
  if (text.empty() || text.front() == '.' || text.front() == '/' || text.front() == '~') return false;
  const auto repo = parse_repo(text);
  return repo.ok() && repo->id.find('/') != std::string::npos;
}

bool is_commit(std::string_view text) {
  return text.size() == 40 && is_hex(text);
}

Status check_file_name(std::string_view name) {
  const bool good = name.size() <= kMostPath && every_part(name, [](std::string_view part) {
                      return !part.empty() && part.size() <= kMostComponent && part != "." && part != ".." &&
                             part.find('\\') == std::string_view::npos &&
                             printable(part, kMostComponent * 4) == part;
                    });
  if (good) return {};
  return corrupt("the server lists a file named {}, which is no name inside a folder", in_quotes(name));
}

std::string clean_etag(std::string_view header) {
  if (header.starts_with("W/")) header.remove_prefix(2);
  if (header.size() >= 2 && header.front() == '"' && header.back() == '"')
    header = header.substr(1, header.size() - 2);
  const bool good = !header.empty() && header.size() <= 128 && header.front() != '.' &&
                    std::all_of(header.begin(), header.end(), is_plain);
  return good ? std::string(header) : std::string();
}

bool matches(const std::string& pattern, const std::string& name) {
  const std::string full = pattern.ends_with('/') ? pattern + "*" : pattern;
  return ::fnmatch(full.c_str(), name.c_str(), 0) == 0;
}

}  // namespace lithe::hub
