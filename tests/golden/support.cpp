#include "support.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "base/file.h"
#include "base/rng.h"
#include "formats/convert.h"
#include "models/hf/export.h"
#include "models/open_model.h"

namespace lithe::test {
namespace fs = std::filesystem;
namespace {

struct ScratchFolder {
  fs::path path = fs::temp_directory_path() / fmt::format("lithe-golden-{}", ::getpid());
  ScratchFolder() { fs::create_directories(path); }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

// Tests have no use for a value that is not there.
template <typename T>
T need(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).value();
}
void need(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <typename T>
std::vector<T> read_npy(const fs::path& path, std::string_view descr) {
  const std::string bytes = need(read_file(path));
  if (bytes.size() < 10 || bytes.substr(1, 5) != "NUMPY")
    throw std::runtime_error(path.string() + ": not .npy");
  const std::size_t header =
      10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
  if (bytes.substr(0, header).find(descr) == std::string::npos)
    throw std::runtime_error(path.string() + ": type");
  std::vector<T> values((bytes.size() - header) / sizeof(T));
  std::memcpy(values.data(), bytes.data() + header, values.size() * sizeof(T));
  return values;
}

std::vector<std::byte> encode(DType dtype, std::span<const float> values) {
  const BlockFormat& format = block_format(dtype);
  std::vector<std::byte> bytes(values.size() / static_cast<std::size_t>(format.block_elems) *
                               static_cast<std::size_t>(format.block_bytes));
  format.encode(values.data(), static_cast<std::int64_t>(values.size()), bytes.data());
  return bytes;
}

}  // namespace

const fs::path& scratch_folder() {
  static const ScratchFolder folder;
  return folder.path;
}

fs::path golden_path(const std::string& file) {
  return fs::path(LITHE_TEST_DATA) / "golden" / "models" / file;
}

fs::path encoder_path(const std::string& file) {
  return fs::path(LITHE_TEST_DATA) / "golden" / "encoders" / file;
}

std::vector<float> read_npy_f32(const fs::path& path) {
  return read_npy<float>(path, "<f4");
}
std::vector<std::int32_t> read_npy_i32(const fs::path& path) {
  return read_npy<std::int32_t>(path, "<i4");
}

TinyTensor& TinyFile::tensor(const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &TinyTensor::name);
  if (found == tensors.end()) throw std::runtime_error("no tensor " + name);
  return *found;
}

formats::GgufWriter::Value& TinyFile::value(const std::string& key) {
  for (auto& [name, value] : metadata) {
    if (name == key) return value;
  }
  return metadata.emplace_back(key, formats::GgufWriter::Value{}).second;
}

void TinyFile::write(const fs::path& path) const {
  formats::GgufWriter writer;
  for (const auto& [key, value] : metadata) writer.add_metadata(key, value);
  for (const TinyTensor& tensor : tensors) writer.add_tensor(tensor.name, tensor.dtype, tensor.dims);
  need(writer.begin(path));
  for (const TinyTensor& tensor : tensors) need(writer.write_tensor(encode(tensor.dtype, tensor.values)));
  need(writer.commit());
}

TinyFile tiny_model(const TinyShape& shape, DType matrices) {
  TinyFile file;
  const auto u32 = [&](const std::string& key, std::int64_t value) {
    file.metadata.emplace_back(shape.family + "." + key, static_cast<std::uint32_t>(value));
  };
  file.metadata.emplace_back("general.architecture", shape.family);
  u32("block_count", shape.layers);
  u32("context_length", 4096);
  u32("embedding_length", shape.hidden);
  u32("feed_forward_length", shape.ffn);
  u32("attention.head_count", shape.heads);
  u32("attention.head_count_kv", shape.kv_heads);
  u32("attention.key_length", shape.head_dim);
  u32("attention.value_length", shape.head_dim);
  if (shape.window > 0) u32("attention.sliding_window", shape.window);
  file.metadata.emplace_back(shape.family + ".attention.layer_norm_rms_epsilon", 1e-5f);

  Rng rng(shape.seed);
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t cols, double mean,
                       double deviation) {
    TinyTensor tensor{name, {static_cast<std::uint64_t>(cols)}, rows > 0 ? matrices : DType::f32, {}};
    if (rows > 0) tensor.dims.push_back(static_cast<std::uint64_t>(rows));
    tensor.values.resize(static_cast<std::size_t>(std::max<std::int64_t>(rows, 1) * cols));
    for (float& value : tensor.values) value = static_cast<float>(mean + deviation * rng.normal());
    file.tensors.push_back(std::move(tensor));
  };
  const double spread = 1.5 / std::sqrt(static_cast<double>(shape.hidden));
  const std::int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
  add("token_embd.weight", shape.vocab, shape.hidden, 0, 1);
  if (!shape.tied) add("output.weight", shape.vocab, shape.hidden, 0, spread);
  add("output_norm.weight", 0, shape.hidden, 1, 0.3);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    add(prefix + "attn_norm.weight", 0, shape.hidden, 1, 0.3);
    add(prefix + "attn_q.weight", q, shape.hidden, 0, spread);
    add(prefix + "attn_k.weight", kv, shape.hidden, 0, spread);
    add(prefix + "attn_v.weight", kv, shape.hidden, 0, spread);
    if (shape.family == "qwen2") {
      add(prefix + "attn_q.bias", 0, q, 0, 0.5);
      add(prefix + "attn_k.bias", 0, kv, 0, 0.5);
      add(prefix + "attn_v.bias", 0, kv, 0, 0.5);
    }
    add(prefix + "attn_output.weight", shape.hidden, q, 0, spread);
    add(prefix + "ffn_norm.weight", 0, shape.hidden, 1, 0.3);
    add(prefix + "ffn_gate.weight", shape.ffn, shape.hidden, 0, spread);
    add(prefix + "ffn_up.weight", shape.ffn, shape.hidden, 0, spread);
    add(prefix + "ffn_down.weight", shape.hidden, shape.ffn, 0, spread);
  }
  return file;
}

void convert_model(const fs::path& from, const fs::path& to, DType dtype) {
  const auto file = need(models::open_model(from));
  ThreadPool threads(1);
  const auto plan = need(formats::plan_conversion(*file, dtype, true));
  const auto go_on = [](std::uint64_t, std::string_view) { return true; };
  need(formats::convert(*file, plan, to, threads, formats::ConvertProgress(go_on)));
}

fs::path as_gguf(const fs::path& directory) {
  const fs::path path =
      scratch_folder() /
      fmt::format("{}-{}.gguf", directory.parent_path().filename().string(), directory.filename().string());
  if (!fs::exists(path)) convert_model(directory, path, DType::f32);
  return path;
}

std::vector<std::string> folders_in(const fs::path& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

void rewrite(const fs::path& from, const fs::path& to, const Edits& edits) {
  const auto file = need(formats::GgufFile::open(from));
  const auto stays = [&](std::string_view name) {
    return std::ranges::find(edits.without, name) == edits.without.end();
  };
  formats::GgufWriter writer;
  for (const formats::GgufPair& pair : file.metadata().pairs()) {
    if (stays(pair.key)) writer.copy_metadata(pair);
  }
  for (const auto& [key, value] : edits.set) writer.add_metadata(key, value);
  for (const auto& tensor : file.tensors()) {
    if (stays(tensor.name)) writer.add_tensor(std::string(tensor.name), tensor.format->dtype, tensor.dims);
  }
  need(writer.begin(to));
  for (const auto& tensor : file.tensors()) {
    if (stays(tensor.name)) need(writer.write_tensor(tensor.data));
  }
  need(writer.commit());
}

void export_model(const fs::path& from, const fs::path& to) {
  const auto file = need(models::open_model(from));
  ThreadPool threads(1);
  const auto plan = need(models::HfExport::plan(*file, DType::f32));
  const auto go_on = [](std::uint64_t, std::string_view) { return true; };
  need(plan.write(to, std::uint64_t{1} << 20, threads, models::HfExport::Progress(go_on)));
}

int reencode(const fs::path& from, const fs::path& to, DType dtype) {
  convert_model(from, to, dtype);
  const auto file = need(models::open_model(to));
  return static_cast<int>(std::ranges::count_if(
      file->tensors(), [&](const formats::GgufTensor& tensor) { return tensor.format->dtype == dtype; }));
}

Runner::Runner(const fs::path& path, const Options& options) : threads_(options.threads) {
  file_ = need(models::open_model(path));
  models::ModelOptions model{.precision = options.precision,
                             .attention = options.attention,
                             .kv_dtype = options.kv,
                             .context = options.context};
  model.kernels = need(kernels::kernel_table(options.isa));
  model_ = std::make_unique<models::Model>(need(models::Model::load(*file_, model, threads_)));
  pool_ = std::make_unique<kvcache::PagePool>(need(model_->make_pool(options.tokens)));
  if (options.shuffle_pages) {
    // Take every page, give them back in random order: the free list is shuffled from now on.
    std::vector<kvcache::PageId> pages;
    for (std::int64_t i = pool_->free(); i > 0; --i) pages.push_back(need(pool_->allocate()));
    Rng rng(*options.shuffle_pages);
    for (std::size_t i = pages.size(); i > 1; --i) std::swap(pages[i - 1], pages[rng.next_u64() % i]);
    for (const kvcache::PageId page : pages) pool_->release(page);
  }
}

std::vector<float> Runner::feed(kvcache::SequenceCache& cache, std::span<const std::int32_t> ids,
                                std::int64_t chunk) {
  const auto count = std::ssize(ids);
  std::vector<float> logits(static_cast<std::size_t>(count * vocab()));
  for (std::int64_t begin = 0; begin < count;) {
    const std::int64_t rows = chunk == 0 ? count : std::min(chunk, count - begin);
    need(cache.reserve(rows));
    models::Batch batch;
    batch.tokens.assign(ids.begin() + begin, ids.begin() + begin + rows);
    batch.sequences.push_back({&cache, 0, rows});
    for (std::int64_t row = 0; row < rows; ++row) batch.logit_rows.push_back(row);
    need(model_->forward(batch, std::span(logits).subspan(static_cast<std::size_t>(begin * vocab()),
                                                          static_cast<std::size_t>(rows * vocab()))));
    begin += rows;
  }
  return logits;
}

std::pair<std::vector<float>, std::vector<float>> Runner::feed_both(kvcache::SequenceCache& a,
                                                                    std::span<const std::int32_t> of_a,
                                                                    kvcache::SequenceCache& b,
                                                                    std::span<const std::int32_t> of_b) {
  std::pair<std::vector<float>, std::vector<float>> logits;
  while (!of_a.empty() || !of_b.empty()) {
    models::Batch batch;
    std::vector<std::pair<std::vector<float>*, std::int64_t>> parts;
    const auto add = [&](kvcache::SequenceCache& cache, std::span<const std::int32_t>& ids, std::size_t most,
                         std::vector<float>& out) {
      const std::size_t count = std::min(ids.size(), most);
      if (count == 0) return;
      need(cache.reserve(static_cast<std::int64_t>(count)));
      batch.sequences.push_back({&cache, std::ssize(batch.tokens), static_cast<std::int64_t>(count)});
      for (const std::int32_t id : ids.first(count)) {
        batch.logit_rows.push_back(std::ssize(batch.tokens));
        batch.tokens.push_back(id);
      }
      ids = ids.subspan(count);
      parts.push_back({&out, static_cast<std::int64_t>(count)});
    };
    add(b, of_b, 3, logits.second);
    add(a, of_a, 9, logits.first);
    std::vector<float> both(batch.tokens.size() * static_cast<std::size_t>(vocab()));
    need(model_->forward(batch, both));
    auto from = both.begin();
    for (const auto& [out, rows] : parts) {
      out->insert(out->end(), from, from + rows * vocab());
      from += rows * vocab();
    }
  }
  return logits;
}

std::vector<float> Runner::feed_last(kvcache::SequenceCache& cache, std::span<const std::int32_t> ids,
                                     std::int64_t chunk) {
  const auto count = std::ssize(ids);
  std::vector<float> logits(static_cast<std::size_t>(vocab()));
  for (std::int64_t begin = 0; begin < count;) {
    const std::int64_t rows = chunk == 0 ? count : std::min(chunk, count - begin);
    need(cache.reserve(rows));
    models::Batch batch;
    batch.tokens.assign(ids.begin() + begin, ids.begin() + begin + rows);
    batch.sequences.push_back({&cache, 0, rows});
    begin += rows;
    if (begin == count) batch.logit_rows.push_back(rows - 1);
    need(model_->forward(batch, begin == count ? std::span(logits) : std::span<float>()));
  }
  return logits;
}

std::vector<std::int32_t> Runner::greedy(std::span<const std::int32_t> prompt, int count) {
  kvcache::SequenceCache cache = sequence();
  std::vector<std::int32_t> out{argmax(feed_last(cache, prompt))};
  while (std::ssize(out) < count) out.push_back(argmax(feed_last(cache, std::span(&out.back(), 1))));
  return out;
}

std::int32_t argmax(std::span<const float> row) {
  return static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin());
}

double relative_error(std::span<const float> a, std::span<const float> b) {
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (!std::isfinite(a[i])) return INFINITY;
    error = std::max(error, std::abs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return error / largest;
}

std::vector<double> row_errors(std::span<const float> a, std::span<const float> b, std::int64_t width) {
  double largest = 0;
  for (const float value : b) largest = std::max(largest, std::abs(static_cast<double>(value)));
  std::vector<double> errors;
  const auto row = static_cast<std::size_t>(width);
  for (std::size_t begin = 0; begin < b.size(); begin += row) {
    double error = 0;
    for (std::size_t i = begin; i < begin + row; ++i) {
      error = std::max(error, std::isfinite(a[i]) ? std::abs(static_cast<double>(a[i]) - b[i]) : INFINITY);
    }
    errors.push_back(error / largest);
  }
  return errors;
}

std::vector<std::int32_t> random_ids(std::int64_t count, std::int64_t vocab, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::int32_t& id : ids) {
    id = static_cast<std::int32_t>(rng.next_u64() % static_cast<std::uint64_t>(vocab));
  }
  return ids;
}

}  // namespace lithe::test
