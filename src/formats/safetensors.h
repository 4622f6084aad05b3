// safetensors: reading (a pure function of bytes) and writing. A file is a length, a JSON header and the tensors' bytes
// one behind the other. It is untrusted: every size is checked against what is really there before it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "tensor/block_format.h"

namespace lithe::formats {

struct SafetensorsType {
  std::string_view name;       // the field's spelling: "BF16", "F8_E4M3"
  std::uint32_t bits;          // of one value; below 8 for types packed several to a byte
  std::optional<DType> dtype;  // the same as a storage format of Lithe, if it is one
};
const SafetensorsType* find_safetensors_type(std::string_view name);  // nullptr: unknown to us
/// Of F32, F16 and BF16.
const SafetensorsType* find_safetensors_type(DType dtype);

struct SafetensorsTensor {
  std::string name;
  std::string type_name;  // as the file has it
  const SafetensorsType* type =
      nullptr;  // nullptr: a type we do not know; its bytes are not checked against its shape
  std::vector<std::uint64_t> shape;  // row-major: the last axis is contiguous. Empty: a scalar. May contain 0
  std::span<const std::byte> data;   // checked to lie inside the file; not aligned to anything
  int shard = 0;                     // which file of a directory it lies in

  std::uint64_t elements() const;  // product of the shape: checked on reading, does not overflow
};

/// What the bytes of one file say. `data` borrows the bytes, the rest is owned.
struct SafetensorsContents {
  std::map<std::string, std::string> metadata;  // of __metadata__
  std::vector<SafetensorsTensor> tensors;       // in the order of their data
};

/// Pure: no allocation larger than the bytes justify, no exception, no read outside `bytes`.
/// corrupt: the header is no JSON of the format, a tensor or key appears twice, a tensor lies outside the file, overlaps
/// another or leaves a gap, its shape and type contradict its span (the message names the tensor), bytes follow the last.
/// unsupported: a header above 100 MB (the format's own limit), more than 16 axes.
Result<SafetensorsContents> parse_safetensors(std::span<const std::byte> bytes);

/// Writes one file, or several beside "model.safetensors.index.json", streaming: declare everything, begin, add the
/// tensors' data in declared order, commit. Nothing appears under its name before commit() (promise 4), the index last.
class SafetensorsWriter {
 public:
  /// An entry of __metadata__ in every file. "format" is "pt" unless set: Transformers insists on it.
  void add_metadata(std::string key, std::string value);
  void add_tensor(std::string name, const SafetensorsType& type, std::vector<std::uint64_t> shape);

  /// Plans the files in `folder`, which must exist: a new one when the next tensor would carry it above `shard_bytes`.
  /// invalid: a name used twice, empty or "__metadata__", a size that overflows or is no whole number of bytes.
  Status begin(const std::filesystem::path& folder, std::uint64_t shard_bytes);
  /// The next bytes of the tensor being written, in one call or several.
  Status write_tensor(std::span<const std::byte> data);
  /// After the last byte of the last tensor (a programmer's fault before that).
  Status commit();

  std::uint64_t data_bytes() const { return data_bytes_; }  // of all tensors, after begin()
  int shard_count() const { return static_cast<int>(shards_.size()); }

 private:
  struct Tensor {
    std::string name;
    const SafetensorsType* type;
    std::vector<std::uint64_t> shape;
    std::uint64_t bytes = 0, offset = 0;  // offset: in its file
    std::size_t shard = 0;
  };
  struct Shard {
    std::string name;
    AtomicFile file;
  };
  Status plan(std::uint64_t shard_bytes, std::vector<std::vector<Tensor*>>& shards);
  std::string place(const std::vector<Tensor*>& tensors) const;
  void skip_empty();
  Status write_index(const std::filesystem::path& path) const;

  std::map<std::string, std::string> metadata_ = {{"format", "pt"}};
  std::vector<Tensor> tensors_;
  std::vector<Shard> shards_;
  std::filesystem::path folder_;
  std::uint64_t data_bytes_ = 0;
  std::size_t next_tensor_ = 0;
  std::uint64_t written_ = 0;  // bytes of that tensor
  bool begun_ = false;
};

}  // namespace lithe::formats
