#include "hub/listing.h"

#include <charconv>
#include <unordered_set>

#include "base/json.h"
#include "base/text.h"
#include "hub/repo.h"

namespace lithe::hub {
namespace {

constexpr JsonLimits kLimits{.bytes = std::size_t{64} << 20, .depth = 32, .values = std::size_t{1} << 21};
constexpr std::size_t kMostFiles = 100'000;

const std::string* find_string(const Json& object, std::string_view key) {
  const Json* value = find_member(object, key);
  return value == nullptr ? nullptr : value->get_ptr<const std::string*>();
}

std::optional<std::uint64_t> find_size(const Json& object) {
  const Json* value = find_member(object, "size");
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  return value->get<std::uint64_t>();
}

// A file under its name; where its size and etag stand depends on the kind of answer and of file.
Result<RemoteFile> read_file_entry(const Json& entry, std::string_view name_key, std::string_view lfs_key,
                                   std::string_view oid_key) {
  RemoteFile file;
  const std::string* name = find_string(entry, name_key);
  if (name == nullptr) return corrupt("the server lists a file without a name");
  LITHE_RETURN_IF_ERROR(check_file_name(*name));
  file.name = *name;
  const Json* lfs = find_member(entry, "lfs");
  const bool large = lfs != nullptr && lfs->is_object();
  const std::string* etag = large ? find_string(*lfs, lfs_key) : find_string(entry, oid_key);
  auto size = large ? find_size(*lfs) : std::nullopt;
  if (!size) size = find_size(entry);
  if (etag != nullptr) file.etag = clean_etag(*etag);
  file.size = size.value_or(0);
  file.known = size.has_value() && !file.etag.empty();
  return file;
}

}  // namespace

Result<Listing> parse_model_info(std::string_view json) {
  LITHE_ASSIGN_OR_RETURN(const Json info, parse_json(json, kLimits));
  Listing out;
  const std::string* commit = find_string(info, "sha");
  if (commit == nullptr || !is_commit(*commit)) return corrupt("the server names no commit");
  out.commit = *commit;
  const Json* files = find_member(info, "siblings");
  if (files == nullptr || !files->is_array()) return corrupt("the server lists no files");
  if (files->size() > kMostFiles) return unsupported("a repository of more than {} files", kMostFiles);
  std::unordered_set<std::string> names;
  for (const Json& entry : *files) {
    LITHE_ASSIGN_OR_RETURN(RemoteFile file, read_file_entry(entry, "rfilename", "sha256", "blobId"));
    if (!names.insert(file.name).second) return corrupt("the server lists {} twice", in_quotes(file.name));
    out.files.push_back(std::move(file));
  }
  return out;
}

Result<std::vector<RemoteFile>> parse_tree(std::string_view json) {
  LITHE_ASSIGN_OR_RETURN(const Json page, parse_json(json, kLimits));
  if (!page.is_array()) return corrupt("the server lists no files");
  std::vector<RemoteFile> out;
  for (const Json& entry : page) {
    const std::string* type = find_string(entry, "type");
    if (type != nullptr && *type != "file") continue;
    LITHE_ASSIGN_OR_RETURN(RemoteFile file, read_file_entry(entry, "path", "oid", "oid"));
    out.push_back(std::move(file));
    if (out.size() > kMostFiles) return unsupported("a repository of more than {} files", kMostFiles);
  }
  return out;
}

std::string next_page(std::string_view header) {
  const std::size_t open = header.find('<');
  const std::size_t close = header.find('>', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return {};
  if (header.find("rel=\"next\"", close) == std::string_view::npos) return {};
  return std::string(header.substr(open + 1, close - open - 1));
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<ContentRange> parse_content_range(std::string_view header) {
  constexpr std::string_view kUnit = "bytes ";
  const std::size_t slash = header.find('/');
  if (!header.starts_with(kUnit) || slash == std::string_view::npos) return std::nullopt;
  const std::string_view range = header.substr(kUnit.size(), slash - kUnit.size());
  ContentRange out;
  if (const std::string_view total = header.substr(slash + 1); total != "*") {
    out.total = parse_size(total);
    if (!out.total) return std::nullopt;
  }
  if (range == "*") return out;
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  out.begin = parse_size(range.substr(0, dash));
  const auto last = parse_size(range.substr(dash + 1));
  if (!out.begin || !last || *last < *out.begin || (out.total && *last >= *out.total)) return std::nullopt;
  return out;
}

std::string error_text(std::string_view body) {
  const auto json = parse_json(body, {.bytes = 65536, .depth = 8, .values = 1000});
  if (!json.ok()) return {};
  const std::string* text = find_string(*json, "error");
  return text == nullptr ? std::string() : printable(*text, 200);
}

}  // namespace lithe::hub
