#include "formats/hf_directory.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "base/text.h"

namespace lithe::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr const char* kAdapterConfig = "adapter_config.json";
constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// Caps far above what real models have: the largest tokenizer.json is some 35 MB.
struct TextFile {
  HfText which;
  std::string_view name;
  std::size_t limit;
};
constexpr std::string_view kTemplates = "additional_chat_templates", kJinja = ".jinja";
constexpr std::size_t kMostTemplates = 64;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr TextFile kTexts[] = {
    {HfText::tokenizer_json, "tokenizer.json", 256 * kMiB},
    {HfText::tokenizer_model, "tokenizer.model", 64 * kMiB},
    {HfText::tokenizer_config, "tokenizer_config.json", 64 * kMiB},
    {HfText::special_tokens_map, "special_tokens_map.json", 16 * kMiB},
    {HfText::added_tokens, "added_tokens.json", 64 * kMiB},
    {HfText::vocab_json, "vocab.json", 64 * kMiB},
    {HfText::vocab_txt, "vocab.txt", 64 * kMiB},
    {HfText::merges_txt, "merges.txt", 64 * kMiB},
    {HfText::generation_config, "generation_config.json", kMiB},
    {HfText::chat_template_jinja, "chat_template.jinja", kMiB},
    {HfText::chat_template_json, "chat_template.json", 2 * kMiB},
};

const TextFile& text_file(HfText which) {
  const TextFile& file = kTexts[static_cast<std::size_t>(which)];
  LITHE_CHECK(file.which == which);
  return file;
}

bool is_dangling(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(path, ignored) && !fs::exists(path, ignored);
}

bool present(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The names in a folder that end in one of `endings`, sorted. No fault: what cannot be listed has no names.
std::vector<std::string> files_ending(const fs::path& folder,
                                      std::initializer_list<std::string_view> endings) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    const auto matches = [&](std::string_view ending) { return name.ends_with(ending); };
    if (std::any_of(endings.begin(), endings.end(), matches)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> read_capped(const fs::path& path, std::size_t limit) {
  LITHE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > limit)
    return unsupported("{} is larger than such a file can be ({} bytes)", shown_path(path), limit);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// The folder has neither model.safetensors nor its index: what to say about what it has instead.
Status no_weights(const fs::path& folder) {
  const std::string where = shown_path(folder);
  for (const char* name : {kIndex, kSingleFile}) {
    if (is_dangling(folder / name))
      return not_found("{} is a link to a file that is not there: fetch the model again",
                       shown_path(folder / name));
  }
  if (const auto parts = files_ending(folder, {".safetensors"}); !parts.empty()) {
    if (parts.front().starts_with("adapter_"))
      return unsupported("{} holds an adapter ({}), not a model", where, printable(parts.front()));
    return not_found("{} holds {}, but neither {} nor {}: fetch the model again", where,
                     printable(parts.front()), kSingleFile, kIndex);
  }
  if (const auto files = files_ending(folder, {".gguf"}); !files.empty())
    return not_found("{} holds no safetensors; name the GGUF file itself: {}", where,
                     shown_path(folder / files.front()));
  if (const auto pickles = files_ending(folder, {".bin", ".pt", ".pth"}); !pickles.empty()) {
    return unsupported(
        "{} holds its weights as a pickle ({}), which could run code and is never read: use a safetensors or "
        "GGUF "
        "version of the model, or save it again with Transformers' save_pretrained()",
        where, printable(pickles.front()));
  }
  return not_found("{} holds no weights: neither {} nor {}", where, kSingleFile, kIndex);
}

// Models that also see state what their language model is in a part of its own; it is what Lithe runs.
Json language_part(Json config) {
  const auto part = config.find("text_config");
  if (part == config.end() || !part->is_object()) return config;
  const Json text = std::move(*part);
  config.erase(part);
  for (const auto& [key, value] : text.items()) {
    if (key != "architectures") config[key] = value;
  }
  return config;
}

}  // namespace

std::string_view file_name(HfText text) {
  return text_file(text).name;
}

bool is_hf_directory(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return false;
  return present(path / kConfig) || present(path / file_name(HfText::tokenizer_json)) ||
         present(path / kSingleFile) || present(path / kIndex) || present(path / kAdapterConfig);
}

struct HfDirectory::Contents {
  fs::path path;
  Json config = Json::object();
  std::vector<MappedFile> shards;
  std::vector<SafetensorsTensor> tensors;
  std::unordered_map<std::string_view, std::size_t> by_name;
  std::vector<std::string> warnings;

  using Places = std::map<std::string, std::string>;
  Status read_config(Parts parts);
  Status open_weights();
  Status open_indexed(const Places& places);
  Status open_shard(const std::string& name, const Places* places);
  void index_tensors();
  void warn_of_strays(const std::set<std::string_view>& files);
};

Status HfDirectory::Contents::read_config(Parts parts) {
  const fs::path file = path / kConfig;
  if (!present(file)) {
    if (parts == Parts::text_only) return {};
    if (present(path / kAdapterConfig))
      return unsupported("{} holds an adapter, not a model: merge it into the model that it was trained on",
                         shown_path(path));
    return not_found("{} has no {}: it is not a Hugging Face model", shown_path(path), kConfig);
  }
  LITHE_ASSIGN_OR_RETURN(const std::string text, read_capped(file, kMiB));
  auto parsed = parse_json(text);
  if (!parsed.ok()) return std::move(parsed).status().with_context(shown_path(file));
  if (!parsed->is_object()) return corrupt("{}: not an object", shown_path(file));
  config = language_part(std::move(parsed).value());
  return {};
}

Status HfDirectory::Contents::open_weights() {
  if (!present(path / kIndex)) {
    if (!present(path / kSingleFile)) return no_weights(path);
    LITHE_RETURN_IF_ERROR(open_shard(kSingleFile, nullptr));
    index_tensors();
    warn_of_strays({kSingleFile});
    return {};
  }
  LITHE_ASSIGN_OR_RETURN(const std::string text, read_capped(path / kIndex, 64 * kMiB));
  auto places = parse_shard_index(text);
  if (!places.ok()) return std::move(places).status().with_context(shown_path(path / kIndex));
  return open_indexed(*places);
}

Status HfDirectory::Contents::open_indexed(const Places& places) {
  std::map<std::string_view, std::size_t> files;
  for (const auto& [tensor, file] : places) ++files[file];
  std::set<std::string_view> names;
  for (const auto& [file, count] : files) {  // all of them before any is read
    names.insert(file);
    if (!present(path / file)) {
      return not_found("{} is missing: {} places {} tensors in it", shown_path(path / file), kIndex, count);
    }
  }
  for (const auto& [file, count] : files) LITHE_RETURN_IF_ERROR(open_shard(std::string(file), &places));
  index_tensors();
  for (const auto& [tensor, file] : places) {
    if (!by_name.contains(tensor)) {
      return corrupt("{} holds no tensor {}, which {} places there", shown_path(path / file),
                     in_quotes(tensor), kIndex);
    }
  }
  warn_of_strays(names);
  return {};
}

Status HfDirectory::Contents::open_shard(const std::string& name, const Places* places) {
  const fs::path file = path / name;
  LITHE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(file));
  auto parsed = parse_safetensors(mapped.bytes());
  if (!parsed.ok()) return std::move(parsed).status().with_context(shown_path(file));
  std::size_t unknown = 0;
  tensors.reserve(tensors.size() + parsed->tensors.size());
  for (SafetensorsTensor& tensor : parsed->tensors) {
    if (places != nullptr) {
      const auto place = places->find(tensor.name);
      if (place == places->end()) {
        ++unknown;
        continue;
      }
      if (place->second != name) {
        return corrupt("{} holds tensor {}, which {} places in {}", shown_path(file), in_quotes(tensor.name),
                       kIndex, printable(place->second, 255));
      }
    }
    tensor.shard = static_cast<int>(shards.size());
    tensors.push_back(std::move(tensor));
  }
  if (unknown > 0) {
    warnings.push_back(
        fmt::format("{}: {} tensors that {} does not name are ignored", shown_path(file), unknown, kIndex));
  }
  shards.push_back(std::move(mapped));
  return {};
}

// After the last shard: the keys borrow from elements that may move before.
void HfDirectory::Contents::index_tensors() {
  by_name.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) by_name.emplace(tensors[i].name, i);
}

void HfDirectory::Contents::warn_of_strays(const std::set<std::string_view>& files) {
  std::vector<std::string> strays = files_ending(path, {".safetensors"});
  std::erase_if(strays, [&](const std::string& name) { return files.contains(name); });
  if (strays.empty()) return;
  warnings.push_back(fmt::format("{}: {} {} no part of the model and ignored", shown_path(path),
                                 printable(fmt::format("{}", fmt::join(strays, ", ")), 200),
                                 strays.size() == 1 ? "is" : "are"));
}

Result<HfDirectory> HfDirectory::open(const fs::path& folder, Parts parts) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return not_found("{} is not a folder", shown_path(folder));
  auto contents = std::make_unique<Contents>();
  contents->path = folder;
  LITHE_RETURN_IF_ERROR(contents->read_config(parts));
  if (parts == Parts::all) LITHE_RETURN_IF_ERROR(contents->open_weights());
  return HfDirectory(std::move(contents));
}

HfDirectory::HfDirectory(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
HfDirectory::HfDirectory(HfDirectory&&) noexcept = default;
HfDirectory& HfDirectory::operator=(HfDirectory&&) noexcept = default;
HfDirectory::~HfDirectory() = default;

const fs::path& HfDirectory::path() const {
  return contents_->path;
}
const Json& HfDirectory::config() const {
  return contents_->config;
}
std::span<const SafetensorsTensor> HfDirectory::tensors() const {
  return contents_->tensors;
}
std::span<const std::string> HfDirectory::warnings() const {
  return contents_->warnings;
}

const SafetensorsTensor* HfDirectory::find_tensor(std::string_view name) const {
  const auto found = contents_->by_name.find(name);
  return found == contents_->by_name.end() ? nullptr : &contents_->tensors[found->second];
}

std::uint64_t HfDirectory::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const MappedFile& shard : contents_->shards) bytes += shard.bytes().size();
  return bytes;
}

std::vector<fs::path> HfDirectory::shard_paths() const {
  std::vector<fs::path> paths;
  paths.reserve(contents_->shards.size());
  for (const MappedFile& shard : contents_->shards) paths.push_back(shard.path());
  return paths;
}

Result<std::optional<std::string>> HfDirectory::text(HfText which) const {
  const TextFile& file = text_file(which);
  const fs::path full = contents_->path / file.name;
  if (!present(full)) return std::optional<std::string>();
  LITHE_ASSIGN_OR_RETURN(std::string bytes, read_capped(full, file.limit));
  return std::optional(std::move(bytes));
}

Result<std::optional<Json>> HfDirectory::json(HfText which) const {
  LITHE_ASSIGN_OR_RETURN(const auto bytes, text(which));
  if (!bytes) return std::optional<Json>();
  auto parsed = parse_json(*bytes, {.bytes = bytes->size()});
  if (!parsed.ok())
    return std::move(parsed).status().with_context(shown_path(contents_->path / file_name(which)));
  return std::optional(std::move(parsed).value());
}

Result<std::vector<std::pair<std::string, std::string>>> HfDirectory::additional_templates() const {
  const fs::path folder = contents_->path / kTemplates;
  std::vector<std::pair<std::string, std::string>> templates;
  for (const std::string& name : files_ending(folder, {kJinja})) {
    if (templates.size() == kMostTemplates)
      return unsupported("{} holds more than {} templates", shown_path(folder), kMostTemplates);
    LITHE_ASSIGN_OR_RETURN(std::string text, read_capped(folder / name, kMiB));
    templates.emplace_back(name.substr(0, name.size() - kJinja.size()), std::move(text));
  }
  return templates;
}

void HfDirectory::release(const SafetensorsTensor& tensor, std::span<const std::byte> part) const {
  const MappedFile& file = contents_->shards[static_cast<std::size_t>(tensor.shard)];
  file.release(static_cast<std::size_t>(part.data() - file.bytes().data()), part.size());
}

}  // namespace lithe::formats
