// Weights of any format times f32 activations: each weight as its exact f32 value, one FMA chain per output over the
// columns in order (promise 1). Also the plain product of two float matrices.
//   one row    weights go straight from memory into registers, several panels at once to hide the FMA's latency
//   more rows  a chunk of columns of two panels is decoded (f32: copied) once into L1 and meets all rows
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_float.cpp"
#include "kernels/simd_targets.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "kernels/matmul.h"

#include "kernels/codes-inl.h"
#include "kernels/float_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {
namespace {

/// Columns decoded at a time: two panels of them and 12 rows of x, 22 KB, leave room in L1 for what passes by.
constexpr std::int64_t kChunk = 128;
constexpr int kPanels = kVecs == 1 ? 2 : 1;  // that make a tile's two vectors (or two of a panel's)
constexpr int kOneRowPanels = kVecs == 1 ? 8 : kVecs == 2 ? 4 : 2;
constexpr int kOneRowVecs = kOneRowPanels * kVecs;  // 8 accumulators
constexpr std::size_t kPanelChunk = kChunk * kPanelRows * sizeof(float);
constexpr std::size_t kDecodeScratch = 32768;
static_assert(kPanels * kPanelChunk <= kDecodeScratch);
/// A chunk of x's columns, rows an odd number of lines apart: in few pages, and never in one set of a cache.
constexpr std::int64_t kRowStride = kChunk + 16;
constexpr std::size_t kRowsScratch = kMaxBlockRows * kRowStride * sizeof(float);

// --- decoding into f32 [col][16] ------------------------------------------------------------------------------------

struct LoadF16 {
  static constexpr std::size_t kStep = 32;
  static constexpr int kSteps = 1;
  HWY_INLINE void operator()(const std::byte* p, VF (&w)[1]) const { w[0] = load_f16(p); }
};

/// Two columns side by side in a lane.
struct LoadBf16 {
  static constexpr std::size_t kStep = 64;
  static constexpr int kSteps = 2;
  HWY_INLINE void operator()(const std::byte* p, VF (&w)[2]) const {
    const auto pair = hn::Load(du, reinterpret_cast<const std::uint32_t*>(p));
    w[0] = hn::BitCast(df, hn::ShiftLeft<16>(pair));
    w[1] = hn::BitCast(df, hn::And(pair, hn::Set(du, 0xffff0000u)));
  }
};

/// Columns [begin, end) of a panel; begin even for bf16, at a block for the quantised formats.
template <DType kType>
HWY_NOINLINE void decode_chunk(const std::byte* panel, std::int64_t begin, std::int64_t end, float* out) {
  if constexpr (kType ==
                DType::f32) {  // a copy pays: two panels side by side in L1, page by page at most once
    std::memcpy(out, panel + begin * 64, static_cast<std::size_t>(end - begin) * 64);
  } else if constexpr (kType == DType::f16) {
    for (std::int64_t c = begin; c < end; ++c, out += kPanelRows) {
      unroll<kVecs>([&](auto v) LITHE_SIMD {
        hn::Store(load_f16(panel + c * 32 + v * kLanes * 2), df, out + v * kLanes);
      });
    }
  } else if constexpr (kType == DType::bf16) {
    for (std::int64_t c = begin; c < end; c += 2, out += 2 * kPanelRows) {
      unroll<kVecs>([&](auto v) LITHE_SIMD {
        VF w[2];
        LoadBf16()(panel + c / 2 * 64 + v * kVecBytes, w);
        hn::Store(w[0], df, out + v * kLanes);
        hn::Store(w[1], df,
                  out + kPanelRows + v * kLanes);  // beyond the last column: inside the scratch, not read
      });
    }
  } else {
    constexpr PackedLayout kLayout = packed_layout(kType);
    for (std::int64_t b = begin / kBlockCols; b < end / kBlockCols; ++b, out += kBlockCols * kPanelRows) {
      unroll<kVecs>([&](auto v) LITHE_SIMD {
        const BlockScales scales = load_scales<kType>(panel, b, v);
        for_each_quad<kType, 0>(panel + kLayout.body_at(b), v, [&](auto q, VU8 codes) LITHE_SIMD {
          const auto quad = hn::BitCast(du, codes);
          unroll<4>([&](auto j) LITHE_SIMD {
            const auto byte = hn::And(hn::ShiftRight<8 * j>(quad), hn::Set(du, 255u));
            const VF code = hn::ConvertTo(df, hn::BitCast(di, byte));
            constexpr int kHalf = kLayout.halves() == 2 ? q / 4 : 0;
            VF value;
            if constexpr (kLayout.has_min()) {
              value = hn::Add(hn::Mul(scales.scale[kHalf], code), scales.min[kHalf]);
            } else {
              constexpr float kZero = kLayout.zero();
              value = hn::Mul(scales.scale[kHalf], hn::Sub(code, hn::Set(df, kZero)));
            }
            hn::Store(value, df, out + (q * 4 + j) * kPanelRows + v * kLanes);
          });
        });
      });
    }
  }
}

using DecodeChunk = void(const std::byte* panel, std::int64_t begin, std::int64_t end, float* out);

FloatTile first_tile(const MatmulJob& job, std::int64_t row) {
  FloatTile tile = {};
  tile.x = job.x.data + static_cast<std::size_t>(row) * job.x.row_bytes;
  tile.x_stride = job.x.row_bytes;
  tile.out_offset = row * job.out_stride;
  tile.out_stride = job.out_stride;
  tile.accumulate = job.accumulate;
  return tile;
}

/// Vectors [first, first + count) of panels that begin at `base`; those that the job lacks repeat the first one and
/// are not written.
HWY_INLINE void place(const MatmulJob& job, std::int64_t p, int panels, int first, int count,
                      const std::byte* base, std::size_t panel_stride, std::size_t vec_stride,
                      FloatTile* tile) {
  for (int t = 0; t < count; ++t) {
    const int i = (first + t) / kVecs, v = (first + t) % kVecs;
    const bool exists = i < panels;
    tile->weights[t] = base + (exists ? static_cast<std::size_t>(i) * panel_stride : 0) +
                       static_cast<std::size_t>(v) * vec_stride;
    tile->output[t] = exists ? output_vector(job, p + i, v) : OutputVector();
  }
}

// --- one row --------------------------------------------------------------------------------------------------------

/// Straight from the packed matrix: f32, f16, and bf16 with an even number of columns.
template <typename Load>
HWY_NOINLINE void one_row_direct(const MatmulJob& job) {
  FloatTile tile = first_tile(job, job.row_begin);
  tile.steps = job.weights.cols;
  for (std::int64_t p = job.panel_begin; p < job.panel_end; p += kOneRowPanels) {
    const int panels = static_cast<int>(std::min<std::int64_t>(kOneRowPanels, job.panel_end - p));
    place(job, p, panels, 0, kOneRowVecs, job.weights.panel(p), job.weights.panel_bytes, Load::kStep / kVecs,
          &tile);
    float_tile<Load, MultiplyF32, 1, kOneRowVecs>(tile);
  }
}

/// Through L1, a few columns of several panels at a time.
void one_row_decoded(const MatmulJob& job, DecodeChunk* decode) {
  constexpr std::int64_t kCols = 64;
  constexpr std::size_t kPanelBytes = kCols * kPanelRows * sizeof(float);
  static_assert(kOneRowPanels * kPanelBytes <= kDecodeScratch && kOneRowPanels <= kGroupPanels);
  const std::int64_t cols = job.weights.cols;
  FloatTile tile = first_tile(job, job.row_begin);
  const std::byte* const x = tile.x;
  tile.sums = reinterpret_cast<float*>(job.scratch.data() + kDecodeScratch);
  for (std::int64_t p = job.panel_begin; p < job.panel_end; p += kOneRowPanels) {
    const int panels = static_cast<int>(std::min<std::int64_t>(kOneRowPanels, job.panel_end - p));
    place(job, p, panels, 0, kOneRowVecs, job.scratch.data(), kPanelBytes, kVecBytes, &tile);
    for (std::int64_t c = 0; c < cols; c += kCols) {
      const std::int64_t c_end = std::min(c + kCols, cols);
      for (int i = 0; i < panels; ++i) {
        decode(job.weights.panel(p + i), c, c_end,
               reinterpret_cast<float*>(job.scratch.data() + static_cast<std::size_t>(i) * kPanelBytes));
      }
      tile.x = x + c * static_cast<std::int64_t>(sizeof(float));
      tile.steps = c_end - c;
      tile.first = c == 0;
      tile.last = c_end == cols;
      float_tile<LoadPlain, MultiplyF32, 1, kOneRowVecs>(tile);
    }
  }
}

// --- several rows ---------------------------------------------------------------------------------------------------

/// Columns of `rows` rows at tile->x, side by side in `to`.
HWY_INLINE void gather_rows(std::int64_t rows, float* to, FloatTile* tile) {
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * kRowStride, tile->x + static_cast<std::size_t>(r) * tile->x_stride,
                static_cast<std::size_t>(tile->steps) * sizeof(float));
  }
  tile->x = reinterpret_cast<const std::byte*>(to);
  tile->x_stride = kRowStride * sizeof(float);
}

/// Panels [p, p + panels), columns [c, c + tile.steps) times `rows` rows. decode(panel, c, c_end, out): those columns of a
/// panel as floats [col][16].
template <typename Decode>
HWY_INLINE void chunk_of_columns(const MatmulJob& job, FloatTile tile, std::int64_t p, int panels,
                                 std::int64_t c, std::int64_t rows, const Decode& decode) {
  for (int i = 0; i < panels; ++i) {
    decode(p + i, c, c + tile.steps,
           reinterpret_cast<float*>(job.scratch.data() + static_cast<std::size_t>(i) * kPanelChunk));
  }
  float* const sums = tile.sums;
  for (int first = 0; first < kPanels * kVecs; first += kFloatVecs) {
    place(job, p, panels, first, kFloatVecs, job.scratch.data(), kPanelChunk, kVecBytes, &tile);
    tile.sums = sums + first * kLanes;
    float_tiles<LoadPlain, MultiplyF32>(tile, rows);
  }
}

template <typename Decode>
HWY_NOINLINE void chunked(const MatmulJob& job, const Decode& decode) {
  const std::int64_t cols = job.weights.cols;
  const std::int64_t block_rows = even_part(job.row_end - job.row_begin, kMaxBlockRows);
  auto* const sums = reinterpret_cast<float*>(job.scratch.data() + kDecodeScratch);
  auto* const gathered = reinterpret_cast<float*>(job.scratch.data() + kDecodeScratch + kSumsScratch);
  for (std::int64_t r = job.row_begin; r < job.row_end; r += block_rows) {
    const std::int64_t rows = std::min(block_rows, job.row_end - r);
    for (std::int64_t g = job.panel_begin; g < job.panel_end; g += kGroupPanels) {
      const std::int64_t g_end = std::min<std::int64_t>(g + kGroupPanels, job.panel_end);
      for (std::int64_t c = 0; c == 0 || c < cols; c += kChunk) {
        FloatTile tile = first_tile(job, r);
        tile.x += c * static_cast<std::int64_t>(sizeof(float));
        tile.steps = std::min(kChunk, cols - c);
        tile.first = c == 0;
        tile.last = c + tile.steps == cols;
        // Never so for rows that prepare() made.
        if (job.x.row_bytes % 512 == 0 && tile.steps > 0) gather_rows(rows, gathered, &tile);
        for (std::int64_t p = g; p < g_end; p += kPanels) {
          tile.sums = sums + (p - g) * kPanelRows;
          const auto panels = static_cast<int>(std::min<std::int64_t>(kPanels, g_end - p));
          chunk_of_columns(job, tile, p, panels, c, rows, decode);
        }
      }
    }
  }
}

void several_rows(const MatmulJob& job, DecodeChunk* decode) {
  chunked(job, [&](std::int64_t panel, std::int64_t begin, std::int64_t end, float* out) {
    decode(job.weights.panel(panel), begin, end, out);
  });
}

template <DType kType>
void run(const MatmulJob& job) {
  if (job.row_end - job.row_begin > 1) return several_rows(job, decode_chunk<kType>);
  if constexpr (kType == DType::f32) {
    one_row_direct<LoadPlain>(job);
  } else if constexpr (kType == DType::f16) {
    one_row_direct<LoadF16>(job);
  } else if (kType == DType::bf16 && job.weights.cols % 2 == 0) {
    one_row_direct<LoadBf16>(job);
  } else {
    one_row_decoded(job, decode_chunk<kType>);
  }
}

}  // namespace

std::size_t float_scratch_bytes() {
  return kDecodeScratch + kSumsScratch + kRowsScratch;
}

void matmul_float(const MatmulJob& job) {
  switch (job.weights.dtype) {
    case DType::f32:
      return run<DType::f32>(job);
    case DType::f16:
      return run<DType::f16>(job);
    case DType::bf16:
      return run<DType::bf16>(job);
    default:
      return dispatch_quantized(job.weights.dtype, [&](auto type) { run<type>(job); });
  }
}

/// A job like any other, whose panels come from b.
void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda, const float* b,
           std::int64_t ldb, float* c, std::int64_t ldc, bool accumulate, std::span<std::byte> scratch) {
  MatmulJob job;
  job.weights.rows = n;
  job.weights.cols = k;
  job.x.data = reinterpret_cast<const std::byte*>(a);
  job.x.row_bytes = static_cast<std::size_t>(lda) * sizeof(float);
  job.out = c;
  job.out_stride = ldc;
  job.accumulate = accumulate;
  job.row_end = m;
  job.panel_end = (n + kPanelRows - 1) / kPanelRows;
  job.scratch = scratch;
  chunked(job, [&](std::int64_t panel, std::int64_t begin, std::int64_t end, float* out) {
    const std::int64_t column = panel * kPanelRows, width = std::min<std::int64_t>(kPanelRows, n - column);
    for (std::int64_t row = begin; row < end; ++row, out += kPanelRows) {
      const float* from = b + row * ldb + column;
      if (width == kPanelRows) {
        std::memcpy(out, from, kPanelRows * sizeof(float));
      } else {
        std::fill(std::copy_n(from, width, out), out + kPanelRows, 0.0f);
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();
