// Linear: the only door to a weight matrix. It knows its format, its arithmetic, its shard role and its id;
// it is where quantisation, tensor parallelism, calibration and sparsity plug in.
//
// Several matrices that read the same input (q, k, v; gate, up) run as one group: the input is made ready
// once, and one parallel region covers all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "kernels/kernel_table.h"
#include "layers/context.h"
#include "layers/memory.h"

namespace lithe::layers {

/// How a matrix may be cut over ranks. Outputs split and gathered keep every sum whole, hence every bit
/// (promise 1).
enum class ShardRole : std::uint8_t { replicated, output_rows };

/// Weights as a file stores them: `rows` rows one after another, in the layout of `dtype` or of the decode-only format
/// that runs as it.
struct StoredMatrix {
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;  // [out_features, in_features]
  std::span<const std::byte> data;  // exactly rows * row_bytes(format or dtype, cols)
  const BlockFormat* format =
      nullptr;  // null: that of dtype; otherwise decoded and encoded again while packing
};

/// int8 for quantised weights; bf16 for bf16 where the CPU has units for it; else, and always with `full`,
/// f32.
kernels::Arithmetic choose_arithmetic(DType dtype, const kernels::KernelTable& kernels, bool full);

class Linear {
 public:
  Linear() = default;  // no matrix: see operator bool

  /// Bytes that pack() will take of a WeightMemory.
  static std::size_t packed_bytes(DType dtype, std::int64_t rows, std::int64_t cols);

  /// Told of each larger part of the stored data that has been packed, by whichever thread packed it.
  using PackedPart = FunctionRef<void(std::span<const std::byte> part)>;

  /// Packs panel by panel on all threads; `stored` may be forgotten afterwards.
  static Linear pack(const StoredMatrix& stored, kernels::Arithmetic arithmetic, WeightMemory& memory,
                     ThreadPool& pool, const PackedPart* packed = nullptr);

  explicit operator bool() const { return weights_.data != nullptr; }
  const kernels::PackedMatrix& weights() const { return weights_; }  // the bytes belong to the WeightMemory
  std::int64_t out_features() const { return weights_.rows; }
  std::int64_t in_features() const { return weights_.cols; }
  kernels::Arithmetic arithmetic() const { return arithmetic_; }
  std::size_t weight_bytes() const {
    return static_cast<std::size_t>(weights_.panels()) * weights_.panel_bytes;
  }

  /// A second Linear over the same packed bytes (a tied head).
  Linear share() const { return *this; }

  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }
  void set_bias(std::vector<float> bias);  // [out_features]
  int id() const { return id_; }           // unique in a model; what an Observer sees
  const std::string& name() const { return name_; }
  ShardRole shard_role() const { return shard_role_; }
  void describe(int id, std::string name, ShardRole role);

 private:
  kernels::PackedMatrix weights_;
  kernels::Arithmetic arithmetic_ = kernels::Arithmetic::f32;
  std::vector<float> bias_;
  int id_ = -1;
  std::string name_;
  ShardRole shard_role_ = ShardRole::replicated;
};

/// Rows that matrices read: rows of memory as they are, or made on the way (a norm, a gate), so that each is
/// still in cache when it is turned into the kernels' form.
struct LinearInput {
  const float* x = nullptr;  // [rows, stride]; ignored with `make`
  std::int64_t stride = 0;
  std::int64_t rows = 0, cols = 0;
  /// Writes row `row` to out: [cols]. Runs on any worker, rows in any order.
  const FunctionRef<void(std::int64_t row, float* out)>* make = nullptr;
};

/// One matrix of a group and where its product goes: out: [rows, out_stride].
struct Product {
  const Linear* linear = nullptr;
  float* out = nullptr;
  std::int64_t out_stride = 0;
  bool accumulate = false;  // adds to what is there
};

/// Called when columns [begin, end) of rows [row_begin, row_end) of every product are done, on the worker
/// that did them. begin is a multiple of kPanelRows.
using ProductEpilogue =
    FunctionRef<void(std::int64_t row_begin, std::int64_t row_end, std::int64_t begin, std::int64_t end)>;

/// All products of one input. With an epilogue the matrices must have equally many rows and advance side by
/// side.
void multiply(ExecContext& context, const LinearInput& input, std::span<const Product> products,
              const ProductEpilogue* epilogue = nullptr);

}  // namespace lithe::layers
