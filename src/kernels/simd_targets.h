// Chooses what Google Highway compiles a kernel file for. Included before any header of hwy/.
//
// On x86: SSE4 (our "portable": Highway 1.0.3 has no SSE2 target), AVX2 (with FMA and F16C) and AVX-512. On AArch64
// NEON alone. The baseline is set by hand so that no file needs a -m flag: every function carries its target.
//
// AVX-512 is Highway's AVX3 plus the extensions that simd-inl.h adds (VNNI, VBMI): Highway's own AVX3_DL also asks
// the compiler for AVX-VNNI, which Ice Lake and Zen 4 lack.
#pragma once

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#define HWY_DISABLED_TARGETS (HWY_SCALAR | HWY_EMU128 | HWY_SSSE3 | HWY_AVX3_DL)
#elif defined(__aarch64__)
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
