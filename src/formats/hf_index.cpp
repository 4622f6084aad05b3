#include "base/text.h"
#include "formats/hf_directory.h"

namespace lithe::formats {
namespace {

constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxShards = 4096;

// A name in the same folder, and of the one format that is read: an index is untrusted.
bool is_shard_name(std::string_view name) {
  return name.ends_with(".safetensors") && name.size() <= 255 && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

}  // namespace

Result<std::map<std::string, std::string>> parse_shard_index(std::string_view text) {
  LITHE_ASSIGN_OR_RETURN(const Json index, parse_json(text, {.bytes = kMaxIndexBytes}));
  const Json* places = find_member(index, "weight_map");
  if (places == nullptr || !places->is_object() || places->empty())
    return corrupt("it has no \"weight_map\" of tensors and their files");
  std::map<std::string, std::string> out;
  std::map<std::string_view, int> files;
  for (const auto& [tensor, file] : places->items()) {
    const auto* name = file.get_ptr<const std::string*>();
    if (name == nullptr) return corrupt("it places tensor {} in no file", in_quotes(tensor));
    if (!is_shard_name(*name)) {
      return corrupt("it places tensor {} in {}, which is no name of a safetensors file in its folder",
                     in_quotes(tensor), in_quotes(*name));
    }
    if (++files[*name] == 1 && files.size() > kMaxShards)
      return unsupported("more than {} shards", kMaxShards);
    out.emplace(tensor, *name);
  }
  return out;
}

}  // namespace lithe::formats
