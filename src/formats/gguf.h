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
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "formats/metadata.h"
#include "formats/model_file.h"

namespace lithe::formats {

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
class GgufFile final : public ModelFile {
 public:
  /// Given any shard of a split (or the only file), opens all. Errors name the file and the field or tensor.
  static Result<GgufFile> open(const std::filesystem::path& path);
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile() override;

  int shard_count() const;
  std::uint32_t version() const;
  std::uint64_t alignment() const;
  std::string format_name() const override;
  std::uint64_t file_bytes() const override;
  std::vector<std::filesystem::path> shard_paths() const override;

  Result<std::span<const std::byte>> slice(const GgufTensor& tensor, std::uint64_t index,
                                           std::vector<std::byte>& scratch) const override;
  void release(const GgufTensor& tensor, std::span<const std::byte> part) const override;
  using ModelFile::release;

 private:
  struct Shards;
  explicit GgufFile(std::unique_ptr<Shards> shards);
  Status join(const struct SplitKeys& split);
  std::unique_ptr<Shards> shards_;
};

/// Writes GGUF v3, streaming: declare everything, then add the tensors' data in order, then commit.
/// Nothing appears under `path` before commit() (promise 4). A key added again replaces the earlier value.
class GgufWriter {
 public:
  static constexpr std::uint64_t kAlignment = 32;

  using Value = MetadataBuilder::Value;
  void add_metadata(std::string key, Value value) { metadata_.add(std::move(key), std::move(value)); }
  /// A pair of another file, byte for byte.
  void copy_metadata(const GgufPair& pair) { metadata_.copy(pair); }
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
  struct Tensor {
    std::string name;
    std::uint32_t type;
    std::vector<std::uint64_t> dims;
    std::uint64_t bytes;
  };
  MetadataBuilder metadata_;
  std::vector<Tensor> tensors_;
  std::size_t next_tensor_ = 0;
  std::uint64_t written_ = 0;  // bytes of that tensor
  std::optional<AtomicFile> file_;
};

}  // namespace lithe::formats
