// From bytes to GgufContents. Nothing here trusts a number of the file: counts are compared with the bytes
// left before anything is reserved, sums and products are checked, and what does not fit is named.
#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "base/checked.h"
#include "base/text.h"
#include "formats/gguf.h"
#include "formats/gguf_wire.h"

namespace lithe::formats {
namespace {

using namespace wire;

// A decoded pair or tensor costs more memory than its bytes in the file (at most 16 times, for an array of
// one-byte numbers). Real models need some 20 MB; beyond this a file is refused rather than decoded.
constexpr std::uint64_t kMaxDecodedBytes = std::uint64_t{1} << 30;
// The least bytes of a pair: key length, one byte of key, type, value. Of a tensor info: name length, one
// byte of name, count of dimensions, type, offset.
constexpr std::uint64_t kMinPairBytes = 8 + 1 + 4 + 1, kMinTensorBytes = 8 + 1 + 4 + 4 + 8;
constexpr std::uint64_t kMaxKeyBytes = 65535;

class Parser {
 public:
  explicit Parser(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<GgufContents> parse() {
    std::uint64_t tensor_count = 0, pair_count = 0;
    LITHE_RETURN_IF_ERROR(read_head(tensor_count, pair_count));
    LITHE_RETURN_IF_ERROR(read_pairs(pair_count));
    LITHE_RETURN_IF_ERROR(read_alignment());
    LITHE_RETURN_IF_ERROR(read_tensor_infos(tensor_count));
    LITHE_RETURN_IF_ERROR(place_tensors());
    return std::move(out_);
  }

 private:
  std::uint64_t left() const { return bytes_.size() - at_; }

  template <typename T>
  bool read(T& value) {
    if (left() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  // A length and that many bytes. False: they do not fit into what is left.
  bool read_string(std::string_view& text) {
    std::uint64_t length;
    if (!read(length) || length > left()) return false;
    text = {reinterpret_cast<const char*>(bytes_.data()) + at_, static_cast<std::size_t>(length)};
    at_ += static_cast<std::size_t>(length);
    return true;
  }

  Status charge(std::uint64_t bytes) {
    decoded_ += bytes;  // no overflow: each charge is at most 16 times a part of a file
    if (decoded_ <= kMaxDecodedBytes) return {};
    return exhausted("its metadata would take more than {} of memory", human_bytes(double(kMaxDecodedBytes)));
  }

  Status read_head(std::uint64_t& tensor_count, std::uint64_t& pair_count);
  Status read_pairs(std::uint64_t count);
  Status read_value(std::string_view key, std::uint32_t type, GgufValue& value);
  Status read_array(std::string_view key, GgufValue& value);
  Status read_strings(std::string_view key, std::uint64_t count, GgufValue& value);
  Status read_bool(std::string_view key, bool& value);
  template <typename T, typename Wide>
  Status read_numbers(std::string_view key, std::uint64_t count, GgufValue& value);
  Status read_alignment();
  Status read_tensor_infos(std::uint64_t count);
  Status read_tensor_info(std::uint64_t index, std::uint64_t count);
  Status place_tensors();
  Status check_padding(const GgufTensor& last, std::uint64_t end) const;

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::uint64_t decoded_ = 0;
  GgufContents out_;
  std::vector<std::uint64_t> offsets_;  // of each tensor, from the start of the data; sizes likewise
  std::vector<std::uint64_t> sizes_;
};

Status not_gguf(std::string_view start) {
  if (start.starts_with("version https://git-lfs")) {
    return corrupt("it is a Git LFS pointer, not the model itself: run `git lfs pull`");
  }
  if (start.starts_with("ggml") || start.starts_with("lmgg") || start.starts_with("tjgg") ||
      start.starts_with("fmgg")) {
    return unsupported(
        "it is a GGML file from before GGUF (2023): convert it with llama.cpp's converter first");
  }
  if (start.starts_with("<!DOCTYPE") || start.starts_with("<html")) {
    return corrupt("it is a web page, not a model: the download went wrong");
  }
  if (start.size() > 9 && start.substr(8).starts_with("{\""))
    return unsupported("it is a safetensors file, not GGUF");
  return corrupt("it is not a GGUF file: it begins with {}", in_quotes(start.substr(0, 4)));
}

Status Parser::read_head(std::uint64_t& tensor_count, std::uint64_t& pair_count) {
  const std::string_view start(reinterpret_cast<const char*>(bytes_.data()),
                               std::min<std::size_t>(bytes_.size(), 64));
  if (start.empty()) return corrupt("it is empty");
  if (!start.starts_with(kMagic)) return not_gguf(start);
  at_ = kMagic.size();
  if (!read(out_.version)) return corrupt("it ends after the magic number");
  const std::uint32_t swapped = __builtin_bswap32(out_.version);
  if (out_.version > 0xffffu && swapped <= kMaxVersion + 1) {
    return unsupported("it is a big-endian GGUF file (version {}): convert it to little-endian first",
                       swapped);
  }
  if (out_.version < kMinVersion || out_.version > kMaxVersion) {
    return unsupported(
        "it is GGUF version {}; Lithe reads versions {} and {}{}", out_.version, kMinVersion, kMaxVersion,
        out_.version == 1 ? " (version 1 was replaced within days: fetch a newer conversion)" : "");
  }
  if (!read(tensor_count) || !read(pair_count)) return corrupt("it ends within its header");
  if (pair_count > left() / kMinPairBytes) {
    return corrupt("it claims {} metadata pairs, more than its {} bytes can hold", pair_count, bytes_.size());
  }
  if (tensor_count > left() / kMinTensorBytes) {
    return corrupt("it claims {} tensors, more than its {} bytes can hold", tensor_count, bytes_.size());
  }
  return {};
}

Status Parser::read_pairs(std::uint64_t count) {
  LITHE_RETURN_IF_ERROR(charge(count * (sizeof(GgufPair) + sizeof(GgufValue) + 64)));
  out_.pairs.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string_view key;
    std::uint32_t type;
    if (!read_string(key) || !read(type)) {
      const auto after =
          out_.pairs.empty() ? std::string() : " (after " + in_quotes(out_.pairs.back().key) + ")";
      return corrupt("it ends within the key of metadata pair {} of {}{}", i + 1, count, after);
    }
    if (key.empty() || key.size() > kMaxKeyBytes) {
      return corrupt("metadata pair {} of {} has a key of {} bytes", i + 1, count, key.size());
    }
    const std::size_t begin = at_;
    GgufValue value;
    LITHE_RETURN_IF_ERROR(read_value(key, type, value));
    if (!out_.metadata.emplace(key, std::move(value)).second)
      return corrupt("key {} appears twice", in_quotes(key));
    out_.pairs.push_back({key, type, bytes_.subspan(begin, at_ - begin)});
  }
  return {};
}

Status ends_within(std::string_view key) {
  return corrupt("it ends within the value of key {}", in_quotes(key));
}

Status Parser::read_bool(std::string_view key, bool& value) {
  std::uint8_t byte;
  if (!read(byte)) return ends_within(key);
  if (byte > 1) return corrupt("key {}: a bool must be 0 or 1, not {}", in_quotes(key), byte);
  value = byte == 1;
  return {};
}

Status Parser::read_value(std::string_view key, std::uint32_t type, GgufValue& value) {
  const auto number = [&]<typename T, typename Wide>(T, Wide) -> Status {
    T raw;
    if (!read(raw)) return ends_within(key);
    value = static_cast<Wide>(raw);
    return {};
  };
  constexpr std::int64_t kSigned = 0;
  constexpr std::uint64_t kUnsigned = 0;
  switch (type) {
    case kU8:
      return number(std::uint8_t{}, kUnsigned);
    case kU16:
      return number(std::uint16_t{}, kUnsigned);
    case kU32:
      return number(std::uint32_t{}, kUnsigned);
    case kU64:
      return number(std::uint64_t{}, kUnsigned);
    case kI8:
      return number(std::int8_t{}, kSigned);
    case kI16:
      return number(std::int16_t{}, kSigned);
    case kI32:
      return number(std::int32_t{}, kSigned);
    case kI64:
      return number(std::int64_t{}, kSigned);
    case kF32:
      return number(float{}, double{});
    case kF64:
      return number(double{}, double{});
    case kBool: {
      bool flag = false;
      LITHE_RETURN_IF_ERROR(read_bool(key, flag));
      value = flag;
      return {};
    }
    case kString: {
      std::string_view text;
      if (!read_string(text)) return ends_within(key);
      value = text;
      return {};
    }
    case kArray:
      return read_array(key, value);
    default:
      return corrupt("key {} has a value of type {}, which GGUF does not define", in_quotes(key), type);
  }
}

template <typename T, typename Wide>
Status Parser::read_numbers(std::string_view key, std::uint64_t count, GgufValue& value) {
  std::vector<Wide> numbers(static_cast<std::size_t>(count));
  const std::byte* from = bytes_.data() + at_;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T raw;
    std::memcpy(&raw, from + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (raw > std::uint64_t{INT64_MAX})
        return unsupported("key {}: element {} is {}", in_quotes(key), i, raw);
    }
    numbers[i] = static_cast<Wide>(raw);
  }
  at_ += numbers.size() * sizeof(T);
  value = std::move(numbers);
  return {};
}

Status Parser::read_strings(std::string_view key, std::uint64_t count, GgufValue& value) {
  std::vector<std::string_view> texts(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!read_string(texts[i]))
      return corrupt("it ends within element {} of {} of key {}", i, count, in_quotes(key));
  }
  value = std::move(texts);
  return {};
}

Status Parser::read_array(std::string_view key, GgufValue& value) {
  std::uint32_t type;
  std::uint64_t count;
  if (!read(type) || !read(count)) return ends_within(key);
  if (type >= kValueTypes) {
    return corrupt("key {} is an array of type {}, which GGUF does not define", in_quotes(key), type);
  }
  if (type == kArray) return unsupported("key {} is an array of arrays", in_quotes(key));
  if (count > left() / kValueBytes[type]) {
    return corrupt("key {} claims {} elements of type {}, but only {} bytes follow", in_quotes(key), count,
                   kValueNames[type], left());
  }
  LITHE_RETURN_IF_ERROR(charge(count * sizeof(std::string_view)));
  switch (type) {
    case kU8:
      return read_numbers<std::uint8_t, std::int64_t>(key, count, value);
    case kI8:
      return read_numbers<std::int8_t, std::int64_t>(key, count, value);
    case kU16:
      return read_numbers<std::uint16_t, std::int64_t>(key, count, value);
    case kI16:
      return read_numbers<std::int16_t, std::int64_t>(key, count, value);
    case kU32:
      return read_numbers<std::uint32_t, std::int64_t>(key, count, value);
    case kI32:
      return read_numbers<std::int32_t, std::int64_t>(key, count, value);
    case kU64:
      return read_numbers<std::uint64_t, std::int64_t>(key, count, value);
    case kI64:
      return read_numbers<std::int64_t, std::int64_t>(key, count, value);
    case kF32:
      return read_numbers<float, double>(key, count, value);
    case kF64:
      return read_numbers<double, double>(key, count, value);
    case kString:
      return read_strings(key, count, value);
    default:
      break;
  }
  std::vector<bool> flags(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < flags.size(); ++i) {
    bool flag = false;
    LITHE_RETURN_IF_ERROR(read_bool(key, flag));
    flags[i] = flag;
  }
  value = std::move(flags);
  return {};
}

Status Parser::read_alignment() {
  out_.alignment = kDefaultAlignment;
  const auto found = std::find_if(out_.pairs.begin(), out_.pairs.end(),
                                  [](const GgufPair& pair) { return pair.key == kAlignmentKey; });
  if (found == out_.pairs.end()) return {};
  if (found->type != kU32) {
    const auto name = found->type < kValueTypes ? kValueNames[found->type] : "?";
    return corrupt("{} must be a u32, not a {}", kAlignmentKey, name);
  }
  const std::uint64_t value = std::get<std::uint64_t>(out_.metadata.at(kAlignmentKey));
  if (value < kMinAlignment || value > kMaxAlignment || (value & (value - 1)) != 0) {
    return corrupt("{} is {}: it must be a power of two between {} and {}", kAlignmentKey, value,
                   kMinAlignment, kMaxAlignment);
  }
  out_.alignment = value;
  return {};
}

Status Parser::read_tensor_infos(std::uint64_t count) {
  // Pairs may have eaten the bytes that the count was compared with.
  if (count > left() / kMinTensorBytes) {
    const auto after = out_.pairs.empty() ? std::string() : ", after key " + in_quotes(out_.pairs.back().key);
    return corrupt("it claims {} tensors, but only {} bytes follow its metadata{}", count, left(), after);
  }
  LITHE_RETURN_IF_ERROR(charge(count * (sizeof(GgufTensor) + 96)));
  out_.tensors.reserve(static_cast<std::size_t>(count));
  offsets_.reserve(static_cast<std::size_t>(count));
  sizes_.reserve(static_cast<std::size_t>(count));
  std::unordered_set<std::string_view> names;
  names.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) {
    LITHE_RETURN_IF_ERROR(read_tensor_info(i, count));
    const std::string_view name = out_.tensors.back().name;
    if (!names.insert(name).second) return corrupt("tensor {} appears twice", in_quotes(name));
  }
  return {};
}

// The bytes of a tensor, or nothing when its shape does not suit its type or overflows.
std::optional<std::uint64_t> tensor_bytes(const GgufTensor& tensor) {
  const GgufType& type = tensor.type();
  std::optional<std::uint64_t> elements = 1;
  for (const std::uint64_t dim : tensor.dims) {
    if (elements) elements = checked_mul(*elements, dim);
  }
  const std::uint64_t columns = tensor.dims.empty() ? 1 : tensor.dims[0];
  if (!elements || columns % type.block_elems != 0) return std::nullopt;
  return checked_mul<std::uint64_t>(*elements / type.block_elems, type.block_bytes);
}

std::string shape_text(const std::vector<std::uint64_t>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

Status Parser::read_tensor_info(std::uint64_t index, std::uint64_t count) {
  GgufTensor tensor;
  std::uint32_t dims;
  if (!read_string(tensor.name)) {
    const auto after =
        out_.tensors.empty() ? std::string() : " (after " + in_quotes(out_.tensors.back().name) + ")";
    return corrupt("it ends within the name of tensor {} of {}{}", index + 1, count, after);
  }
  const std::string name = in_quotes(tensor.name);
  if (tensor.name.empty()) return corrupt("tensor {} of {} has no name", index + 1, count);
  if (!read(dims)) return corrupt("it ends within the description of tensor {}", name);
  if (dims > kMaxDims)
    return unsupported("tensor {} has {} dimensions; GGUF allows {}", name, dims, kMaxDims);
  tensor.dims.resize(dims);
  for (std::uint64_t& dim : tensor.dims) {
    if (!read(dim)) return corrupt("it ends within the description of tensor {}", name);
  }
  std::uint64_t offset;
  if (!read(tensor.gguf_type) || !read(offset))
    return corrupt("it ends within the description of tensor {}", name);
  const GgufType* type = find_gguf_type(tensor.gguf_type);
  if (type == nullptr) {
    return unsupported("tensor {} has type {}, which GGUF gave up or Lithe does not know", name,
                       tensor.gguf_type);
  }
  if (std::find(tensor.dims.begin(), tensor.dims.end(), 0u) != tensor.dims.end()) {
    return corrupt("tensor {} has a dimension of 0: {}", name, shape_text(tensor.dims));
  }
  const auto size = tensor_bytes(tensor);
  if (!size) {
    const std::uint64_t columns = tensor.dims.empty() ? 1 : tensor.dims[0];
    if (columns % type->block_elems == 0)
      return corrupt("the size of tensor {} {} overflows", name, shape_text(tensor.dims));
    return corrupt("tensor {} has rows of {} values, no multiple of the {} of a {} block", name, columns,
                   type->block_elems, type->name);
  }
  if (offset % out_.alignment != 0) {
    return corrupt("tensor {} begins at offset {}, no multiple of the alignment {}", name, offset,
                   out_.alignment);
  }
  tensor.format = find_format_by_gguf_id(tensor.gguf_type);
  out_.tensors.push_back(std::move(tensor));
  offsets_.push_back(offset);
  sizes_.push_back(*size);
  return {};
}

// Gives each tensor its bytes. In order of their offsets they must follow each other with nothing but padding
// between, as every writer leaves them: a gap or an overlap means that an offset or a shape is wrong.
Status Parser::place_tensors() {
  if (out_.tensors.empty()) return {};
  const auto start = checked_round_up<std::uint64_t>(at_, out_.alignment);
  std::vector<std::size_t> order(out_.tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return offsets_[a] < offsets_[b]; });

  std::uint64_t expected = 0, end = 0;
  std::string before = "the start of the data";
  for (const std::size_t i : order) {
    GgufTensor& tensor = out_.tensors[i];
    if (offsets_[i] != expected) {
      return corrupt("tensor {} begins at offset {}, {} {}, which ends at {}", in_quotes(tensor.name),
                     offsets_[i], offsets_[i] < expected ? "inside" : "with a gap after", before, expected);
    }
    const auto begin = checked_add(*start, offsets_[i]);
    const auto stop = begin ? checked_add(*begin, sizes_[i]) : std::nullopt;
    if (!stop || *stop > bytes_.size()) {
      return corrupt(
          "tensor {} does not fit: it needs {} bytes from {}, but the file ends at {}; a truncated download?",
          in_quotes(tensor.name), sizes_[i], begin.value_or(offsets_[i]), bytes_.size());
    }
    tensor.data = bytes_.subspan(static_cast<std::size_t>(*begin), static_cast<std::size_t>(sizes_[i]));
    end = *stop;
    expected =
        *checked_round_up(offsets_[i] + sizes_[i], out_.alignment);  // small: the end lies inside the file
    before = in_quotes(tensor.name);
  }
  return check_padding(out_.tensors[order.back()], end);
}

// Writers pad the last tensor to the alignment, or do not; a part of the padding means that the end was cut
// off.
Status Parser::check_padding(const GgufTensor& last, std::uint64_t end) const {
  const auto padded = checked_round_up(end, out_.alignment);
  if (bytes_.size() == end || !padded || bytes_.size() >= *padded) return {};
  return corrupt("it ends within the padding after tensor {}, at {} instead of {}; a truncated download?",
                 in_quotes(last.name), bytes_.size(), *padded);
}

}  // namespace

Result<GgufContents> parse_gguf(std::span<const std::byte> bytes) {
  return Parser(bytes).parse();
}

}  // namespace lithe::formats
