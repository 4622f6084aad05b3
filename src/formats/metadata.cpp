#include "formats/metadata.h"

#include <cstring>

#include "base/text.h"
#include "formats/gguf.h"
#include "formats/gguf_wire.h"

namespace lithe::formats {
namespace {

using namespace wire;

template <typename T>
void append(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void append_string(std::string& out, std::string_view text) {
  append<std::uint64_t>(out, text.size());
  out += text;
}

constexpr std::uint32_t type_of(bool) {
  return kBool;
}
constexpr std::uint32_t type_of(std::uint8_t) {
  return kU8;
}
constexpr std::uint32_t type_of(std::int32_t) {
  return kI32;
}
constexpr std::uint32_t type_of(std::uint32_t) {
  return kU32;
}
constexpr std::uint32_t type_of(std::int64_t) {
  return kI64;
}
constexpr std::uint32_t type_of(std::uint64_t) {
  return kU64;
}
constexpr std::uint32_t type_of(float) {
  return kF32;
}
constexpr std::uint32_t type_of(double) {
  return kF64;
}

// One value's type and bytes.
struct Encoded {
  std::uint32_t type;
  std::string bytes;
};

template <typename T>
  requires std::is_arithmetic_v<T>
Encoded encode(T value) {
  Encoded out{type_of(value), {}};
  if constexpr (std::is_same_v<T, bool>) {
    append<std::uint8_t>(out.bytes, value ? 1 : 0);
  } else {
    append(out.bytes, value);
  }
  return out;
}

Encoded encode(std::string_view text) {
  Encoded out{kString, {}};
  append_string(out.bytes, text);
  return out;
}
Encoded encode(const std::string& text) {
  return encode(std::string_view(text));
}

template <typename T>
Encoded encode(const std::vector<T>& values) {
  Encoded out{kArray, {}};
  append<std::uint32_t>(out.bytes, encode(T{}).type);
  append<std::uint64_t>(out.bytes, values.size());
  for (const T& value : values) out.bytes += encode(value).bytes;
  return out;
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

Result<std::optional<std::uint64_t>> Metadata::optional_uint(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::optional<std::uint64_t>();
  if (const auto* value = std::get_if<std::uint64_t>(&found->second)) return std::optional(*value);
  if (const auto* value = std::get_if<std::int64_t>(&found->second)) {
    if (*value < 0) return corrupt("{} is {}, expected a number of at least 0", key, *value);
    return std::optional(static_cast<std::uint64_t>(*value));
  }
  return wrong_kind(key, found->second, "an unsigned integer");
}

Result<std::optional<double>> Metadata::optional_float(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::optional<double>();
  if (const auto* value = std::get_if<double>(&found->second)) return std::optional(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&found->second)) return std::optional(double(*value));
  if (const auto* value = std::get_if<std::int64_t>(&found->second)) return std::optional(double(*value));
  return wrong_kind(key, found->second, "a number");
}

Result<std::optional<bool>> Metadata::optional_bool(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::optional<bool>();
  if (const auto* value = std::get_if<bool>(&found->second)) return std::optional(*value);
  return wrong_kind(key, found->second, "a bool");
}

Result<std::optional<std::string_view>> Metadata::optional_string(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::optional<std::string_view>();
  if (const auto* value = std::get_if<std::string_view>(&found->second)) return std::optional(*value);
  return wrong_kind(key, found->second, "a string");
}

Result<std::uint64_t> Metadata::required_uint(std::string_view key) const {
  LITHE_ASSIGN_OR_RETURN(const auto value, optional_uint(key));
  if (!value) return corrupt("it has no key {}", key);
  return *value;
}

Result<std::string_view> Metadata::required_string(std::string_view key) const {
  LITHE_ASSIGN_OR_RETURN(const auto value, optional_string(key));
  if (!value) return corrupt("it has no key {}", key);
  return *value;
}

const GgufValue* Metadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

const std::vector<std::string_view>* Metadata::string_array(std::string_view key) const {
  return std::get_if<std::vector<std::string_view>>(find(key));
}
const std::vector<std::int64_t>* Metadata::int_array(std::string_view key) const {
  return std::get_if<std::vector<std::int64_t>>(find(key));
}
const std::vector<double>* Metadata::float_array(std::string_view key) const {
  return std::get_if<std::vector<double>>(find(key));
}
const std::vector<bool>* Metadata::bool_array(std::string_view key) const {
  return std::get_if<std::vector<bool>>(find(key));
}

void MetadataBuilder::put(std::string key, std::uint32_t type, std::string value) {
  const auto [at, is_new] = keys_.emplace(key, pairs_.size());
  if (is_new) {
    pairs_.push_back({std::move(key), std::move(value), type});
  } else {
    pairs_[at->second] = {std::move(key), std::move(value), type};
  }
}

void MetadataBuilder::add(std::string key, Value value) {
  Encoded encoded = std::visit([](const auto& v) { return encode(v); }, value);
  put(std::move(key), encoded.type, std::move(encoded.bytes));
}

void MetadataBuilder::copy(const GgufPair& pair) {
  put(std::string(pair.key), pair.type,
      std::string(reinterpret_cast<const char*>(pair.value.data()), pair.value.size()));
}

Status MetadataBuilder::append_to(std::string& bytes) const {
  for (const Pair& pair : pairs_) {
    if (pair.key.empty()) return invalid("a metadata key is empty");
    if (pair.key == kAlignmentKey)
      return invalid("{} is the writer's own: {}", kAlignmentKey, GgufWriter::kAlignment);
    append_string(bytes, pair.key);
    append<std::uint32_t>(bytes, pair.type);
    bytes += pair.value;
  }
  return {};
}

Result<Metadata> MetadataBuilder::build() const {
  std::string bytes(kMagic);
  append<std::uint32_t>(bytes, kMaxVersion);
  append<std::uint64_t>(bytes, 0);
  append<std::uint64_t>(bytes, pairs_.size());
  LITHE_RETURN_IF_ERROR(append_to(bytes));
  auto owned = std::make_unique<const std::string>(std::move(bytes));
  LITHE_ASSIGN_OR_RETURN(GgufContents contents, parse_gguf(std::as_bytes(std::span(*owned))));
  Metadata out(std::move(contents.metadata), std::move(contents.pairs));
  out.bytes_ = std::move(owned);
  return out;
}

}  // namespace lithe::formats
