// What the tests of whole models share: a model with its pool, tiny models made on the spot, golden arrays.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "formats/gguf.h"
#include "kernels/kernel_table.h"
#include "models/model.h"

namespace lithe::test {

/// A scratch folder of this process, removed at its end.
const std::filesystem::path& scratch_folder();

std::filesystem::path golden_path(const std::string& file);   // tests/golden/models/FILE
std::filesystem::path encoder_path(const std::string& file);  // tests/golden/encoders/FILE

/// A .npy file of one of the two types that the oracle writes.
std::vector<float> read_npy_f32(const std::filesystem::path& path);
std::vector<std::int32_t> read_npy_i32(const std::filesystem::path& path);

/// A Hugging Face directory, or any model, as one GGUF file with matrices of type `dtype` where it fits.
void convert_model(const std::filesystem::path& from, const std::filesystem::path& to, DType dtype);

/// A Hugging Face directory below tests/golden as a GGUF file in f32, made once.
std::filesystem::path as_gguf(const std::filesystem::path& directory);

/// The folders in a folder, by name.
std::vector<std::string> folders_in(const std::filesystem::path& path);

/// A copy of a GGUF file with other parameters, and without some of its keys and tensors.
struct Edits {
  std::vector<std::pair<std::string, formats::GgufWriter::Value>> set{};
  std::vector<std::string> without{};
};
void rewrite(const std::filesystem::path& from, const std::filesystem::path& to, const Edits& edits);

/// A model as a new Hugging Face directory in f32.
void export_model(const std::filesystem::path& from, const std::filesystem::path& to);

/// A conversion; how many of the matrices got `dtype`.
int reencode(const std::filesystem::path& from, const std::filesystem::path& to, DType dtype);

/// A random model made on the spot.
struct TinyShape {
  std::string family = "llama";
  std::int64_t layers = 2, hidden = 256, heads = 4, kv_heads = 2, head_dim = 64, ffn = 256, vocab = 288;
  std::int64_t window = 0;
  bool tied = true;
  std::uint64_t seed = 1;
};
struct TinyTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // GGUF order
  DType dtype = DType::f32;
  std::vector<float> values;
};
struct TinyFile {
  std::vector<std::pair<std::string, formats::GgufWriter::Value>> metadata;
  std::vector<TinyTensor> tensors;
  TinyTensor& tensor(const std::string& name);
  formats::GgufWriter::Value& value(const std::string& key);
  void write(const std::filesystem::path& path) const;
};
TinyFile tiny_model(const TinyShape& shape, DType matrices);

/// A loaded model with threads and pages of its own.
class Runner {
 public:
  struct Options {
    models::Precision precision = models::Precision::automatic;
    models::AttentionMode attention = models::AttentionMode::flash;
    DType kv = DType::f32;
    kernels::Isa isa = kernels::Isa::reference;
    int threads = 1;
    std::int64_t context = 128;
    std::int64_t tokens = 2048;
    std::optional<std::uint64_t> shuffle_pages{};  // seed: sequences get pages in random order
  };
  Runner(const std::filesystem::path& path, const Options& options);

  models::Model& model() { return *model_; }
  kvcache::PagePool& pool() { return *pool_; }
  std::int64_t vocab() const { return model_->spec().vocab; }
  kvcache::SequenceCache sequence() { return kvcache::SequenceCache(*pool_); }

  /// Feeds `ids` in chunks of `chunk` (0: all at once); logits of every row, [ids, vocab].
  std::vector<float> feed(kvcache::SequenceCache& cache, std::span<const std::int32_t> ids,
                          std::int64_t chunk = 0);
  /// Both in each pass, in pieces that differ.
  std::pair<std::vector<float>, std::vector<float>> feed_both(kvcache::SequenceCache& a,
                                                              std::span<const std::int32_t> of_a,
                                                              kvcache::SequenceCache& b,
                                                              std::span<const std::int32_t> of_b);
  /// The logits of the last row alone.
  std::vector<float> feed_last(kvcache::SequenceCache& cache, std::span<const std::int32_t> ids,
                               std::int64_t chunk = 0);
  std::vector<std::int32_t> greedy(std::span<const std::int32_t> prompt, int count);

 private:
  ThreadPool threads_;
  std::unique_ptr<const formats::ModelFile> file_;
  std::unique_ptr<kvcache::PagePool> pool_;
  std::unique_ptr<models::Model> model_;
};

std::int32_t argmax(std::span<const float> row);
/// max |a - b| / max |b|: an error in units of the largest logit.
double relative_error(std::span<const float> a, std::span<const float> b);
/// The same row by row, in units of the largest logit of all.
std::vector<double> row_errors(std::span<const float> a, std::span<const float> b, std::int64_t width);
std::vector<std::int32_t> random_ids(std::int64_t count, std::int64_t vocab, std::uint64_t seed);

}  // namespace lithe::test
