// A model in one file or several: mapping, joining the shards of a split, typed access.
#include <charconv>
#include <cstring>

#include "base/check.h"
#include "base/text.h"
#include "formats/gguf.h"
#include "formats/gguf_wire.h"

namespace lithe::formats {

struct SplitKeys {
  std::uint64_t number = 0, count = 0, tensors = 0;  // number counts from 0, as the file does
};

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

}  // namespace

struct GgufFile::Shards {
  std::vector<Shard> shards;
  Status open_siblings(const SplitKeys& split);
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
  return {};
}

Status GgufFile::join(const SplitKeys& split) {
  std::vector<Shard>& shards = shards_->shards;
  path_ = shards.front().file.path();
  std::size_t count = 0;
  for (const Shard& shard : shards) count += shard.contents.tensors.size();
  if (shards.size() > 1 && count != split.tensors) {
    return corrupt("{}: its {} shards hold {} tensors, its metadata says {}", path_.string(), shards.size(),
                   count, split.tensors);
  }
  tensors_.reserve(count);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (GgufTensor& tensor : shards[i].contents.tensors) {
      tensor.shard = static_cast<int>(i);
      tensors_.push_back(std::move(tensor));
    }
    shards[i].contents.tensors.clear();
  }
  if (const auto repeated = index_tensors()) {
    return corrupt("{}: tensor {} is in another shard too",
                   shards[static_cast<std::size_t>(repeated->shard)].file.path().string(),
                   in_quotes(repeated->name));
  }
  GgufContents& first = shards.front().contents;
  metadata_ = Metadata(std::move(first.metadata), std::move(first.pairs));
  return {};
}

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  LITHE_ASSIGN_OR_RETURN(Shard shard, open_shard(path));
  auto keys = read_split_keys(shard.contents);
  if (!keys.ok()) return std::move(keys).status().with_context(path.string());
  GgufFile file(std::make_unique<Shards>());
  file.shards_->shards.push_back(std::move(shard));
  if (keys->count > 1) LITHE_RETURN_IF_ERROR(file.shards_->open_siblings(*keys));
  LITHE_RETURN_IF_ERROR(file.join(*keys));
  return file;
}

GgufFile::GgufFile(std::unique_ptr<Shards> shards) : shards_(std::move(shards)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

int GgufFile::shard_count() const {
  return static_cast<int>(shards_->shards.size());
}
std::uint32_t GgufFile::version() const {
  return shards_->shards.front().contents.version;
}
std::uint64_t GgufFile::alignment() const {
  return shards_->shards.front().contents.alignment;
}
std::string GgufFile::format_name() const {
  return fmt::format("GGUF version {}", version());
}

std::vector<std::filesystem::path> GgufFile::shard_paths() const {
  std::vector<std::filesystem::path> paths;
  paths.reserve(shards_->shards.size());
  for (const Shard& shard : shards_->shards) paths.push_back(shard.file.path());
  return paths;
}

std::uint64_t GgufFile::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const Shard& shard : shards_->shards) bytes += shard.file.bytes().size();
  return bytes;
}

Result<std::span<const std::byte>> GgufFile::slice(const GgufTensor& tensor, std::uint64_t index,
                                                   std::vector<std::byte>& /*scratch*/) const {
  const std::uint64_t slices = tensor.slices();
  LITHE_CHECK(index < slices);
  const std::size_t bytes = tensor.data.size() / slices;
  return tensor.data.subspan(static_cast<std::size_t>(index) * bytes, bytes);
}

void GgufFile::release(const GgufTensor& tensor, std::span<const std::byte> part) const {
  const MappedFile& file = shards_->shards[static_cast<std::size_t>(tensor.shard)].file;
  file.release(static_cast<std::size_t>(part.data() - file.bytes().data()), part.size());
}

}  // namespace lithe::formats
