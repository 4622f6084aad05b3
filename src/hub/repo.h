// Names: of repositories as users write them, of files as servers claim them. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace lithe::hub {

/// "org/name", "org/name:Q4_K_M", "org/name@v1.0", "org/name@refs/pr/3:Q8_0".
struct Repo {
  std::string id;  // "org/name"; "name" for the few old ones without an owner
  std::string revision = "main";
  std::string type;          // of a GGUF file; empty: whatever the repository has
  std::string text() const;  // as it was written, without the parts that are as they would be anyway
};

/// invalid: no such name can exist; the message says what is wrong.
Result<Repo> parse_repo(std::string_view text);
Status check_revision(std::string_view revision);

/// Has the form "owner/name" and may be one, as against a path: does not begin with '.', '/' or '~'.
bool looks_like_repo(std::string_view text);

/// 40 hexadecimal digits.
bool is_commit(std::string_view text);

/// A file of a repository, under its name: a relative path of plain components, printable and within the lengths of file
/// systems. corrupt: a server that says otherwise is wrong or malicious.
Status check_file_name(std::string_view name);

/// What a server may call a blob, without quotes and "W/": "" unless it can be a file's name.
std::string clean_etag(std::string_view header);

/// Shell patterns as huggingface_hub understands them: '*' passes slashes too, "folder/" means all of it.
bool matches(const std::string& pattern, const std::string& name);

}  // namespace lithe::hub
