// What the hub's API says about a repository. Pure: an answer is untrusted, every name in it is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lithe::hub {

struct RemoteFile {
  std::string name;
  std::uint64_t size = 0;
  std::string etag;    // SHA-256 of a large file's content, or git's SHA-1 of a small one's; empty: not said
  bool known = false;  // size and etag were said
};

struct Listing {
  std::string commit;
  std::vector<RemoteFile> files;  // in the server's order, no name twice
};

/// Of /api/models/ID/revision/REV?blobs=true.
Result<Listing> parse_model_info(std::string_view json);
/// One page of /api/models/ID/tree/COMMIT?recursive=true: the files on it.
Result<std::vector<RemoteFile>> parse_tree(std::string_view json);
/// The address of the next page in a Link header: <ADDRESS>; rel="next". Empty: this was the last.
std::string next_page(std::string_view link_header);

/// "bytes 100-199/200" or "bytes */200".
struct ContentRange {
  std::optional<std::uint64_t> begin;
  std::optional<std::uint64_t> total;
};
std::optional<ContentRange> parse_content_range(std::string_view header);
/// Decimal digits and nothing else.
std::optional<std::uint64_t> parse_size(std::string_view text);
/// What the body of an error says, if it does so in the hub's way: {"error": "..."}; else nothing.
std::string error_text(std::string_view body);

}  // namespace lithe::hub
