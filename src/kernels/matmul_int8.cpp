// Quantised weights times int8 activations.
//
// An output's arithmetic, the same for any number of rows and any cut (promise 1): for each block of 32 columns in
// order, the exact integer sum t of (code * activation code), then u = round(t * activation scale) and
// acc = fma(u, weight scale, acc); formats with a minimum add fma(min, activation scale * activation sum, acc).
// Two ways to get there:
//   fused   few rows: codes are unpacked into registers and meet every row at once. Decoding: one pass over memory.
//   tiled   many rows: a chunk of one or two panels is unpacked once into L1 and meets the rows tile by tile.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_int8.cpp"
#include "kernels/simd_targets.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "kernels/matmul.h"

#include "kernels/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {
namespace {

/// Rows that the fused kernel takes at once, and up to which it is the faster one.
constexpr int kFusedRows = kVecs == 1 ? 4 : kVecs == 2 ? 2 : 1;

/// 6 x 2 integer and as many float accumulators fill 32 registers; with 16, the float ones wait in memory.
constexpr int kTileRows = kVecs == 1 ? 6 : 4;
constexpr int kTilePanels = kVecs == 1 ? 2 : 1;
/// Vectors of weights in a tile.
constexpr int kTileVecs = 2;

constexpr std::int64_t kChunkBlocks = 24;  // columns / 32 of a chunk: two panels of it fill half of L1

/// A block of an unpacked panel: codes u8[planes][8 quads][16][4], scales f32[halves][16], minima f32[16] if any.
template <CodeKind kKind>
struct Unpacked {
  static constexpr int kScales = kPlanes<kKind> * 512;
  static constexpr int kMins = kScales + kKind.halves * 64;
  static constexpr int kBytes = kMins + (kKind.min ? 64 : 0);
};
constexpr std::size_t kMaxUnpackedBytes = 1024 + 128 + 64;
constexpr std::size_t kUnpackScratch = kTilePanels * kChunkBlocks * kMaxUnpackedBytes;

// --- few rows -------------------------------------------------------------------------------------------------------

template <DType kType>
HWY_INLINE void split_planes(VU8 codes, VU8 (&planes)[kPlanes<kCodeKind<kType>>]) {
  if constexpr (kPlanes<kCodeKind<kType>> == 2) {
    planes[0] = shift_and_mask<0, 15>(codes);
    planes[1] = shift_and_mask<-4, 15>(codes);
  } else {
    planes[0] = codes;
  }
}

/// One panel times kRows prepared rows at x, x + x_stride, ...
template <DType kType, int kRows>
HWY_INLINE void fused_panel(const MatmulJob& job, std::int64_t panel, std::int64_t row, const std::byte* x,
                            std::int64_t blocks) {
  constexpr CodeKind kKind = kCodeKind<kType>;
  constexpr PackedLayout kLayout = packed_layout(kType);
  const std::byte* weights = job.weights.panel(panel);
  const std::size_t x_stride = job.x.row_bytes;
  const std::size_t half_offset = half_init_offset(job.weights.cols);
  VF acc[kRows][kVecs];
  unroll<kRows>([&](auto r)
                    LITHE_SIMD { unroll<kVecs>([&](auto v) LITHE_SIMD { acc[r][v] = hn::Zero(df); }); });
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::byte* xb = x + static_cast<std::size_t>(b) * kInt8BlockBytes;
    const std::byte* body = weights + kLayout.body_at(b);
    unroll<kVecs>([&](auto v) LITHE_SIMD {
      BlockDot<kKind> dots[kRows];
      VI init[kRows][kKind.halves];
      unroll<kRows>([&](auto r) LITHE_SIMD {
        const auto* half = reinterpret_cast<const std::int32_t*>(x + r * x_stride + half_offset) +
                           2 * static_cast<std::size_t>(b);
        load_init<kKind>(xb + r * x_stride, half, init[r]);
        dots[r].begin(init[r]);
      });
      for_each_quad<kType, kUnpackShift<kKind>>(body, v, [&](auto q, VU8 codes) LITHE_SIMD {
        VU8 planes[kPlanes<kKind>];
        split_planes<kType>(codes, planes);
        unroll<kRows>([&](auto r) LITHE_SIMD {
          dots[r].template add<q>(planes, broadcast_quad(xb + r * x_stride + q * 4));
        });
      });
      const BlockScales scales = load_scales<kType>(weights, b, v);
      unroll<kRows>([&](auto r) LITHE_SIMD {
        const std::byte* params = xb + r * x_stride + kBlockCols;
        unroll<kKind.halves>([&](auto h) LITHE_SIMD {
          acc[r][v] = add_scaled(acc[r][v], dots[r].template finish<h>(init[r]), params, scales.scale[h]);
        });
        if constexpr (kKind.min) acc[r][v] = add_min(acc[r][v], params, scales.min);
      });
    });
  }
  const VF unshift = hn::Set(df, 1.0f / (1 << kKind.shift));
  unroll<kRows>([&](auto r) LITHE_SIMD {
    unroll<kVecs>([&](auto v) LITHE_SIMD {
      finish_output(output_vector(job, panel, v), (row + r) * job.out_stride, job.accumulate,
                    hn::Mul(acc[r][v], unshift));
    });
  });
}

template <DType kType, int kRows>
HWY_NOINLINE void fused(const MatmulJob& job, std::int64_t row) {
  const std::byte* x = job.x.data + static_cast<std::size_t>(row) * job.x.row_bytes;
  const std::int64_t blocks = job.weights.cols / kBlockCols;
  for (std::int64_t p = job.panel_begin; p < job.panel_end; ++p)
    fused_panel<kType, kRows>(job, p, row, x, blocks);
}

// --- many rows ------------------------------------------------------------------------------------------------------

/// Blocks [begin, end) of a panel into `out`.
template <DType kType>
HWY_NOINLINE void unpack_chunk(const std::byte* panel, std::int64_t begin, std::int64_t end, std::byte* out) {
  constexpr CodeKind kKind = kCodeKind<kType>;
  constexpr PackedLayout kLayout = packed_layout(kType);
  using Out = Unpacked<kKind>;
  for (std::int64_t b = begin; b < end; ++b, out += Out::kBytes) {
    const std::byte* body = panel + kLayout.body_at(b);
    unroll<kVecs>([&](auto v) LITHE_SIMD {
      std::byte* lanes = out + v * kVecBytes;
      for_each_quad<kType, kUnpackShift<kKind>>(body, v, [&](auto q, VU8 codes) LITHE_SIMD {
        VU8 planes[kPlanes<kKind>];
        split_planes<kType>(codes, planes);
        unroll<kPlanes<kKind>>([&](auto p) LITHE_SIMD {
          hn::Store(planes[p], du8, reinterpret_cast<std::uint8_t*>(lanes + p * 512 + q * 64));
        });
      });
      const BlockScales scales = load_scales<kType>(panel, b, v);
      unroll<kKind.halves>([&](auto h) LITHE_SIMD {
        hn::Store(scales.scale[h], df, reinterpret_cast<float*>(lanes + Out::kScales + h * 64));
      });
      if constexpr (kKind.min) hn::Store(scales.min, df, reinterpret_cast<float*>(lanes + Out::kMins));
    });
  }
}

/// The kinds that differ for a tile on this target: with vpdpbusd all codes are bytes of one form.
constexpr CodeKind tile_kind(CodeKind kind) {
  if (kPlanes<CodeKind{8, 0, false, 1}> == 1) return {8, 0, kind.min, kind.halves};
  return kind;
}

/// One tile's place: its vectors of weights, its rows of activations, its partial sums.
struct Tile {
  const std::byte* weights[kTileVecs];  // unpacked, already at the vector's lanes
  OutputVector output[kTileVecs];
  const std::byte* x = nullptr;          // first row, first block of the chunk
  const std::byte* half_init = nullptr;  // likewise
  std::int64_t row = 0;
  std::int64_t blocks = 0;
  float* sums = nullptr;  // [rows][kSumsStride] between chunks, the tile's vectors side by side
  float unshift = 1.0f;   // 2^-code_shift
  bool first = false, last = false;
};

template <CodeKind kKind, int kRows>
HWY_NOINLINE void tile_kernel(const MatmulJob& job, const Tile& tile) {
  constexpr int kCols = kTileVecs;
  using In = Unpacked<kKind>;
  VF acc[kRows][kCols];
  const std::byte* w[kCols];
  const std::byte* x[kRows];
  const std::byte* half_init[kRows];
  unroll<kRows>([&](auto r) LITHE_SIMD {
    unroll<kCols>([&](auto t) LITHE_SIMD {
      acc[r][t] = tile.first ? hn::Zero(df) : hn::LoadU(df, tile.sums + r * kSumsStride + t * kLanes);
    });
    x[r] = opaque(tile.x + r * job.x.row_bytes);
    if constexpr (kKind.halves == 2) half_init[r] = opaque(tile.half_init + r * job.x.row_bytes);
  });
  unroll<kCols>([&](auto t) LITHE_SIMD { w[t] = tile.weights[t]; });
  for (std::int64_t b = 0; b < tile.blocks; ++b) {
    BlockDot<kKind> dots[kRows][kCols];
    VI init[kRows][kKind.halves];
    unroll<kRows>([&](auto r) LITHE_SIMD {
      load_init<kKind>(x[r], reinterpret_cast<const std::int32_t*>(half_init[r]), init[r]);
      unroll<kCols>([&](auto t) LITHE_SIMD { dots[r][t].begin(init[r]); });
    });
    unroll<8>([&](auto q) LITHE_SIMD {
      VU8 codes[kCols][kPlanes<kKind>];
      unroll<kCols>([&](auto t) LITHE_SIMD {
        unroll<kPlanes<kKind>>(
            [&](auto p) LITHE_SIMD { codes[t][p] = hn::Load(du8, as_u8(w[t] + p * 512 + q * 64)); });
      });
      unroll<kRows>([&](auto r) LITHE_SIMD {
        const auto xq = broadcast_quad(x[r] + q * 4);
        unroll<kCols>([&](auto t) LITHE_SIMD { dots[r][t].template add<q>(codes[t], xq); });
      });
    });
    unroll<kRows>([&](auto r) LITHE_SIMD {
      const std::byte* params = x[r] + kBlockCols;
      unroll<kCols>([&](auto t) LITHE_SIMD {
        unroll<kKind.halves>([&](auto h) LITHE_SIMD {
          const VF scale = hn::Load(df, reinterpret_cast<const float*>(w[t] + In::kScales + h * 64));
          acc[r][t] = add_scaled(acc[r][t], dots[r][t].template finish<h>(init[r]), params, scale);
        });
        if constexpr (kKind.min) {
          acc[r][t] =
              add_min(acc[r][t], params, hn::Load(df, reinterpret_cast<const float*>(w[t] + In::kMins)));
        }
      });
    });
    unroll<kCols>([&](auto t) LITHE_SIMD { w[t] += In::kBytes; });
    unroll<kRows>([&](auto r) LITHE_SIMD {
      x[r] += kInt8BlockBytes;
      if constexpr (kKind.halves == 2) half_init[r] += 2 * sizeof(std::int32_t);
    });
  }
  if (!tile.last) {
    unroll<kRows>([&](auto r) LITHE_SIMD {
      unroll<kCols>([&](auto t)
                        LITHE_SIMD { hn::StoreU(acc[r][t], df, tile.sums + r * kSumsStride + t * kLanes); });
    });
    return;
  }
  const VF unshift = hn::Set(df, tile.unshift);
  unroll<kRows>([&](auto r) LITHE_SIMD {
    unroll<kCols>([&](auto t) LITHE_SIMD {
      finish_output(tile.output[t], (tile.row + r) * job.out_stride, job.accumulate,
                    hn::Mul(acc[r][t], unshift));
    });
  });
}

using TileKernel = void (*)(const MatmulJob&, const Tile&);

template <CodeKind kKind, std::size_t... kRow>
constexpr std::array<TileKernel, sizeof...(kRow)> tile_kernels(std::index_sequence<kRow...>) {
  return {&tile_kernel<kKind, static_cast<int>(kRow) + 1>...};
}

/// Memory that will be unpacked next, fetched into L2 a piece at a time while tiles are computed.
struct Ahead {
  const std::byte* at = nullptr;
  std::size_t bytes = 0;
  HWY_INLINE void fetch(std::int64_t pieces) {
    const std::size_t piece =
        std::min(bytes, (bytes / static_cast<std::size_t>(pieces) + 64) & ~std::size_t{63});
    for (std::size_t i = 0; i < piece; i += 64) __builtin_prefetch(at + i, 0, 2);
    at += piece;
    bytes -= piece;
  }
};

/// Rows [begin, end) against the unpacked chunk, in tiles of nearly equal height.
template <CodeKind kKind>
void run_tiles(const MatmulJob& job, Tile tile, std::int64_t begin, std::int64_t end, std::int64_t chunk,
               Ahead (&ahead)[kTilePanels]) {
  static constexpr auto kKernels = tile_kernels<kKind>(std::make_index_sequence<kTileRows>());
  const std::int64_t rows = end - begin, tiles = (rows + kTileRows - 1) / kTileRows;
  for (std::int64_t i = 0, r = begin; i < tiles; ++i) {
    const std::int64_t height = rows / tiles + (i < rows % tiles ? 1 : 0);
    for (Ahead& a : ahead) a.fetch(tiles - i);
    const std::byte* x = job.x.data + static_cast<std::size_t>(r) * job.x.row_bytes;
    tile.row = r;
    tile.x = x + static_cast<std::size_t>(chunk) * kInt8BlockBytes;
    tile.half_init = x + half_init_offset(job.weights.cols) + static_cast<std::size_t>(chunk) * 8;
    kKernels[static_cast<std::size_t>(height - 1)](job, tile);
    tile.sums += height * kSumsStride;
    r += height;
  }
}

/// Panels [p, p + panels) times rows [begin, end), columns of blocks [c, c + tile.blocks).
template <DType kType>
void tiled_chunk(const MatmulJob& job, Tile tile, std::int64_t p, int panels, std::int64_t begin,
                 std::int64_t end, std::int64_t c) {
  constexpr CodeKind kKind = kCodeKind<kType>;
  constexpr PackedLayout kLayout = packed_layout(kType);
  constexpr std::size_t kPanelBytes = kChunkBlocks * Unpacked<kKind>::kBytes;
  std::byte* const unpacked = job.scratch.data();
  Ahead ahead[kTilePanels];
  const std::int64_t c_end = c + tile.blocks;
  for (int i = 0; i < panels; ++i) {
    unpack_chunk<kType>(job.weights.panel(p + i), c, c_end, unpacked + i * kPanelBytes);
    if (p + kTilePanels + i < job.panel_end) {
      ahead[i] = {job.weights.panel(p + kTilePanels + i) + kLayout.body_at(c),
                  kLayout.body_at(c_end - 1) - kLayout.body_at(c)};
    }
  }
  for (int first = 0; first < kTilePanels * kVecs; first += kTileVecs) {
    for (int t = 0; t < kTileVecs; ++t) {
      const int i = (first + t) / kVecs, v = (first + t) % kVecs;
      const bool exists = i < panels;  // an odd last panel is computed twice and written once
      tile.weights[t] = unpacked + (exists ? i : 0) * kPanelBytes + v * kVecBytes;
      tile.output[t] = exists ? output_vector(job, p + i, v) : OutputVector();
    }
    Tile part = tile;
    part.sums += first * kLanes;
    run_tiles<tile_kind(kKind)>(job, part, begin, end, c, ahead);
  }
}

template <DType kType>
HWY_NOINLINE void tiled(const MatmulJob& job) {
  const std::int64_t blocks = job.weights.cols / kBlockCols;
  const std::int64_t chunk = even_part(blocks, kChunkBlocks);
  const std::int64_t block_rows = even_part(job.row_end - job.row_begin, kMaxBlockRows);
  auto* const sums = reinterpret_cast<float*>(job.scratch.data() + kUnpackScratch);
  Tile tile = {};
  tile.unshift = 1.0f / (1 << kCodeKind<kType>.shift);
  for (std::int64_t r = job.row_begin; r < job.row_end; r += block_rows) {
    const std::int64_t r_end = std::min(r + block_rows, job.row_end);
    for (std::int64_t g = job.panel_begin; g < job.panel_end; g += kGroupPanels) {
      const std::int64_t g_end = std::min<std::int64_t>(g + kGroupPanels, job.panel_end);
      for (std::int64_t c = 0; c < blocks; c += chunk) {
        tile.blocks = std::min(chunk, blocks - c);
        tile.first = c == 0;
        tile.last = c + tile.blocks == blocks;
        for (std::int64_t p = g; p < g_end; p += kTilePanels) {
          tile.sums = sums + (p - g) * kPanelRows;
          tiled_chunk<kType>(job, tile, p, static_cast<int>(std::min<std::int64_t>(kTilePanels, g_end - p)),
                             r, r_end, c);
        }
      }
    }
  }
}

template <DType kType>
void run(const MatmulJob& job) {
  const std::int64_t rows = job.row_end - job.row_begin;
  if (rows > kFusedRows) return tiled<kType>(job);
  unroll<kFusedRows>([&](auto r) LITHE_SIMD {
    if (rows == r + 1) fused<kType, r + 1>(job, job.row_begin);
  });
}

}  // namespace

std::size_t int8_scratch_bytes() {
  return kUnpackScratch + kSumsScratch;
}

void matmul_int8(const MatmulJob& job) {
  switch (job.weights.dtype) {
    case DType::q8_0:
      return run<DType::q8_0>(job);
    case DType::q4_0:
      return run<DType::q4_0>(job);
    case DType::q4_1:
      return run<DType::q4_1>(job);
    case DType::q5_0:
      return run<DType::q5_0>(job);
    case DType::q5_1:
      return run<DType::q5_1>(job);
    case DType::q4_k:
      return run<DType::q4_k>(job);
    case DType::q5_k:
      return run<DType::q5_k>(job);
    case DType::q6_k:
      return run<DType::q6_k>(job);
    default:
      LITHE_CHECK(!"int8 activations need quantised weights");
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();
