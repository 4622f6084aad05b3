// What the matrix products of one target share: vectors over the 16 rows of a panel, and the last step of an output.
// Per target: no classic include guard.
#include "kernels/packed_layout.h"
#include "kernels/simd-inl.h"

#if defined(LITHE_KERNELS_PANEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_PANEL_INL_H
#undef LITHE_KERNELS_PANEL_INL_H
#else
#define LITHE_KERNELS_PANEL_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

using DF = hn::CappedTag<float, kPanelRows>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using DU8 = hn::Repartition<std::uint8_t, DF>;
using DI8 = hn::Repartition<std::int8_t, DF>;
using DU16 = hn::Repartition<std::uint16_t, DF>;
using DI16 = hn::Repartition<std::int16_t, DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VU8 = hn::Vec<DU8>;
using VI16 = hn::Vec<DI16>;

inline constexpr DF df;
inline constexpr DI di;
inline constexpr DU du;
inline constexpr DU8 du8;
inline constexpr DI8 di8;
inline constexpr DU16 du16;
inline constexpr DI16 di16;

/// A panel's 16 rows are kVecs vectors of kLanes.
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));
inline constexpr int kVecs = kPanelRows / kLanes;
inline constexpr int kVecBytes = kLanes * 4;

#if HWY_TARGET == HWY_SSE4
inline constexpr bool kHasFma = false;
#else
inline constexpr bool kHasFma = true;
#endif

HWY_INLINE const std::uint8_t* as_u8(const std::byte* p) {
  return reinterpret_cast<const std::uint8_t*>(p);
}
HWY_INLINE float load_float(const std::byte* p) {
  float value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
HWY_INLINE std::int32_t load_int(const std::byte* p) {
  std::int32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

/// How far ahead of the kernels for one or a few rows weights are asked for. The hardware's own prefetcher stops at the
/// end of every page of 4 KiB, and meanwhile a core that also computes has nothing under way.
inline constexpr std::size_t kAhead = 4096;
/// Asks for the lines of the `kBytes` at p, which may lie beyond the end of anything.
template <std::size_t kBytes>
HWY_INLINE void ask_for(const std::byte* p) {
  unroll<static_cast<int>((kBytes + 63) / 64)>([&](auto i) LITHE_SIMD { __builtin_prefetch(p + i * 64); });
}

/// kLanes halves at p as floats.
HWY_INLINE VF load_f16(const std::byte* p) {
  const hn::Rebind<hwy::float16_t, DF> dh;
  return hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
}

/// Keeps the compiler from folding an address into sums of strides that it then spills.
template <typename T>
HWY_INLINE T* opaque(T* pointer) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
  asm("" : "+r"(pointer));
#endif
  return pointer;
}

/// What an output vector does to memory: where it goes and what is added. One per vector of a panel.
struct OutputVector {
  float* out = nullptr;         // row 0 of x
  const float* bias = nullptr;  // or null
  int lanes = 0;                // those that are columns of the matrix
};
HWY_INLINE OutputVector output_vector(const MatmulJob& job, std::int64_t panel, int v) {
  const std::int64_t column = panel * kPanelRows + v * kLanes;
  OutputVector o;
  o.out = job.out + column;
  o.bias = job.bias == nullptr ? nullptr : job.bias + column;
  o.lanes = static_cast<int>(HWY_MAX(0, HWY_MIN(std::int64_t{kLanes}, job.weights.rows - column)));
  return o;
}

static HWY_NOINLINE void finish_partial(const OutputVector& o, std::int64_t offset, bool accumulate, VF sum) {
  HWY_ALIGN float lanes[kLanes];
  hn::Store(sum, df, lanes);
  for (int i = 0; i < o.lanes; ++i) {
    float value = lanes[i];
    if (o.bias != nullptr) value += o.bias[i];
    o.out[offset + i] = accumulate ? o.out[offset + i] + value : value;
  }
}

/// out (+)= sum (+ bias), `offset` floats into the vector's column.
HWY_INLINE void finish_output(const OutputVector& o, std::int64_t offset, bool accumulate, VF sum) {
  if (HWY_UNLIKELY(o.lanes != kLanes)) return finish_partial(o, offset, accumulate, sum);
  if (o.bias != nullptr) sum = hn::Add(sum, hn::LoadU(df, o.bias));
  if (accumulate) sum = hn::Add(hn::LoadU(df, o.out + offset), sum);
  hn::StoreU(sum, df, o.out + offset);
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_PANEL_INL_H
