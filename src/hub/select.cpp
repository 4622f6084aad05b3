#include "hub/select.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/text.h"
#include "hub/listing.h"
#include "hub/repo.h"

namespace lithe::hub {
namespace {

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::toupper(c); });
  return out;
}

// A GGUF model: one file, or the parts "-00001-of-00003.gguf" of a split.
struct Gguf {
  std::string stem;  // the name without number and ending
  std::uint64_t parts = 1;
  std::vector<std::string> files;  // sorted
  bool complete() const { return files.size() == parts; }
};

struct PartName {
  std::string stem;
  std::uint64_t parts = 1;
};

std::optional<PartName> parse_gguf_name(const std::string& name) {
  constexpr std::string_view kEnding = ".gguf", kPart = "-00000-of-00000";
  if (!name.ends_with(kEnding)) return std::nullopt;
  const std::string stem = name.substr(0, name.size() - kEnding.size());
  if (stem.size() <= kPart.size()) return PartName{stem, 1};
  const std::string_view tail = std::string_view(stem).substr(stem.size() - kPart.size());
  const auto number = parse_size(tail.substr(1, 5)), count = parse_size(tail.substr(10));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !number || !count || *number == 0 || *number > *count)
    return PartName{stem, 1};
  return PartName{stem.substr(0, stem.size() - kPart.size()), *count};
}

// Files that go with a model and are none.
bool is_companion(std::string_view name) {
  const std::string base =
      upper(name.substr(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1));
  return base.starts_with("MMPROJ") || base.find("IMATRIX") != std::string::npos;
}

std::vector<Gguf> find_ggufs(const std::vector<std::string>& names) {
  std::map<std::pair<std::string, std::uint64_t>, Gguf> found;
  for (const std::string& name : names) {
    const auto part = parse_gguf_name(name);
    if (!part || is_companion(name)) continue;
    Gguf& model = found[{part->stem, part->parts}];
    model.stem = part->stem;
    model.parts = part->parts;
    model.files.push_back(name);
  }
  std::vector<Gguf> out;
  for (auto& [key, model] : found) {
    std::sort(model.files.begin(), model.files.end());
    out.push_back(std::move(model));
  }
  return out;
}

// "Q4_K_M" as a whole word of a name: "m-Q4_K_M", "m.q4_k_m", "Q4_K_M/m", not "m-Q4_K_M_XL".
bool has_type(std::string_view stem, std::string_view type) {
  const std::string text = upper(stem), word = upper(type);
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const auto separates = [](char c) { return c == '-' || c == '.' || c == '/'; };
    const bool begins = at == 0 || separates(text[at - 1]) || text[at - 1] == '_';
    if (begins && (end == text.size() || separates(text[end]))) return true;
  }
  return false;
}

std::string list_of(const std::vector<Gguf>& models) {
  std::string out;
  for (const Gguf& model : models) {
    if (out.size() > 600) return out + ", ...";
    out += (out.empty() ? "" : ", ") + printable(model.stem, 100);
  }
  return out;
}

Result<Selection> selection_of(const Gguf& model) {
  if (!model.complete()) {
    return not_found("{} has {} of its {} parts", printable(model.stem, 200), model.files.size(),
                     model.parts);
  }
  return Selection{model.files, model.files.front(), {}};
}

Result<Selection> select_type(const std::vector<Gguf>& models, const std::string& type) {
  std::vector<Gguf> fitting;
  std::copy_if(models.begin(), models.end(), std::back_inserter(fitting),
               [&](const Gguf& model) { return has_type(model.stem, type); });
  if (fitting.empty()) {
    if (models.empty()) return not_found("there is no GGUF file, so none of type {}", type);
    return not_found("there is no GGUF file of type {}, but {}", type, list_of(models));
  }
  if (fitting.size() > 1) return invalid("type {} fits {}: name one with --hf-file", type, list_of(fitting));
  return selection_of(fitting.front());
}

Result<Selection> select_default_gguf(const std::vector<Gguf>& models) {
  if (models.size() == 1) return selection_of(models.front());
  for (const char* type : {"Q4_K_M", "Q4_0", "Q8_0"}) {
    auto chosen = select_type(models, type);
    if (!chosen.ok()) continue;
    chosen->note = fmt::format("{} of {} GGUF models chosen; name another as :TYPE", type, models.size());
    return chosen;
  }
  return not_found("several GGUF models, name one as :TYPE: {}", list_of(models));
}

Result<Selection> select_file(const std::vector<std::string>& names, const std::string& file) {
  if (std::find(names.begin(), names.end(), file) == names.end())
    return not_found("there is no file {}", in_quotes(file, 300));
  for (const Gguf& model : find_ggufs(names)) {
    if (std::find(model.files.begin(), model.files.end(), file) != model.files.end())
      return selection_of(model);
  }
  return Selection{{file}, file.ends_with(".gguf") ? file : std::string(), {}};
}

// What a model of safetensors needs: in the repository's top folder, and what little is read of others.
bool belongs_to_safetensors(const std::string& name) {
  constexpr std::array kEndings = {".safetensors", ".json", ".jinja", ".txt", ".model", ".tiktoken"};
  if (name.find('/') != std::string::npos) {
    return name == "1_Pooling/config.json" ||
           (name.starts_with("additional_chat_templates/") && name.ends_with(".jinja"));
  }
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](const char* ending) { return name.ends_with(ending); });
}

// Mistral's own layout of the same weights, beside the one that is read.
bool is_duplicate(const std::string& name) {
  return name.starts_with("consolidated") && name.ends_with(".safetensors");
}

Result<Selection> select_safetensors(const std::vector<std::string>& names) {
  Selection out;
  const bool plain = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.starts_with("model") && name.ends_with(".safetensors");
  });
  for (const std::string& name : names) {
    if (belongs_to_safetensors(name) && !(plain && is_duplicate(name))) out.files.push_back(name);
  }
  return out;
}

Result<Selection> select_included(const std::vector<std::string>& names, const Wanted& wanted) {
  Selection out;
  for (const std::string& name : names) {
    const auto fits = [&](const std::string& pattern) { return matches(pattern, name); };
    if (std::any_of(wanted.include.begin(), wanted.include.end(), fits)) out.files.push_back(name);
  }
  if (out.files.empty()) return not_found("--include fits none of the {} files", names.size());
  return out;
}

bool any_ends_with(const std::vector<std::string>& names, std::string_view ending) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.ends_with(ending); });
}

Result<Selection> select_default(const std::vector<std::string>& names) {
  const bool safetensors = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.ends_with(".safetensors") && belongs_to_safetensors(name);
  });
  if (safetensors) return select_safetensors(names);
  if (const auto models = find_ggufs(names); !models.empty()) return select_default_gguf(models);
  if (any_ends_with(names, ".bin") || any_ends_with(names, ".pt") || any_ends_with(names, ".pth")) {
    return unsupported(
        "its weights are pickles, which could run code and are never read: look for a safetensors or GGUF "
        "version");
  }
  return not_found("it holds neither safetensors nor GGUF files; --include PATTERN fetches others");
}

}  // namespace

Result<Selection> select_files(const std::vector<std::string>& names, const Wanted& wanted) {
  if (!wanted.file.empty()) return select_file(names, wanted.file);
  std::vector<std::string> kept;
  std::copy_if(names.begin(), names.end(), std::back_inserter(kept), [&](const std::string& name) {
    return std::none_of(wanted.exclude.begin(), wanted.exclude.end(),
                        [&](const std::string& pattern) { return matches(pattern, name); });
  });
  auto out = !wanted.type.empty()      ? select_type(find_ggufs(kept), wanted.type)
             : !wanted.include.empty() ? select_included(kept, wanted)
                                       : select_default(kept);
  if (!out.ok()) return out;
  if (wanted.type.empty() && !wanted.include.empty()) {
    const auto models = find_ggufs(out->files);
    if (models.size() == 1 && models.front().complete() && !any_ends_with(out->files, ".safetensors"))
      out->model = models.front().files.front();
  }
  std::sort(out->files.begin(), out->files.end());
  return out;
}

}  // namespace lithe::hub
