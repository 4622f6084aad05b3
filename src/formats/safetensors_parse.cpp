// From bytes to SafetensorsContents. The header streams through a SAX parser, which keeps no document: memory is a small
// multiple of the header's bytes, whatever it holds.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/checked.h"
#include "base/text.h"
#include "formats/safetensors.h"

namespace lithe::formats {
namespace {

using Sax = nlohmann::json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::size_t kMaxAxes = 16;
constexpr int kMaxDepth = 32;  // of what stands under keys that the format does not define
constexpr std::string_view kMetadataKey = "__metadata__";

struct Span {
  std::uint64_t begin = 0, end = 0;
};

// Takes the header's events. The first fault ends the parse.
class HeaderReader final : public nlohmann::json_sax<Sax> {
 public:
  HeaderReader(SafetensorsContents& out, std::vector<Span>& spans) : out_(out), spans_(spans) {}
  const Status& status() const { return status_; }

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a bool"); }
  bool number_integer(number_integer_t) override { return scalar("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return scalar("a number that is not whole or too large");
  }
  bool binary(binary_t&) override { return scalar("bytes"); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& text) override;
  bool key(string_t& name) override;
  bool start_object(std::size_t) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    return fail(corrupt("its header is not valid JSON at byte {}{}", at, after()));
  }

 private:
  enum class Place { outside, top, metadata, tensor, shape, offsets, ignored };
  enum class Field { none, dtype, shape, offsets, other };

  bool fail(Status status) {
    status_ = std::move(status);
    return false;
  }
  // " after tensor 'x'": where in a long header a fault lies.
  std::string after() const {
    return out_.tensors.empty() ? std::string() : " after tensor " + in_quotes(out_.tensors.back().name);
  }
  SafetensorsTensor& tensor() { return out_.tensors.back(); }
  std::string quoted() { return in_quotes(tensor().name); }
  bool tensor_key(const std::string& name);
  bool scalar(const char* what);
  bool end_tensor();

  SafetensorsContents& out_;
  std::vector<Span>& spans_;  // of each tensor, in the order of the header
  Status status_;
  Place place_ = Place::outside;
  Field field_ = Field::none;
  int ignored_depth_ = 0;
  bool has_dtype_ = false, has_shape_ = false, has_metadata_ = false;
  std::size_t offsets_ = 0;  // seen
  std::string metadata_key_;
  std::unordered_set<std::string> names_;
};

bool HeaderReader::scalar(const char* what) {
  switch (place_) {
    case Place::outside:
      return fail(corrupt("its header is {} instead of an object", what));
    case Place::top:
      if (field_ == Field::other)
        return fail(corrupt("its {} is {} instead of an object", kMetadataKey, what));
      return fail(corrupt("tensor {} is {} instead of an object", quoted(), what));
    case Place::metadata:
      return fail(corrupt("its metadata {} is {} instead of a string", in_quotes(metadata_key_), what));
    case Place::shape:
      return fail(corrupt("the shape of tensor {} contains {}", quoted(), what));
    case Place::offsets:
      return fail(corrupt("the offsets of tensor {} contain {}", quoted(), what));
    case Place::tensor:
      if (field_ == Field::other) return true;
      return fail(corrupt("tensor {} has {} where its {} should stand", quoted(), what,
                          field_ == Field::dtype   ? "dtype"
                          : field_ == Field::shape ? "shape"
                                                   : "data_offsets"));
    case Place::ignored:
      return true;
  }
  return true;
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  if (place_ == Place::shape) {
    if (tensor().shape.size() == kMaxAxes)
      return fail(unsupported("tensor {} has more than {} axes", quoted(), kMaxAxes));
    tensor().shape.push_back(value);
    return true;
  }
  if (place_ != Place::offsets) return scalar("a number");
  if (offsets_ == 2) return fail(corrupt("tensor {} has more than two data_offsets", quoted()));
  (offsets_ == 0 ? spans_.back().begin : spans_.back().end) = value;
  ++offsets_;
  return true;
}

bool HeaderReader::string(string_t& text) {
  if (place_ == Place::metadata) {
    if (!out_.metadata.emplace(metadata_key_, std::move(text)).second)
      return fail(corrupt("its metadata {} appears twice", in_quotes(metadata_key_)));
    return true;
  }
  if (place_ != Place::tensor || field_ != Field::dtype) return scalar("a string");
  tensor().type = find_safetensors_type(text);
  tensor().type_name = std::move(text);
  return true;
}

bool HeaderReader::key(string_t& name) {
  if (place_ == Place::tensor) return tensor_key(name);
  if (place_ == Place::metadata) {
    metadata_key_ = std::move(name);
    return true;
  }
  if (place_ != Place::top) return true;
  if (name == kMetadataKey) {
    if (std::exchange(has_metadata_, true)) return fail(corrupt("its header has two {}", kMetadataKey));
    field_ = Field::other;
    return true;
  }
  if (name.empty()) return fail(corrupt("a tensor has no name{}", after()));
  if (!names_.insert(name).second) return fail(corrupt("tensor {} appears twice", in_quotes(name)));
  field_ = Field::none;
  out_.tensors.emplace_back();
  tensor().name = std::move(name);
  spans_.emplace_back();
  has_dtype_ = has_shape_ = false;
  offsets_ = 0;
  return true;
}

bool HeaderReader::tensor_key(const std::string& name) {
  bool again = false;
  if (name == "dtype") {
    field_ = Field::dtype;
    again = std::exchange(has_dtype_, true);
  } else if (name == "shape") {
    field_ = Field::shape;
    again = std::exchange(has_shape_, true);
  } else if (name == "data_offsets") {
    field_ = Field::offsets;
    again = offsets_ > 0;
  } else {
    field_ = Field::other;
  }
  return !again || fail(corrupt("tensor {} has two {}", quoted(), name));
}

bool HeaderReader::start_object(std::size_t) {
  switch (place_) {
    case Place::outside:
      place_ = Place::top;
      return true;
    case Place::top:
      place_ = field_ == Field::other ? Place::metadata : Place::tensor;
      return true;
    case Place::tensor:
      if (field_ != Field::other) return scalar("an object");
      place_ = Place::ignored;
      ignored_depth_ = 1;
      return true;
    case Place::ignored:
      return ++ignored_depth_ <= kMaxDepth ||
             fail(corrupt("its header is nested more than {} deep{}", kMaxDepth, after()));
    default:
      return scalar("an object");
  }
}

bool HeaderReader::start_array(std::size_t) {
  if (place_ == Place::tensor && field_ == Field::shape) {
    place_ = Place::shape;
    return true;
  }
  if (place_ == Place::tensor && field_ == Field::offsets) {
    place_ = Place::offsets;
    return true;
  }
  if (place_ == Place::ignored || (place_ == Place::tensor && field_ == Field::other)) return start_object(0);
  return scalar("an array");
}

bool HeaderReader::end_array() {
  if (place_ == Place::ignored) return end_object();
  place_ = Place::tensor;
  return true;
}

bool HeaderReader::end_object() {
  switch (place_) {
    case Place::ignored:
      if (--ignored_depth_ == 0) place_ = Place::tensor;
      return true;
    case Place::tensor:
      place_ = Place::top;
      return end_tensor();
    case Place::metadata:
      place_ = Place::top;
      return true;
    default:
      place_ = Place::outside;
      return true;
  }
}

// Whether a tensor is whole, and its span what its shape and type ask for.
bool HeaderReader::end_tensor() {
  if (!has_dtype_ || !has_shape_ || offsets_ != 2) {
    return fail(corrupt("tensor {} has no {}", quoted(),
                        !has_dtype_   ? "dtype"
                        : !has_shape_ ? "shape"
                                      : "two data_offsets"));
  }
  const auto [begin, end] = spans_.back();
  if (begin > end) return fail(corrupt("tensor {} begins at {} and ends at {}", quoted(), begin, end));
  std::optional<std::uint64_t> count = 1;
  for (const std::uint64_t dim : tensor().shape) {
    if (count) count = checked_mul(*count, dim);
  }
  const std::string shape = fmt::format("[{}]", fmt::join(tensor().shape, ", "));
  if (!count) return fail(corrupt("the size of tensor {} {} overflows", quoted(), shape));
  if (tensor().type == nullptr) return true;
  const auto bits = checked_mul<std::uint64_t>(*count, tensor().type->bits);
  if (bits && *bits % 8 == 0 && *bits / 8 == end - begin) return true;
  return fail(corrupt("tensor {} of type {} and shape {} spans {} bytes, from {} to {}", quoted(),
                      tensor().type->name, shape, end - begin, begin, end));
}

// Gives each tensor its bytes: in order they fill the data, without gap, overlap or rest.
Status place_tensors(SafetensorsContents& out, const std::vector<Span>& spans,
                     std::span<const std::byte> data, std::uint64_t data_at) {
  std::vector<std::size_t> order(spans.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(spans[a].begin, spans[a].end) < std::pair(spans[b].begin, spans[b].end);
  });
  std::vector<SafetensorsTensor> sorted;
  sorted.reserve(order.size());
  std::uint64_t expected = 0;
  std::string before = "the start of the data";
  for (const std::size_t i : order) {
    SafetensorsTensor& tensor = out.tensors[i];
    const auto [begin, end] = spans[i];
    const std::string name = in_quotes(tensor.name);
    if (begin != expected) {
      return corrupt("tensor {} begins at {}, {} {}, which ends at {}", name, begin,
                     begin < expected ? "inside" : "with a gap after", before, expected);
    }
    if (end > data.size()) {
      return corrupt(
          "tensor {} does not fit: it needs {} bytes from {}, but the file ends at {}; a truncated download?",
          name, end - begin, data_at + begin, data_at + data.size());
    }
    tensor.data = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    sorted.push_back(std::move(tensor));
    expected = end;
    before = name;
  }
  if (expected != data.size()) {
    return corrupt("{} bytes follow {}, where the file should end", data.size() - expected,
                   sorted.empty() ? "the header" : "tensor " + before);
  }
  out.tensors = std::move(sorted);
  return {};
}

}  // namespace

Result<SafetensorsContents> parse_safetensors(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("version https://git-lfs")) {
    return corrupt(
        "it is a pointer of Git LFS, not the file itself: fetch that with `git lfs pull` or `lithe pull`");
  }
  std::uint64_t length;
  if (bytes.size() < sizeof length)
    return corrupt("{} bytes are too few for a safetensors file", bytes.size());
  std::memcpy(&length, bytes.data(), sizeof length);
  const std::size_t left = bytes.size() - sizeof length;
  if (left == 0 || text[sizeof length] != '{')
    return corrupt("it is not a safetensors file: no header begins at byte 8");
  if (length > kMaxHeaderBytes)
    return unsupported("a header of {} bytes; the format allows {}", length, kMaxHeaderBytes);
  if (length > left)
    return corrupt("its header should take {} bytes, but {} are left; a truncated download?", length, left);
  const auto header = static_cast<std::size_t>(length);

  SafetensorsContents out;
  std::vector<Span> spans;
  HeaderReader reader(out, spans);
  const char* begin = text.data() + sizeof length;
  if (!Sax::sax_parse(begin, begin + header, &reader)) return reader.status();
  LITHE_RETURN_IF_ERROR(
      place_tensors(out, spans, bytes.subspan(sizeof length + header), sizeof length + header));
  return out;
}

}  // namespace lithe::formats
