// What every vector file includes instead of hwy/highway.h. Per target, so without a classic include guard.
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/rows.cpp"
//   #include "kernels/simd_targets.h"
//   #include <hwy/foreach_target.h>
//   #include "kernels/simd-inl.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace lithe::kernels { namespace HWY_NAMESPACE { void fill_rows(KernelTable& table) { ... } } }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace lithe::kernels { LITHE_DEFINE_FILL(fill_rows) }
//   #endif
#include <hwy/highway.h>

#include <cstddef>
#include <utility>

// Highway compiles its own functions for plain AVX-512 (F, BW, DQ, VL, CD); ours may use a little more, and may inline
// Highway's because their set is a part of ours. kernel_table.cpp asks the CPU for all of it. A file that needs another
// extension (avx512bf16) defines LITHE_MORE_AVX512 before including this header.
#if HWY_TARGET == HWY_AVX3
#ifndef LITHE_MORE_AVX512
#define LITHE_MORE_AVX512 ""
#endif
#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX3 ",avx512cd,avx512vnni,avx512vbmi" LITHE_MORE_AVX512
#endif

#if defined(LITHE_KERNELS_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_SIMD_INL_H
#undef LITHE_KERNELS_SIMD_INL_H
#else
#define LITHE_KERNELS_SIMD_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// f(integral_constant 0), ..., f(integral_constant N-1), unrolled by the language: arrays of vectors indexed by the
/// argument stay in registers under every compiler. Lambdas: [&](auto i) LITHE_SIMD { ... }.
#define LITHE_SIMD HWY_ATTR __attribute__((always_inline))

template <typename F, std::size_t... I>
HWY_INLINE void unroll_indices(F&& f, std::index_sequence<I...>) {
  (f(std::integral_constant<int, static_cast<int>(I)>()), ...);
}
// clang-tidy (it defines __clang_analyzer__) reads the first step alone: of all of them a kernel takes it minutes.
template <int N, typename F>
HWY_INLINE void unroll(F&& f) {
#ifdef __clang_analyzer__
  constexpr std::size_t kSteps = 1;
#else
  constexpr std::size_t kSteps = N;
#endif
  unroll_indices(static_cast<F&&>(f), std::make_index_sequence<kSteps>());
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_SIMD_INL_H

#ifndef LITHE_DEFINE_FILL
#if defined(__x86_64__)
#define LITHE_FILL_X86(name)    \
  case Isa::avx2:               \
    return N_AVX2::name(table); \
  case Isa::avx512:             \
    return N_AVX3::name(table);
#else
#define LITHE_FILL_X86(name) \
  case Isa::avx2:            \
  case Isa::avx512:          \
    return;
#endif

/// Defines name(isa, table) over the per-target functions name(table) and name_reference(table).
#define LITHE_DEFINE_FILL(name)                  \
  void name(Isa isa, KernelTable& table) {       \
    switch (isa) {                               \
      case Isa::reference:                       \
        return name##_reference(table);          \
      case Isa::portable:                        \
        return HWY_STATIC_DISPATCH(name)(table); \
        LITHE_FILL_X86(name)                     \
    }                                            \
  }
#endif
