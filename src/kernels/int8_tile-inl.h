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
    kVecs == 1 && kKind.pairs ? TileShape{6, 2}  // 24 of 32: both halves are at work until the end
    : kVecs == 1              ? TileShape{8, 2}  // 16 of 32; the float sums get the rest
    : kDotSums<kKind> > 1     ? TileShape{6, 1}  // of 16; the float sums wait in L1
                              : TileShape{4, 2};
inline constexpr int kMaxTileVecs = 2;
inline constexpr int kTilePanels = kVecs == 1 ? 2 : 1;

/// f(q, planes) for the eight quads of a block: codes as BlockDot takes them.
template <DType kType, typename F>
HWY_INLINE void for_each_planes(const std::byte* body, int v, F&& f) {
  constexpr CodeKind kKind = kCodeKind<kType>;
  VU8 planes[kPlanes<kKind>];
  if constexpr (kPlanes<kKind> == 1) {
    for_each_quad<kType, kUnpackShift<kKind>>(body, v, [&](auto q, VU8 codes) LITHE_SIMD {
      planes[0] = codes;
      f(q, planes);
    });
  } else if constexpr (packed_layout(kType).codebook != Codebook::none) {
    const VU8 low = code_table<kType, 0, 0, 15>(), high = code_table<kType, 0, 4, 15>();
    for_each_index(body, v, [&](auto q, VU8 indices) LITHE_SIMD {
      planes[0] = look_up(low, indices);
      planes[1] = look_up(high, indices);
      f(q, planes);
    });
  } else {
    for_each_quad<kType, 0>(body, v, [&](auto q, VU8 codes) LITHE_SIMD {
      planes[0] = shift_and_mask<0, 15>(codes);
      planes[1] = shift_and_mask<-4, 15>(codes);
      f(q, planes);
    });
  }
}

/// A block of an unpacked panel: codes u8[planes][8 quads][16][4], then lines of 16 lanes: DotScales field by field.
template <CodeKind kKind>
struct Unpacked {
  static constexpr int kScales = kPlanes<kKind> * 512;
  static constexpr int kHalves = kScales + (kKind.pairs ? 1 : kKind.halves) * 64;
  static constexpr int kMins = kHalves + (kKind.pairs ? 3 * 64 : 0);
  static constexpr int kBytes = kMins + (kKind.min ? 64 : 0);
};
inline constexpr std::size_t kMaxUnpackedBytes = kPlanes<CodeKind{8, 0, false, 1, false}> * 512 + 5 * 64;

template <CodeKind kKind>
HWY_INLINE void store_dot_scales(const DotScales<kKind>& s, std::byte* block) {
  using Out = Unpacked<kKind>;
  const auto line = [&](int at) LITHE_SIMD { return reinterpret_cast<float*>(block + at); };
  unroll<kKind.pairs ? 1 : kKind.halves>(
      [&](auto h) LITHE_SIMD { hn::Store(s.scale[h], df, line(Out::kScales + h * 64)); });
  if constexpr (kKind.pairs) {
    unroll<2>([&](auto h)
                  LITHE_SIMD { hn::Store(hn::BitCast(df, s.half[h]), df, line(Out::kHalves + h * 64)); });
    hn::Store(hn::BitCast(df, s.second), df, line(Out::kHalves + 128));
  }
  if constexpr (kKind.min) hn::Store(s.min, df, line(Out::kMins));
}
template <CodeKind kKind>
HWY_INLINE DotScales<kKind> stored_dot_scales(const std::byte* block) {
  using In = Unpacked<kKind>;
  const auto line = [&](int at)
                        LITHE_SIMD { return hn::Load(df, reinterpret_cast<const float*>(block + at)); };
  DotScales<kKind> s;
  unroll<kKind.pairs ? 1 : kKind.halves>([&](auto h) LITHE_SIMD { s.scale[h] = line(In::kScales + h * 64); });
  if constexpr (kKind.pairs) {
    unroll<2>([&](auto h) LITHE_SIMD { s.half[h] = hn::BitCast(di16, line(In::kHalves + h * 64)); });
    s.second = hn::BitCast(di16, line(In::kHalves + 128));
  }
  if constexpr (kKind.min) s.min = line(In::kMins);
  return s;
}

/// The kinds that differ for a tile on this target: with vpdpbusd all codes are bytes of one form.
constexpr CodeKind tile_kind(CodeKind kind) {
  if (kPlanes<CodeKind{8, 0, false, 1, false}> == 1) return {8, 0, kind.min, kind.halves, kind.pairs};
  return kind;
}

/// One tile: two vectors of unpacked weights times a few rows of activations, added to partial sums in memory.
struct Int8Tile {
  const std::byte* weights[kMaxTileVecs];  // already at the vector's lanes
  const std::byte* x = nullptr;            // first row, first block of the chunk
  const std::byte* tail = nullptr;         // likewise: tail_of(), for formats with a scale per 16
  std::size_t x_stride = 0;                // bytes from row to row of both
  std::int64_t blocks = 0;
  float* sums = nullptr;  // [rows][kSumsStride], the tile's vectors side by side
  bool first = false;     // the sums begin here
};

using Int8TileKernel = void (*)(const Int8Tile&);
/// The kernels of 1, 2, ... kTile.rows rows: of formats with a scale per 32 columns in int8_tile.cpp, of those with a scale
/// per 16 in int8_tile_halves.cpp.
const Int8TileKernel* int8_tile_kernels(DType dtype);
const Int8TileKernel* int8_tile_kernels_halves(DType dtype);

/// At most kFusedRows rows, codes unpacked on their way through the registers: formats with blocks of 32 in
/// matmul_int8_few.cpp, those with super-blocks in matmul_int8_few_k.cpp.
void matmul_int8_few(const MatmulJob& job);
void matmul_int8_few_k(const MatmulJob& job);

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_INT8_TILE_INL_H
