// GGUF v2 and v3: reading (a pure function of bytes; split files on top) and writing.
// A model file is untrusted: every size is checked against what is really there before it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "tensor/block_format.h"

namespace lithe::formats {

/// A metadata value. Strings and arrays borrow the file's bytes.
/// Arrays of numbers are widened on reading; arrays of arrays are refused as unsupported.
using GgufValue =
    std::variant<bool, std::int64_t, std::uint64_t, double, std::string_view, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<std::string_view>, std::vector<bool>>;

struct GgufTensor {
  std::string_view name;
  std::uint32_t gguf_type = 0;          // as in the file, known to us or not
  const BlockFormat* format = nullptr;  // nullptr: a type we do not run (inspect still lists it)
  std::vector<std::uint64_t> dims;      // GGUF order: dims[0] is the contiguous (input) axis
  std::span<const std::byte> data;      // checked to lie inside the file
  int shard = 0;                        // which file of a split it lies in
};

/// What the bytes of one file say. Borrows the bytes.
struct GgufContents {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::map<std::string_view, GgufValue> metadata;
  std::vector<GgufTensor> tensors;  // in file order
};

/// Pure: no allocation larger than the bytes justify, no exception, no read outside `bytes`.
Result<GgufContents> parse_gguf(std::span<const std::byte> bytes);

/// A model in one file or several ("-00001-of-00003.gguf"), mapped. Move-only; values borrow from it.
class GgufFile {
 public:
  /// Given any shard of a split (or the only file), opens all. Errors name the file and the field or tensor.
  static Result<GgufFile> open(const std::filesystem::path& path);
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  const std::map<std::string_view, GgufValue>& metadata() const;
  std::span<const GgufTensor> tensors() const;
  const GgufTensor* find_tensor(std::string_view name) const;  // nullptr if absent
  std::uint64_t file_bytes() const;                            // of all shards
  std::filesystem::path path() const;
  std::uint32_t version() const;

  /// Typed access. `optional` forms: nothing if absent, an error if of another type or out of range.
  Result<std::optional<std::uint64_t>> optional_uint(std::string_view key) const;
  Result<std::optional<double>> optional_float(std::string_view key) const;
  Result<std::optional<bool>> optional_bool(std::string_view key) const;
  Result<std::optional<std::string_view>> optional_string(std::string_view key) const;
  Result<std::uint64_t> required_uint(std::string_view key) const;
  Result<std::string_view> required_string(std::string_view key) const;
  const std::vector<std::string_view>* string_array(std::string_view key) const;  // nullptr if absent
  const std::vector<std::int64_t>* int_array(std::string_view key) const;         // nullptr if absent

  /// The pages of this tensor's data may leave memory: it has been repacked elsewhere (promise 2).
  void release(const GgufTensor& tensor) const;

 private:
  struct Shards;
  explicit GgufFile(std::unique_ptr<Shards> shards);
  std::unique_ptr<Shards> shards_;
};

/// Writes GGUF v3, streaming: declare everything, then add the tensors' data in order, then commit.
/// Nothing appears under `path` before commit() (promise 4).
class GgufWriter {
 public:
  using Value = std::variant<bool, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, float, double,
                             std::string, std::vector<std::int32_t>, std::vector<std::uint32_t>,
                             std::vector<float>, std::vector<std::string>>;
  void add_metadata(std::string key, Value value);
  /// Copies a value of another file with its exact type where GgufValue keeps it (integers: 32 bit if they
  /// fit).
  void add_metadata(std::string key, const GgufValue& value);
  void add_tensor(std::string name, DType dtype, std::vector<std::uint64_t> dims);

  Status begin(const std::filesystem::path& path);
  Status write_tensor(std::span<const std::byte> data);  // the next declared tensor, exact size
  Status commit();

 private:
  struct Declared {
    std::string name;
    DType dtype;
    std::vector<std::uint64_t> dims;
    std::uint64_t bytes;
  };
  std::vector<std::pair<std::string, std::variant<Value, GgufValue>>> metadata_;
  std::vector<Declared> tensors_;
  std::size_t next_tensor_ = 0;
  std::optional<AtomicFile> file_;
};

}  // namespace lithe::formats
