// A model in one file or several: mapping, joining the shards of a split, typed access.
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "base/check.h"
#include "base/text.h"
#include "formats/gguf.h"
#include "formats/gguf_wire.h"

namespace lithe::formats {
namespace {

constexpr std::uint64_t kMaxShards = 4096;

// What the name of a file says: "model-00002-of-00003.gguf" is number 2 of 3 with the stem "model".
struct ShardName {
  std::string stem;
  std::uint64_t number = 0, count = 0;
};

std::optional<std::uint64_t> five_digits(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.size() != 5 || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<ShardName> parse_shard_name(const std::string& name) {
  constexpr std::string_view kPattern = "-00000-of-00000.gguf";
  if (name.size() < kPattern.size()) return std::nullopt;
  const std::string_view tail = std::string_view(name).substr(name.size() - kPattern.size());
  const auto number = five_digits(tail.substr(1, 5)), count = five_digits(tail.substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf" || !number || !count) {
    return std::nullopt;
  }
  return ShardName{name.substr(0, name.size() - kPattern.size()), *number, *count};
}

std::string shard_file_name(const ShardName& name, std::uint64_t number) {
  return fmt::format("{}-{:05d}-of-{:05d}.gguf", name.stem, number, name.count);
}

struct Shard {
  MappedFile file;
  GgufContents contents;
};

Result<Shard> open_shard(const std::filesystem::path& path) {
  LITHE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  auto contents = parse_gguf(file.bytes());
  if (!contents.ok()) return std::move(contents).status().with_context(path.string());
  return Shard{std::move(file), std::move(contents).value()};
}

// A key of a shard's metadata as an unsigned integer; 0 if absent.
Result<std::uint64_t> split_key(const GgufContents& contents, std::string_view key) {
  const auto found = contents.metadata.find(key);
  if (found == contents.metadata.end()) return std::uint64_t{0};
  if (const auto* value = std::get_if<std::uint64_t>(&found->second)) return *value;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  if (value != nullptr && *value >= 0) return static_cast<std::uint64_t>(*value);
  return corrupt("{} is not a whole number", key);
}

struct SplitKeys {
  std::uint64_t number = 0, count = 0, tensors = 0;  // number counts from 0, as the file does
};

Result<SplitKeys> read_split_keys(const GgufContents& contents) {
  SplitKeys keys;
  LITHE_ASSIGN_OR_RETURN(keys.number, split_key(contents, "split.no"));
  LITHE_ASSIGN_OR_RETURN(keys.count, split_key(contents, "split.count"));
  LITHE_ASSIGN_OR_RETURN(keys.tensors, split_key(contents, "split.tensors.count"));
  return keys;
}

// Whether `shard`, found under the name of number `number` (from 0), belongs to the split that the file
// opened first describes.
Status check_shard(const Shard& shard, std::uint64_t number, const SplitKeys& split) {
  LITHE_ASSIGN_OR_RETURN(const SplitKeys keys, read_split_keys(shard.contents));
  if (keys.count != split.count) {
    return corrupt("it says it is one of {} shards, its siblings say {}: it belongs to another model",
                   keys.count, split.count);
  }
  if (keys.number != number) {
    return corrupt("its name says shard {}, its metadata shard {}", number + 1, keys.number + 1);
  }
  if (keys.tensors != split.tensors) {
    return corrupt("it belongs to a model of {} tensors, its siblings to one of {}", keys.tensors,
                   split.tensors);
  }
  return {};
}

const char* kind(const GgufValue& value) {
  constexpr const char* kNames[] = {"a bool",           "an integer", "an integer", "a float",
                                    "a string",         "an array",   "an array",   "an array of strings",
                                    "an array of bools"};
  return kNames[value.index()];
}

Status wrong_kind(std::string_view key, const GgufValue& value, const char* expected) {
  return corrupt("{} is {}, expected {}", key, kind(value), expected);
}

}  // namespace

struct GgufFile::Shards {
  std::filesystem::path path;
  std::vector<Shard> shards;
  std::vector<GgufTensor> tensors;
  std::unordered_map<std::string_view, std::size_t> by_name;

  const GgufContents& first() const { return shards.front().contents; }
  Status open_siblings(const SplitKeys& split);
  Status join(const SplitKeys& split);
};

// Replaces the one shard that was opened by all of its split, in order.
Status GgufFile::Shards::open_siblings(const SplitKeys& split) {
  Shard opened = std::move(shards.front());
  shards.clear();
  const std::filesystem::path given = opened.file.path();
  const auto context = given.string();
  const auto name = parse_shard_name(given.filename().string());
  if (!name) {
    return corrupt("{}: it is shard {} of {}, so its name must end in -{:05d}-of-{:05d}.gguf", context,
                   split.number + 1, split.count, split.number + 1, split.count);
  }
  if (name->count != split.count) {
    return corrupt("{}: its name says {} shards, its metadata {}", context, name->count, split.count);
  }
  if (split.count > kMaxShards) return unsupported("{}: a split of {} files", context, split.count);
  for (std::uint64_t i = 0; i < split.count; ++i) {
    const auto sibling = given.parent_path() / shard_file_name(*name, i + 1);
    if (i + 1 == name->number) {
      shards.push_back(std::move(opened));  // NOLINT(bugprone-use-after-move): one i only is its number
    } else {
      auto shard = open_shard(sibling);
      if (!shard.ok()) {
        if (shard.status().code() != Code::not_found) return std::move(shard).status();
        return not_found("{} is missing: the model is split into {} files", sibling.string(), split.count);
      }
      shards.push_back(std::move(shard).value());
    }
    auto status = check_shard(shards.back(), i, split);
    if (!status.ok()) return std::move(status).with_context(sibling.string());
  }
  path = shards.front().file.path();
  return {};
}

Status GgufFile::Shards::join(const SplitKeys& split) {
  std::size_t count = 0;
  for (const Shard& shard : shards) count += shard.contents.tensors.size();
  if (shards.size() > 1 && count != split.tensors) {
    return corrupt("{}: its {} shards hold {} tensors, its metadata says {}", path.string(), shards.size(),
                   count, split.tensors);
  }
  tensors.reserve(count);
  by_name.reserve(count);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (GgufTensor& tensor : shards[i].contents.tensors) {
      tensor.shard = static_cast<int>(i);
      if (!by_name.emplace(tensor.name, tensors.size()).second) {
        return corrupt("{}: tensor {} is in another shard too", shards[i].file.path().string(),
                       in_quotes(tensor.name));
      }
      tensors.push_back(std::move(tensor));
    }
    shards[i].contents.tensors.clear();
  }
  return {};
}

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  LITHE_ASSIGN_OR_RETURN(Shard shard, open_shard(path));
  auto keys = read_split_keys(shard.contents);
  if (!keys.ok()) return std::move(keys).status().with_context(path.string());
  auto all = std::make_unique<Shards>();
  all->path = path;
  all->shards.push_back(std::move(shard));
  if (keys->count > 1) LITHE_RETURN_IF_ERROR(all->open_siblings(*keys));
  LITHE_RETURN_IF_ERROR(all->join(*keys));
  return GgufFile(std::move(all));
}

GgufFile::GgufFile(std::unique_ptr<Shards> shards) : shards_(std::move(shards)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

const std::map<std::string_view, GgufValue>& GgufFile::metadata() const {
  return shards_->first().metadata;
}
std::span<const GgufPair> GgufFile::metadata_pairs() const {
  return shards_->first().pairs;
}
std::span<const GgufTensor> GgufFile::tensors() const {
  return shards_->tensors;
}
const std::filesystem::path& GgufFile::path() const {
  return shards_->path;
}
int GgufFile::shard_count() const {
  return static_cast<int>(shards_->shards.size());
}
std::uint32_t GgufFile::version() const {
  return shards_->first().version;
}
std::uint64_t GgufFile::alignment() const {
  return shards_->first().alignment;
}

std::vector<std::filesystem::path> GgufFile::shard_paths() const {
  std::vector<std::filesystem::path> paths;
  paths.reserve(shards_->shards.size());
  for (const Shard& shard : shards_->shards) paths.push_back(shard.file.path());
  return paths;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = shards_->by_name.find(name);
  return found == shards_->by_name.end() ? nullptr : &shards_->tensors[found->second];
}

std::uint64_t GgufFile::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const Shard& shard : shards_->shards) bytes += shard.file.bytes().size();
  return bytes;
}

void GgufFile::release(const GgufTensor& tensor, std::span<const std::byte> part) const {
  const MappedFile& file = shards_->shards[static_cast<std::size_t>(tensor.shard)].file;
  file.release(static_cast<std::size_t>(part.data() - file.bytes().data()), part.size());
}

Result<std::optional<std::uint64_t>> GgufFile::optional_uint(std::string_view key) const {
  const auto found = metadata().find(key);
  if (found == metadata().end()) return std::optional<std::uint64_t>();
  if (const auto* value = std::get_if<std::uint64_t>(&found->second)) return std::optional(*value);
  if (const auto* value = std::get_if<std::int64_t>(&found->second)) {
    if (*value < 0) return corrupt("{} is {}, expected a number of at least 0", key, *value);
    return std::optional(static_cast<std::uint64_t>(*value));
  }
  return wrong_kind(key, found->second, "an unsigned integer");
}

Result<std::optional<double>> GgufFile::optional_float(std::string_view key) const {
  const auto found = metadata().find(key);
  if (found == metadata().end()) return std::optional<double>();
  if (const auto* value = std::get_if<double>(&found->second)) return std::optional(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&found->second)) return std::optional(double(*value));
  if (const auto* value = std::get_if<std::int64_t>(&found->second)) return std::optional(double(*value));
  return wrong_kind(key, found->second, "a number");
}

Result<std::optional<bool>> GgufFile::optional_bool(std::string_view key) const {
  const auto found = metadata().find(key);
  if (found == metadata().end()) return std::optional<bool>();
  if (const auto* value = std::get_if<bool>(&found->second)) return std::optional(*value);
  return wrong_kind(key, found->second, "a bool");
}

Result<std::optional<std::string_view>> GgufFile::optional_string(std::string_view key) const {
  const auto found = metadata().find(key);
  if (found == metadata().end()) return std::optional<std::string_view>();
  if (const auto* value = std::get_if<std::string_view>(&found->second)) return std::optional(*value);
  return wrong_kind(key, found->second, "a string");
}

Result<std::uint64_t> GgufFile::required_uint(std::string_view key) const {
  LITHE_ASSIGN_OR_RETURN(const auto value, optional_uint(key));
  if (!value) return corrupt("{} has no key {}", path().string(), key);
  return *value;
}

Result<std::string_view> GgufFile::required_string(std::string_view key) const {
  LITHE_ASSIGN_OR_RETURN(const auto value, optional_string(key));
  if (!value) return corrupt("{} has no key {}", path().string(), key);
  return *value;
}

const std::vector<std::string_view>* GgufFile::string_array(std::string_view key) const {
  const auto found = metadata().find(key);
  return found == metadata().end() ? nullptr : std::get_if<std::vector<std::string_view>>(&found->second);
}

const std::vector<std::int64_t>* GgufFile::int_array(std::string_view key) const {
  const auto found = metadata().find(key);
  return found == metadata().end() ? nullptr : std::get_if<std::vector<std::int64_t>>(&found->second);
}

}  // namespace lithe::formats
