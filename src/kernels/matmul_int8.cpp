// Quantised weights times int8 activations.
//
// An output's arithmetic, the same for any number of rows and any cut (promise 1): for each block of 32 columns in
// order, the exact integer sum t of (code * activation code), then u = round(t * activation scale) and
// acc = fma(u, weight scale, acc); formats with a minimum add fma(min, activation scale * activation sum, acc).
// Two ways to get there:
//   few rows    codes are unpacked into registers and meet every row at once: matmul_int8_few.cpp
//   many rows   a chunk of one or two panels is unpacked once into L1 and meets the rows tile by tile: here, with the
//               tile itself in int8_tile.cpp
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_int8.cpp"
#include "kernels/simd_targets.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <span>

#include "kernels/int8_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kChunkBlocks = 24;  // columns / 32 of a chunk: two panels of it fill half of L1
constexpr std::size_t kUnpackScratch = kTilePanels * kChunkBlocks * kMaxUnpackedBytes;

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
      for_each_planes<kType>(body, v, [&](auto q, const auto& planes) LITHE_SIMD {
        unroll<kPlanes<kKind>>([&](auto p) LITHE_SIMD {
          hn::Store(planes[p], du8, reinterpret_cast<std::uint8_t*>(lanes + p * 512 + q * 64));
        });
      });
      store_dot_scales(load_dot_scales<kType>(panel, b, v), lanes);
    });
  }
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

/// A block of rows of the job against an unpacked chunk of its columns.
struct RowBlock {
  std::int64_t begin, end;  // rows
  std::int64_t chunk;       // first block of columns
  bool last;                // the sums become outputs after it
};

/// The finished sums of `rows` rows become outputs. One loop for each of what may be added: no test inside.
HWY_INLINE void write_outputs(const MatmulJob& job, std::span<const OutputVector> outputs, const float* sums,
                              std::int64_t row, std::int64_t rows, VF unshift) {
  for (const OutputVector& o : outputs) {
    const float* in = sums;
    sums += kLanes;
    float* out = o.out + row * job.out_stride;
    if (o.lanes == kLanes && o.bias == nullptr && job.accumulate) {
      for (std::int64_t r = 0; r < rows; ++r, in += kSumsStride, out += job.out_stride) {
        hn::StoreU(hn::Add(hn::LoadU(df, out), hn::Mul(hn::LoadU(df, in), unshift)), df, out);
      }
    } else if (o.lanes == kLanes && o.bias == nullptr) {
      for (std::int64_t r = 0; r < rows; ++r, in += kSumsStride, out += job.out_stride) {
        hn::StoreU(hn::Mul(hn::LoadU(df, in), unshift), df, out);
      }
    } else {
      for (std::int64_t r = 0; r < rows; ++r, in += kSumsStride) {
        finish_output(o, (row + r) * job.out_stride, job.accumulate, hn::Mul(hn::LoadU(df, in), unshift));
      }
    }
  }
}

/// The rows against two vectors of the unpacked chunk, in tiles of nearly equal height.
template <DType kType>
void run_tiles(const MatmulJob& job, Int8Tile tile, std::span<const OutputVector> outputs,
               const RowBlock& block, Ahead (&ahead)[kTilePanels]) {
  constexpr CodeKind kKind = kCodeKind<kType>;
  const Int8TileKernel* const kernels =
      kKind.halves == 1 ? int8_tile_kernels(kType) : int8_tile_kernels_halves(kType);
  const VF unshift = hn::Set(df, 1.0f / (1 << kKind.shift));
  constexpr std::int64_t kRows = kTile<kKind>.rows;
  const std::int64_t rows = block.end - block.begin, tiles = (rows + kRows - 1) / kRows;
  for (std::int64_t i = 0, r = block.begin; i < tiles; ++i) {
    const std::int64_t height = rows / tiles + (i < rows % tiles ? 1 : 0);
    for (Ahead& a : ahead) a.fetch(tiles - i);
    const std::byte* x = job.x.data + static_cast<std::size_t>(r) * job.x.row_bytes;
    tile.x = x + static_cast<std::size_t>(block.chunk) * kInt8BlockBytes;
    tile.tail = tail_of<kKind>(x, job.weights.cols, block.chunk);
    kernels[height - 1](tile);
    if (block.last) write_outputs(job, outputs, tile.sums, r, height, unshift);
    tile.sums += height * kSumsStride;
    r += height;
  }
}

/// Panels [p, p + panels) times the rows.
template <DType kType>
void tiled_chunk(const MatmulJob& job, Int8Tile tile, std::int64_t p, int panels, const RowBlock& block) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  constexpr std::size_t kPanelBytes = kChunkBlocks * Unpacked<kCodeKind<kType>>::kBytes;
  std::byte* const unpacked = job.scratch.data();
  Ahead ahead[kTilePanels];
  const std::int64_t c = block.chunk, c_end = c + tile.blocks;
  for (int i = 0; i < panels; ++i) {
    unpack_chunk<kType>(job.weights.panel(p + i), c, c_end, unpacked + i * kPanelBytes);
    if (p + kTilePanels + i < job.panel_end) {
      ahead[i] = {job.weights.panel(p + kTilePanels + i) + kLayout.body_at(c),
                  kLayout.body_at(c_end - 1) - kLayout.body_at(c)};
    }
  }
  constexpr int kTileVecs = kTile<kCodeKind<kType>>.vecs;
  for (int first = 0; first < kTilePanels * kVecs; first += kTileVecs) {
    OutputVector outputs[kTileVecs];
    for (int t = 0; t < kTileVecs; ++t) {
      const int i = (first + t) / kVecs, v = (first + t) % kVecs;
      const bool exists = i < panels;  // an odd last panel is computed twice and written once
      tile.weights[t] = unpacked + (exists ? i : 0) * kPanelBytes + v * kVecBytes;
      if (exists) outputs[t] = output_vector(job, p + i, v);
    }
    Int8Tile part = tile;
    part.sums += first * kLanes;
    run_tiles<kType>(job, part, outputs, block, ahead);
  }
}

template <DType kType>
HWY_NOINLINE void tiled(const MatmulJob& job) {
  const std::int64_t blocks = job.weights.cols / kBlockCols;
  const std::int64_t chunk = even_part(blocks, kChunkBlocks);
  const std::int64_t block_rows = even_part(job.row_end - job.row_begin, kMaxBlockRows);
  auto* const sums = reinterpret_cast<float*>(job.scratch.data() + kUnpackScratch);
  Int8Tile tile = {};
  tile.x_stride = job.x.row_bytes;
  for (std::int64_t r = job.row_begin; r < job.row_end; r += block_rows) {
    const std::int64_t r_end = std::min(r + block_rows, job.row_end);
    for (std::int64_t g = job.panel_begin; g < job.panel_end; g += kGroupPanels) {
      const std::int64_t g_end = std::min<std::int64_t>(g + kGroupPanels, job.panel_end);
      for (std::int64_t c = 0; c < blocks; c += chunk) {
        tile.blocks = std::min(chunk, blocks - c);
        tile.first = c == 0;
        for (std::int64_t p = g; p < g_end; p += kTilePanels) {
          tile.sums = sums + (p - g) * kPanelRows;
          tiled_chunk<kType>(job, tile, p, static_cast<int>(std::min<std::int64_t>(kTilePanels, g_end - p)),
                             {r, r_end, c, c + tile.blocks == blocks});
        }
      }
    }
  }
}

}  // namespace

std::size_t int8_scratch_bytes() {
  return kUnpackScratch + kSumsScratch;
}

void matmul_int8(const MatmulJob& job) {
  if (job.row_end - job.row_begin <= kFusedRows) {
    return packed_layout(job.weights.dtype).super_blocks == 1 ? matmul_int8_few(job) : matmul_int8_few_k(job);
  }
  dispatch_quantized(job.weights.dtype, [&](auto type) { tiled<type>(job); });
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();
