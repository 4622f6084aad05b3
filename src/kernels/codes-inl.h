// Reading the codes and scales of packed quantised panels into vectors. Per target: no classic include guard.
#include <array>

#include "kernels/panel-inl.h"

#if defined(LITHE_KERNELS_CODES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LITHE_KERNELS_CODES_INL_H
#undef LITHE_KERNELS_CODES_INL_H
#else
#define LITHE_KERNELS_CODES_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {

/// (byte << kShift) & kMask in every byte; a negative kShift goes right. kMask must hide the neighbours' bits.
template <int kShift, int kMask>
HWY_INLINE VU8 shift_and_mask(VU8 v) {
  const VU8 mask = hn::Set(du8, static_cast<std::uint8_t>(kMask));
  if constexpr (kShift > 0) {
    return hn::And(hn::BitCast(du8, hn::ShiftLeft<kShift>(hn::BitCast(du16, v))), mask);
  } else if constexpr (kShift < 0) {
    return hn::And(hn::BitCast(du8, hn::ShiftRight<-kShift>(hn::BitCast(du16, v))), mask);
  } else {
    return hn::And(v, mask);
  }
}

/// low | the bits of `plane` that start at bit kFrom, moved to bit kTo and masked.
template <int kFrom, int kTo, int kMask>
HWY_INLINE VU8 with_high_bits(VU8 low, VU8 plane) {
  constexpr int kShift = kTo - kFrom;
  if constexpr (kShift > 0) {
    plane = hn::BitCast(du8, hn::ShiftLeft<kShift>(hn::BitCast(du16, plane)));
  } else if constexpr (kShift < 0) {
    plane = hn::BitCast(du8, hn::ShiftRight<-kShift>(hn::BitCast(du16, plane)));
  }
  return hn::OrAnd(low, plane, hn::Set(du8, static_cast<std::uint8_t>(kMask)));
}

/// f(q, stored bits << kShift) for the eight quads of a block of whole stored codes, lanes of vector v; not in
/// ascending order of q.
template <DType kType, int kShift, typename F>
HWY_INLINE void for_each_stored(const std::byte* body, int v, F&& f) {
  constexpr int kBits = packed_layout(kType).stored_bits;
  const std::uint8_t* p = as_u8(body) + v * kVecBytes;
  if constexpr (kBits == 8) {
    unroll<8>([&](auto q) LITHE_SIMD { f(q, hn::Load(du8, p + q * 64)); });
  } else if constexpr (kBits == 2) {
    unroll<8>([&](auto q) LITHE_SIMD {
      f(q, shift_and_mask<kShift - q % 4 * 2, 3 << kShift>(hn::Load(du8, p + q / 4 * 64)));
    });
  } else if constexpr (kBits == 3) {
    VU8 line[3];
    unroll<3>([&](auto i) LITHE_SIMD {
      line[i] = hn::Load(du8, p + i * 64);
      f(std::integral_constant<int, 2 * i>(), shift_and_mask<kShift, 7 << kShift>(line[i]));
      f(std::integral_constant<int, 2 * i + 1>(), shift_and_mask<kShift - 3, 7 << kShift>(line[i]));
    });
    unroll<2>([&](auto i) LITHE_SIMD {
      const VU8 low = shift_and_mask<kShift - 6, 3 << kShift>(line[i]);
      f(std::integral_constant<int, 6 + i>(), with_high_bits<6 + i, 2 + kShift, 4 << kShift>(low, line[2]));
    });
  } else {
    unroll<4>([&](auto i) LITHE_SIMD {
      constexpr int lo = i, hi = i + 4;
      const VU8 packed = hn::Load(du8, p + i * 64);
      VU8 low = shift_and_mask<kShift, 15 << kShift>(packed);
      VU8 high = shift_and_mask<kShift - 4, 15 << kShift>(packed);
      if constexpr (kBits == 5) {
        const VU8 plane = hn::Load(du8, p + 256);
        low = with_high_bits<lo, 4 + kShift, 16 << kShift>(low, plane);
        high = with_high_bits<hi, 4 + kShift, 16 << kShift>(high, plane);
      }
      if constexpr (kBits == 6) {
        low = with_high_bits<2 * i, 4 + kShift, 48 << kShift>(low, hn::Load(du8, p + 256));
        high = with_high_bits<2 * i, 4 + kShift, 48 << kShift>(high, hn::Load(du8, p + 320));
      }
      f(std::integral_constant<int, lo>(), low);
      f(std::integral_constant<int, hi>(), high);
    });
  }
}

/// Sixteen bytes in every 16 of a vector: what each of four stored bits stands for, (code << kShift >> kFrom) & kMask.
template <DType kType, int kShift, int kFrom, int kMask>
HWY_INLINE VU8 code_table() {
  alignas(16) static constexpr auto kTable = [] {
    std::array<std::uint8_t, 16> table{};
    for (unsigned bits = 0; bits < 16; ++bits) {
      table[bits] =
          static_cast<std::uint8_t>(codebook_code(packed_layout(kType), bits) << kShift >> kFrom & kMask);
    }
    return table;
  }();
  return hn::LoadDup128(du8, kTable.data());
}

/// f(q, indices) for the eight quads of a block whose four bits choose from a table.
template <typename F>
HWY_INLINE void for_each_index(const std::byte* body, int v, F&& f) {
  unroll<4>([&](auto i) LITHE_SIMD {
    const VU8 packed = hn::Load(du8, as_u8(body) + v * kVecBytes + i * 64);
#if HWY_TARGET == HWY_AVX3  // look_up() there ignores the bits above
    f(i, packed);
    f(std::integral_constant<int, i + 4>(), hn::BitCast(du8, hn::ShiftRight<4>(hn::BitCast(du16, packed))));
#else
    f(i, shift_and_mask<0, 15>(packed));
    f(std::integral_constant<int, i + 4>(), shift_and_mask<-4, 15>(packed));
#endif
  });
}
HWY_INLINE VU8 look_up(VU8 table, VU8 indices) {
#if HWY_TARGET == HWY_AVX3
  return VU8{_mm512_permutexvar_epi8(indices.raw, table.raw)};
#else
  return hn::TableLookupBytes(table, indices);
#endif
}

/// f(q, codes << kShift) for the eight quads of a block.
template <DType kType, int kShift, typename F>
HWY_INLINE void for_each_quad(const std::byte* body, int v, F&& f) {
  if constexpr (packed_layout(kType).codebook != Codebook::none) {
    const VU8 table = code_table<kType, kShift, 0, 255>();
    for_each_index(body, v, [&](auto q, VU8 indices) LITHE_SIMD { f(q, look_up(table, indices)); });
  } else {
    for_each_stored<kType, kShift>(body, v, f);
  }
}

/// kLanes bytes as floats.
HWY_INLINE VF load_u8_as_float(const std::byte* p) {
  const hn::Rebind<std::uint8_t, DF> d;
  return hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(d, as_u8(p))));
}
HWY_INLINE VF load_s8_as_float(const std::byte* p) {
  const hn::Rebind<std::int8_t, DF> d;
  return hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(d, reinterpret_cast<const std::int8_t*>(p))));
}

/// 2^(e - 128) for kLanes exponents.
HWY_INLINE VF load_e8m0(const std::byte* p) {
  const hn::Rebind<std::uint8_t, DF> d;
  const VI e = hn::PromoteTo(di, hn::LoadU(d, as_u8(p)));
  const VI normal = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(di, 1)));
  const VI subnormal = hn::ShiftLeft<21>(hn::Add(e, hn::Set(di, 1)));
  return hn::BitCast(df, hn::IfThenElse(hn::Gt(e, hn::Set(di, 1)), normal, subnormal));
}

/// The two integer scales (and minima) of each row in a block: s16 pairs, one for each half. k_pairs: `second` is what
/// the zero point is multiplied by, the scales again.
struct HalfScales {
  VI16 scale, second;
};
template <DType kType>
HWY_INLINE HalfScales load_half_scales(const std::byte* panel, std::int64_t block, int v) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  const auto j = static_cast<std::size_t>(block % kLayout.super_blocks);
  const std::byte* p =
      panel + kLayout.super_at(block) + (j * kPanelRows + static_cast<std::size_t>(v * kLanes)) * 2;
  if constexpr (kLayout.kind == ScaleKind::k_pairs_min) {
    const hn::Rebind<std::uint8_t, DI16> d;
    const VI16 both = hn::PromoteTo(di16, hn::LoadU(d, as_u8(p)));
    return {hn::And(both, hn::Set(di16, std::int16_t{15})), hn::ShiftRight<4>(both)};
  } else {
    const hn::Rebind<std::int8_t, DI16> d;
    const VI16 scale = hn::PromoteTo(di16, hn::LoadU(d, reinterpret_cast<const std::int8_t*>(p)));
    return {scale, scale};
  }
}

/// The f16 (super-)scales of a block: d, and that of its minima if it has one.
struct SuperScales {
  VF d, min;
};
template <DType kType>
HWY_INLINE SuperScales load_super_scales(const std::byte* panel, std::int64_t block, int v) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  const std::byte* header = panel + kLayout.header_at(block) + v * kLanes * 2;
  SuperScales s;
  s.d = load_f16(header + kLayout.scale_row(block) * kLayout.scale_row_bytes());
  s.min = kLayout.has_min() && kLayout.kind != ScaleKind::centred ? load_f16(header + 32) : s.d;
  return s;
}

/// The scales of 32 columns: weight = scale * (code - zero) in symmetric formats, scale * code + min in the others.
/// Exact in f32: at most 11 + 8 bits. Formats with a scale per 16 have one for each half of the block.
struct BlockScales {
  VF scale[2];
  VF min[2];
};

template <DType kType>
HWY_INLINE BlockScales load_scales(const std::byte* panel, std::int64_t block, int v) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  BlockScales s;
  if constexpr (kLayout.kind == ScaleKind::e8m0) {
    s.scale[0] = load_e8m0(panel + kLayout.header_at(block) +
                           kLayout.scale_row(block) * kLayout.scale_row_bytes() + v * kLanes);
    return s;
  }
  const SuperScales super = load_super_scales<kType>(panel, block, v);
  const std::byte* sub = panel + kLayout.super_at(block) + v * kLanes;
  const auto j = static_cast<std::size_t>(block % kLayout.super_blocks);
  if constexpr (kLayout.kind == ScaleKind::simple) {
    s.scale[0] = super.d;
  } else if constexpr (kLayout.kind == ScaleKind::with_min) {
    s.scale[0] = super.d;
    s.min[0] = super.min;
  } else if constexpr (kLayout.kind == ScaleKind::centred) {
    s.scale[0] = super.d;
    s.min[0] = hn::Neg(super.d);
  } else if constexpr (kLayout.kind == ScaleKind::k_with_min) {
    s.scale[0] = hn::Mul(super.d, load_u8_as_float(sub + j * kPanelRows));
    s.min[0] = hn::Neg(hn::Mul(super.min, load_u8_as_float(sub + 128 + j * kPanelRows)));
  } else if constexpr (kLayout.kind == ScaleKind::k_signed_32) {
    s.scale[0] = hn::Mul(super.d, load_s8_as_float(sub + j * kPanelRows));
  } else if constexpr (kLayout.kind == ScaleKind::k_signed) {
    s.scale[0] = hn::Mul(super.d, load_s8_as_float(sub + 2 * j * kPanelRows));
    s.scale[1] = hn::Mul(super.d, load_s8_as_float(sub + (2 * j + 1) * kPanelRows));
  } else if constexpr (kLayout.pairs()) {
    const HalfScales half = load_half_scales<kType>(panel, block, v);
    const VI scales = hn::BitCast(di, half.scale), minima = hn::BitCast(di, half.second);
    s.scale[0] = hn::Mul(super.d, hn::ConvertTo(df, hn::ShiftRight<16>(hn::ShiftLeft<16>(scales))));
    s.scale[1] = hn::Mul(super.d, hn::ConvertTo(df, hn::ShiftRight<16>(scales)));
    s.min[0] = hn::Neg(hn::Mul(super.min, hn::ConvertTo(df, hn::ShiftRight<16>(hn::ShiftLeft<16>(minima)))));
    s.min[1] = hn::Neg(hn::Mul(super.min, hn::ConvertTo(df, hn::ShiftRight<16>(minima))));
  }
  return s;
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();

#endif  // LITHE_KERNELS_CODES_INL_H
