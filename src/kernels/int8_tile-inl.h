// What the files of the int8 product share: how codes are split for the dot product, an unpacked block, a register tile.
// Per target: no classic include guard.
#include "kernels/dot-inl.h"
#include "kernels/matmul.h"

#if defined(LITHE_KERNELS_INT8_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_INT8_TILE_INL_H
#undef LITHE_KERNELS_INT8_TILE_INL_H
#else
#define LITHE_KERNELS_INT8_TILE_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

/// Rows that the fused kernel takes at once, and up to which it is the faster one.
inline constexpr int kFusedRows = kVecs == 1 ? 4 : kVecs == 2 ? 2 : 1;

/// Rows of activations and vectors of weights of a register tile: as many as keep the integer sums in registers.
struct TileShape {
  int rows, vecs;
};
template <CodeKind kKind>
inline constexpr TileShape kTile =
    kVecs == 1            ? TileShape{8, 2}  // 16 of 32; the float sums get the rest
    : kDotSums<kKind> > 1 ? TileShape{6, 1}  // of 16; the float sums wait in L1
                          : TileShape{4, 2};
inline constexpr int kMaxTileVecs = 2;
inline constexpr int kTilePanels = kVecs == 1 ? 2 : 1;

template <DType kType>
HWY_INLINE void split_planes(VU8 codes, VU8 (&planes)[kPlanes<kCodeKind<kType>>]) {
  if constexpr (kPlanes<kCodeKind<kType>> == 2) {
    planes[0] = shift_and_mask<0, 15>(codes);
    planes[1] = shift_and_mask<-4, 15>(codes);
  } else {
    planes[0] = codes;
  }
}

/// A block of an unpacked panel: codes u8[planes][8 quads][16][4], scales f32[halves][16], minima f32[16] if any.
template <CodeKind kKind>
struct Unpacked {
  static constexpr int kScales = kPlanes<kKind> * 512;
  static constexpr int kMins = kScales + kKind.halves * 64;
  static constexpr int kBytes = kMins + (kKind.min ? 64 : 0);
};

/// The kinds that differ for a tile on this target: with vpdpbusd all codes are bytes of one form.
constexpr CodeKind tile_kind(CodeKind kind) {
  if (kPlanes<CodeKind{8, 0, false, 1}> == 1) return {8, 0, kind.min, kind.halves};
  return kind;
}

/// One tile: two vectors of unpacked weights times a few rows of activations, added to partial sums in memory.
struct Int8Tile {
  const std::byte* weights[kMaxTileVecs];  // already at the vector's lanes
  const std::byte* x = nullptr;            // first row, first block of the chunk
  const std::byte* half_init = nullptr;    // likewise; formats with a scale per 16
  std::size_t x_stride = 0;                // bytes from row to row of both
  std::int64_t blocks = 0;
  float* sums = nullptr;  // [rows][kSumsStride], the tile's vectors side by side
  bool first = false;     // the sums begin here
};

using Int8TileKernel = void (*)(const Int8Tile&);
/// The kernels of 1, 2, ... kTile.rows rows: int8_tile.cpp.
const Int8TileKernel* int8_tile_kernels(DType dtype);

/// At most kFusedRows rows, codes unpacked on their way through the registers: matmul_int8_few.cpp.
void matmul_int8_few(const MatmulJob& job);

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_INT8_TILE_INL_H
