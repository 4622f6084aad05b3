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

/// A type number of a tensor info: those of GGUF that have a fixed size, run by us or not.
struct GgufType {
  std::uint32_t id;
  std::string_view name;  // the field's spelling: "Q4_K", "IQ2_XXS"
  std::uint32_t block_elems, block_bytes;

  double bits_per_weight() const { return 8.0 * block_bytes / block_elems; }
};
const GgufType* find_gguf_type(std::uint32_t id);  // nullptr: not a type of GGUF

struct GgufTensor {
  std::string_view name;
  std::uint32_t gguf_type = 0;          // always one of find_gguf_type()
  const BlockFormat* format = nullptr;  // nullptr: a type we do not run (inspect still lists it)
  std::vector<std::uint64_t>
      dims;  // GGUF order: dims[0] is the contiguous (input) axis; at most 4, none is 0
  std::span<const std::byte> data;  // checked to lie inside the file
  int shard = 0;                    // which file of a split it lies in

  std::uint64_t elements() const;  // product of dims: checked on reading, does not overflow
  const GgufType& type() const { return *find_gguf_type(gguf_type); }
};

/// A metadata pair as it stands in the file, for copying without loss.
struct GgufPair {
  std::string_view key;
  std::uint32_t type = 0;            // GGUF's number of the value's type (9: array)
  std::span<const std::byte> value;  // the value's bytes; of an array with its element type and count

  std::string type_text() const;  // "u32", "string", "string[49152]"
};

/// What the bytes of one file say. Borrows the bytes.
struct GgufContents {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::map<std::string_view, GgufValue> metadata;
  std::vector<GgufPair> pairs;      // the same, in file order
  std::vector<GgufTensor> tensors;  // in file order
};

/// Pure: no allocation larger than the bytes justify, no exception, no read outside `bytes`.
/// corrupt: the bytes contradict the format or themselves, or end early (the message names the key or
/// tensor); unsupported: version 1 or above 3, big-endian, nested arrays, a type or a number of dimensions
/// GGUF has not.
Result<GgufContents> parse_gguf(std::span<const std::byte> bytes);

/// A model in one file or several ("-00001-of-00003.gguf"), mapped. Move-only; values borrow from it.
class GgufFile {
 public:
  /// Given any shard of a split (or the only file), opens all. Errors name the file and the field or tensor.
  static Result<GgufFile> open(const std::filesystem::path& path);
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  const std::map<std::string_view, GgufValue>& metadata() const;  // of a split: the first shard's
  std::span<const GgufPair> metadata_pairs() const;               // the same, in file order and as stored
  std::span<const GgufTensor> tensors() const;
  const GgufTensor* find_tensor(std::string_view name) const;  // nullptr if absent
  std::uint64_t file_bytes() const;                            // of all shards
  const std::filesystem::path& path() const;                   // as opened, or the first shard's
  int shard_count() const;
  std::vector<std::filesystem::path> shard_paths() const;
  std::uint32_t version() const;
  std::uint64_t alignment() const;

  /// Typed access. `optional` forms: nothing if absent, an error if of another type or out of range.
  Result<std::optional<std::uint64_t>> optional_uint(std::string_view key) const;
  Result<std::optional<double>> optional_float(std::string_view key) const;
  Result<std::optional<bool>> optional_bool(std::string_view key) const;
  Result<std::optional<std::string_view>> optional_string(std::string_view key) const;
  Result<std::uint64_t> required_uint(std::string_view key) const;
  Result<std::string_view> required_string(std::string_view key) const;
  const std::vector<std::string_view>* string_array(std::string_view key) const;  // nullptr if absent
  const std::vector<std::int64_t>* int_array(std::string_view key) const;         // nullptr if absent

  /// The pages of this tensor's data, or of a part of it, may leave memory: they have been repacked elsewhere (promise
  /// 2). Any thread may say so; who reads them again finds them again.
  void release(const GgufTensor& tensor) const { release(tensor, tensor.data); }
  void release(const GgufTensor& tensor, std::span<const std::byte> part) const;

 private:
  struct Shards;
  explicit GgufFile(std::unique_ptr<Shards> shards);
  std::unique_ptr<Shards> shards_;
};

/// Writes GGUF v3, streaming: declare everything, then add the tensors' data in order, then commit.
/// Nothing appears under `path` before commit() (promise 4). A key added again replaces the earlier value.
class GgufWriter {
 public:
  static constexpr std::uint64_t kAlignment = 32;

  using Value = std::variant<bool, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, float, double,
                             std::string, std::vector<std::int32_t>, std::vector<std::uint32_t>,
                             std::vector<float>, std::vector<std::string>>;
  void add_metadata(std::string key, Value value);
  /// A pair of another file, byte for byte.
  void copy_metadata(const GgufPair& pair);
  void add_tensor(std::string name, DType dtype, std::vector<std::uint64_t> dims);
  /// A tensor of any type of GGUF, for copying.
  void add_tensor(std::string name, const GgufType& type, std::vector<std::uint64_t> dims);

  /// Writes everything before the tensors' data. invalid: a name used twice or empty, a row that is no
  /// multiple of the format's block, a size that overflows.
  Status begin(const std::filesystem::path& path);
  /// The next bytes of the tensor being written, in one call or several. Tensors follow in declared order.
  Status write_tensor(std::span<const std::byte> data);
  /// After the last byte of the last tensor (a programmer's fault before that).
  Status commit();

 private:
  struct Pair {
    std::string key, value;
    std::uint32_t type;
  };  // value: the bytes as they go to the file
  struct Tensor {
    std::string name;
    std::uint32_t type;
    std::vector<std::uint64_t> dims;
    std::uint64_t bytes;
  };
  void put(std::string key, std::uint32_t type, std::string value);
  std::vector<Pair> metadata_;
  std::map<std::string, std::size_t, std::less<>> keys_;  // key -> index in metadata_
  std::vector<Tensor> tensors_;
  std::size_t next_tensor_ = 0;
  std::uint64_t written_ = 0;  // bytes of that tensor
  std::optional<AtomicFile> file_;
};

}  // namespace lithe::formats
