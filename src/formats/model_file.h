// A model as GGUF would hold it, whatever holds it: GGUF's keys, GGUF's names of tensors, their bytes. Loading,
// conversion and inspection read this and never ask what kind of file there is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "formats/metadata.h"
#include "tensor/block_format.h"

namespace lithe::formats {

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
  std::span<const std::byte> data;  // as stored, checked to lie inside the file; empty: slice() makes it
  int shard = 0;                    // which file of a split it lies in

  std::uint64_t elements() const;  // product of dims: checked on reading, does not overflow
  std::uint64_t bytes() const;     // in its type
  std::uint64_t slices() const;    // matrices stacked in it: the product of dims[2] and dims[3]
  const GgufType& type() const { return *find_gguf_type(gguf_type); }
};

class ModelFile {
 public:
  virtual ~ModelFile() = default;

  const Metadata& metadata() const { return metadata_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;  // nullptr if absent
  const std::filesystem::path& path() const { return path_; }  // as given; of a split the first shard's
  virtual std::string format_name() const = 0;                 // for people: "GGUF version 3"
  virtual std::uint64_t file_bytes() const = 0;                // of all files that hold tensors
  virtual std::vector<std::filesystem::path> shard_paths() const = 0;

  /// Matrix `index` of a stack (0 of a tensor that is none), in the tensor's type: as mapped, or made in `scratch`,
  /// which it may borrow. Any thread.
  virtual Result<std::span<const std::byte>> slice(const GgufTensor& tensor, std::uint64_t index,
                                                   std::vector<std::byte>& scratch) const = 0;
  /// The pages of this tensor's data, or of a part of it as slice() gave it, may leave memory: they have been repacked
  /// elsewhere (promise 2). Any thread may say so; who reads them again finds them again.
  void release(const GgufTensor& tensor) const { release(tensor, tensor.data); }
  virtual void release(const GgufTensor& tensor, std::span<const std::byte> part) const = 0;

 protected:
  ModelFile() = default;
  ModelFile(ModelFile&&) noexcept = default;
  ModelFile& operator=(ModelFile&&) noexcept = default;

  /// A tensor whose name occurred before, or nullptr.
  const GgufTensor* index_tensors();

  std::filesystem::path path_;
  Metadata metadata_;
  std::vector<GgufTensor> tensors_;

 private:
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

}  // namespace lithe::formats
