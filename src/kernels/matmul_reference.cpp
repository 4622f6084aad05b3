// Scalar matrix products: exact weights times the activations as prepared, summed in double. Slow and plainly right.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/activation_layout.h"
#include "kernels/fill.h"
#include "tensor/half.h"

namespace lithe::kernels {
namespace {

/// To 22 bits of mantissa, so that 1.5 * 2^23 times it is exact.
float round_scale(float scale) {
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  return std::bit_cast<float>((bits + 2u) & ~3u);
}

void prepare_int8_block(const float* x, std::byte* out, std::int32_t* half_init, std::int16_t* pair_sums) {
  float absmax = 0;
  bool finite = true;
  for (int i = 0; i < kBlockCols; ++i) {
    absmax = std::max(absmax, std::fabs(x[i]));
    finite = finite && std::fabs(x[i]) <= kInt8Largest;
  }
  float scale = 0, inverse = 0;
  if (finite && absmax >= kInt8Smallest) {
    scale = round_scale(absmax / 127.0f);
    inverse = 1.0f / scale;
  }
  std::int32_t sums[2] = {0, 0};
  for (int i = 0; i < kBlockCols; ++i) {
    const float scaled = finite ? x[i] * inverse : 0.0f;
    const auto code = static_cast<std::int32_t>(std::nearbyint(scaled));
    out[i] = static_cast<std::byte>(code);
    sums[i / 16] += code;
  }
  if (!finite) scale = NAN;
  const std::int32_t sum = sums[0] + sums[1];
  const Int8Params params = {kMagicBits - 128 * sum, scale, -kMagic * scale, scale * static_cast<float>(sum)};
  std::memcpy(out + kBlockCols, &params, sizeof params);
  for (int h = 0; h < 2; ++h) {
    half_init[h] = kMagicBits - 128 * sums[h];
    pair_sums[h] = static_cast<std::int16_t>(-kPairFactor * sums[h]);
  }
}

void prepare(Arithmetic arithmetic, const float* x, std::int64_t stride, std::int64_t rows, std::int64_t cols,
             std::byte* out) {
  LITHE_CHECK(arithmetic != Arithmetic::int8 || cols % kBlockCols == 0);
  const std::size_t row_bytes = activation_row_bytes(arithmetic, cols);
  for (std::int64_t r = 0; r < rows; ++r, x += stride, out += row_bytes) {
    switch (arithmetic) {
      case Arithmetic::f32:
        std::memcpy(out, x, static_cast<std::size_t>(cols) * sizeof(float));
        break;
      case Arithmetic::bf16: {
        auto* values = reinterpret_cast<std::uint16_t*>(out);
        for (std::int64_t c = 0; c < cols; ++c) values[c] = f32_to_bf16(x[c]);
        if (cols % 2 != 0) values[cols] = 0;
        break;
      }
      case Arithmetic::int8: {
        auto* half_init = reinterpret_cast<std::int32_t*>(out + half_init_offset(cols));
        auto* pair_sums = reinterpret_cast<std::int16_t*>(out + pair_sums_offset(cols));
        for (std::int64_t b = 0; b < cols / kBlockCols; ++b) {
          prepare_int8_block(x + b * kBlockCols, out + static_cast<std::size_t>(b) * kInt8BlockBytes,
                             half_init + 2 * b, pair_sums + 2 * b);
        }
        break;
      }
    }
  }
}

/// The values that a prepared row stands for.
void decode_activations(const Activations& x, std::int64_t row, double* out) {
  const std::byte* data = x.data + static_cast<std::size_t>(row) * x.row_bytes;
  for (std::int64_t c = 0; c < x.cols; ++c) {
    switch (x.arithmetic) {
      case Arithmetic::f32: {
        float value;
        std::memcpy(&value, data + c * 4, sizeof value);
        out[c] = value;
        break;
      }
      case Arithmetic::bf16: {
        std::uint16_t value;
        std::memcpy(&value, data + c * 2, sizeof value);
        out[c] = bf16_to_f32(value);
        break;
      }
      case Arithmetic::int8: {
        const std::byte* block = data + static_cast<std::size_t>(c / kBlockCols) * kInt8BlockBytes;
        Int8Params params;
        std::memcpy(&params, block + kBlockCols, sizeof params);
        const auto code = static_cast<std::int8_t>(block[c % kBlockCols]);
        out[c] = static_cast<double>(params.scale) * code;
        break;
      }
    }
  }
}

std::size_t matmul_scratch_bytes() {
  return 0;
}

void matmul(const MatmulJob& job) {
  const std::int64_t cols = job.weights.cols;
  LITHE_CHECK(job.x.cols == cols);
  const auto n = static_cast<std::size_t>(cols);
  std::vector<float> w(n);
  std::vector<double> x(n * static_cast<std::size_t>(job.row_end - job.row_begin));
  for (std::int64_t r = job.row_begin; r < job.row_end; ++r) {
    decode_activations(job.x, r, x.data() + static_cast<std::size_t>(r - job.row_begin) * n);
  }
  const std::int64_t last = std::min(job.panel_end * kPanelRows, job.weights.rows);
  for (std::int64_t o = job.panel_begin * kPanelRows; o < last; ++o) {
    unpack_row(job.weights, o, w.data());
    for (std::int64_t r = job.row_begin; r < job.row_end; ++r) {
      const double* xr = x.data() + static_cast<std::size_t>(r - job.row_begin) * n;
      double sum = 0;
      for (std::size_t c = 0; c < n; ++c) sum += xr[c] * static_cast<double>(w[c]);
      float value = static_cast<float>(sum);
      if (job.bias != nullptr) value += job.bias[o];
      float& out = job.out[r * job.out_stride + o];
      out = job.accumulate ? out + value : value;
    }
  }
}

void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda, const float* b,
           std::int64_t ldb, float* c, std::int64_t ldc, bool accumulate, std::span<std::byte>) {
  std::vector<double> sums(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < m; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t p = 0; p < k; ++p) {
      const double value = a[i * lda + p];
      for (std::int64_t j = 0; j < n; ++j) sums[static_cast<std::size_t>(j)] += value * b[p * ldb + j];
    }
    for (std::int64_t j = 0; j < n; ++j) {
      float& out = c[i * ldc + j];
      const auto sum = static_cast<float>(sums[static_cast<std::size_t>(j)]);
      out = accumulate ? out + sum : sum;
    }
  }
}

}  // namespace

void fill_matmul_reference(KernelTable& table) {
  table.runs_bf16 = true;
  table.activation_bytes = activation_row_bytes;
  table.prepare = prepare;
  table.matmul_scratch_bytes = matmul_scratch_bytes;
  table.matmul = matmul;
  table.sgemm = sgemm;
}

}  // namespace lithe::kernels
