// What a server answers, and what a user names: every parser sees every input. What passes must be safe as a path.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "hub/listing.h"
#include "hub/repo.h"
#include "hub/select.h"

namespace {

using namespace lithe::hub;

void check_inside(const std::string& name) {
  if (name.empty() || name.front() == '/' || name.find("//") != std::string::npos) std::abort();
  const std::string framed = "/" + name + "/";
  if (framed.find("/../") != std::string::npos || framed.find("/./") != std::string::npos) std::abort();
  if (name.find('\n') != std::string::npos || name.find('\0') != std::string::npos) std::abort();
}

void visit(const std::vector<RemoteFile>& files) {
  std::vector<std::string> names;
  for (const RemoteFile& file : files) {
    check_inside(file.name);
    if (!file.etag.empty()) check_inside(file.etag);
    if (file.etag.find('/') != std::string::npos) std::abort();
    names.push_back(file.name);
  }
  for (const Wanted& wanted :
       {Wanted{}, Wanted{.type = "Q4_0"}, Wanted{.include = {"*"}, .exclude = {"a*"}}}) {
    const auto chosen = select_files(names, wanted);
    if (chosen.ok() && chosen->files.empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto info = parse_model_info(text); info.ok()) {
    if (!is_commit(info->commit)) std::abort();
    visit(info->files);
  }
  if (const auto tree = parse_tree(text); tree.ok()) visit(*tree);
  if (const auto repo = parse_repo(text); repo.ok()) {
    check_inside(repo->id);
    check_inside(repo->revision);
    if (!parse_repo(repo->text()).ok()) std::abort();
  }
  if (const std::string etag = clean_etag(text); !etag.empty()) check_inside(etag);
  if (const auto range = parse_content_range(text);
      range && range->begin && range->total && *range->begin >= *range->total)
    std::abort();
  next_page(text);
  error_text(text);
  return 0;
}
