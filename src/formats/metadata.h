// A model's metadata: keys with typed values, as GGUF has them. Other kinds of files are read into the same keys, so that
// whatever asks for a parameter or a vocabulary asks in one language.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace lithe::formats {

/// A metadata value. Strings and arrays borrow the bytes that were parsed.
/// Arrays of numbers are widened on reading; arrays of arrays are refused as unsupported.
using GgufValue =
    std::variant<bool, std::int64_t, std::uint64_t, double, std::string_view, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<std::string_view>, std::vector<bool>>;

/// A metadata pair as it is stored, for copying without loss.
struct GgufPair {
  std::string_view key;
  std::uint32_t type = 0;            // GGUF's number of the value's type (9: array)
  std::span<const std::byte> value;  // the value's bytes; of an array with its element type and count

  std::string type_text() const;  // "u32", "string", "string[49152]"
};

/// Move-only. Borrows the bytes it was parsed from, or owns them when a MetadataBuilder made it.
class Metadata {
 public:
  using Values = std::map<std::string_view, GgufValue>;

  Metadata() = default;
  Metadata(Values values, std::vector<GgufPair> pairs)
      : values_(std::move(values)), pairs_(std::move(pairs)) {}
  Metadata(Metadata&&) noexcept = default;
  Metadata& operator=(Metadata&&) noexcept = default;

  const Values& values() const { return values_; }
  std::span<const GgufPair> pairs() const { return pairs_; }  // in their order, as stored
  bool contains(std::string_view key) const { return values_.contains(key); }
  const GgufValue* find(std::string_view key) const;  // nullptr if absent

  /// Typed access. `optional` forms: nothing if absent, an error if of another type or out of range.
  Result<std::optional<std::uint64_t>> optional_uint(std::string_view key) const;
  Result<std::optional<double>> optional_float(std::string_view key) const;
  Result<std::optional<bool>> optional_bool(std::string_view key) const;
  Result<std::optional<std::string_view>> optional_string(std::string_view key) const;
  Result<std::uint64_t> required_uint(std::string_view key) const;
  Result<std::string_view> required_string(std::string_view key) const;
  const std::vector<std::string_view>* string_array(std::string_view key) const;  // nullptr if absent
  const std::vector<std::int64_t>* int_array(std::string_view key) const;         // nullptr if absent
  const std::vector<double>* float_array(std::string_view key) const;             // nullptr if absent
  const std::vector<bool>* bool_array(std::string_view key) const;                // nullptr if absent

 private:
  friend class MetadataBuilder;
  std::unique_ptr<const std::string> bytes_;
  Values values_;
  std::vector<GgufPair> pairs_;
};

/// Collects pairs in order. A key added again replaces the earlier value.
class MetadataBuilder {
 public:
  using Value =
      std::variant<bool, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, float, double, std::string,
                   std::vector<std::int32_t>, std::vector<std::uint32_t>, std::vector<std::uint8_t>,
                   std::vector<float>, std::vector<std::string>, std::vector<bool>>;
  void add(std::string key, Value value);
  /// A pair of another file, byte for byte.
  void copy(const GgufPair& pair);
  bool contains(std::string_view key) const { return keys_.contains(key); }
  std::size_t size() const { return pairs_.size(); }

  /// Appends the pairs as GGUF stores them. invalid: an empty key, or one that is the writer's own.
  Status append_to(std::string& bytes) const;
  /// What a reader of a file with these pairs would see.
  Result<Metadata> build() const;

 private:
  struct Pair {
    std::string key, value;
    std::uint32_t type;
  };  // value: the bytes as they go to the file
  void put(std::string key, std::uint32_t type, std::string value);
  std::vector<Pair> pairs_;
  std::map<std::string, std::size_t, std::less<>> keys_;  // key -> index in pairs_
};

}  // namespace lithe::formats
