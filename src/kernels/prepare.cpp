// Turning activations into the form that matrix products want. The same bytes as the scalar loops give, on every ISA:
// each step is one IEEE operation or an integer one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/prepare.cpp"
#include "kernels/simd_targets.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/activation_layout.h"
#include "tensor/half.h"

#include "kernels/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lithe::kernels {
namespace HWY_NAMESPACE {
namespace {

constexpr int kBatch = 16;                       // blocks whose scales are computed together
constexpr int kBlockVecs = kBlockCols / kLanes;  // vectors of a block

struct BatchScales {
  HWY_ALIGN std::int32_t largest[kBatch];  // bits of the block's largest magnitude
  HWY_ALIGN float scale[kBatch];
  HWY_ALIGN float inverse[kBatch];
};

/// Magnitudes compare as their bits do, and NaN is above infinity.
HWY_INLINE std::int32_t largest_bits(const float* x) {
  const VI mask = hn::Set(di, 0x7fffffff);
  VI largest = hn::Zero(di);
  unroll<kBlockVecs>([&](auto i) LITHE_SIMD {
    largest = hn::Max(largest, hn::And(hn::BitCast(di, hn::LoadU(df, x + i * kLanes)), mask));
  });
  return hn::GetLane(hn::MaxOfLanes(di, largest));
}

HWY_INLINE void compute_scales(BatchScales* batch) {
  const VI smallest = hn::BitCast(di, hn::Set(df, kInt8Smallest));
  const VI overflow = hn::BitCast(di, hn::Set(df, kInt8Largest));
  for (int i = 0; i < kBatch; i += kLanes) {
    const VI largest = hn::Load(di, batch->largest + i);
    // To 22 bits of mantissa: activation_layout.h.
    const VI exact = hn::BitCast(di, hn::Div(hn::BitCast(df, largest), hn::Set(df, 127.0f)));
    const VI rounded = hn::And(hn::Add(exact, hn::Set(di, 2)), hn::Set(di, ~3));
    const auto zero = hn::RebindMask(df, hn::Lt(largest, smallest));
    const auto bad = hn::RebindMask(df, hn::Gt(largest, overflow));
    const VF scale = hn::BitCast(df, rounded);
    const VF inverse = hn::Div(hn::Set(df, 1.0f), scale);
    const VF none = hn::Zero(df);
    hn::Store(hn::IfThenElse(bad, hn::Set(df, NAN), hn::IfThenElse(zero, none, scale)), df, batch->scale + i);
    hn::Store(hn::IfThenElse(bad, none, hn::IfThenElse(zero, none, inverse)), df, batch->inverse + i);
  }
}

HWY_INLINE void write_block(const float* x, float scale, float inverse, std::byte* out, std::byte* half_init,
                            std::byte* pair_sums) {
  const hn::Rebind<std::int8_t, DI> bytes;
  std::int32_t sums[2] = {0, 0};
  if (HWY_LIKELY(scale == scale)) {
    VI sum[2] = {hn::Zero(di), hn::Zero(di)};
    unroll<kBlockVecs>([&](auto i) LITHE_SIMD {
      const VI code = hn::NearestInt(hn::Mul(hn::LoadU(df, x + i * kLanes), hn::Set(df, inverse)));
      hn::StoreU(hn::DemoteTo(bytes, code), bytes, reinterpret_cast<std::int8_t*>(out) + i * kLanes);
      sum[i * kLanes / 16] = hn::Add(sum[i * kLanes / 16], code);
    });
    for (int h = 0; h < 2; ++h) sums[h] = hn::GetLane(hn::SumOfLanes(di, sum[h]));
  } else {
    std::memset(out, 0, kBlockCols);
  }
  const std::int32_t sum = sums[0] + sums[1];
  const Int8Params params = {kMagicBits - 128 * sum, scale, -kMagic * scale, scale * static_cast<float>(sum)};
  std::memcpy(out + kBlockCols, &params, sizeof params);
  std::int32_t init[2];
  std::int16_t pair[2];
  for (int h = 0; h < 2; ++h) {
    init[h] = kMagicBits - 128 * sums[h];
    pair[h] = static_cast<std::int16_t>(-kPairFactor * sums[h]);
  }
  std::memcpy(half_init, init, sizeof init);
  std::memcpy(pair_sums, pair, sizeof pair);
}

void prepare_int8_row(const float* x, std::int64_t cols, std::byte* out) {
  std::byte* half_init = out + half_init_offset(cols);
  std::byte* pair_sums = out + pair_sums_offset(cols);
  const std::int64_t blocks = cols / kBlockCols;
  BatchScales batch = {};
  for (std::int64_t b = 0; b < blocks; b += kBatch) {
    const std::int64_t count = std::min<std::int64_t>(kBatch, blocks - b);
    const float* xb = x + b * kBlockCols;
    for (std::int64_t i = 0; i < count; ++i) batch.largest[i] = largest_bits(xb + i * kBlockCols);
    compute_scales(&batch);
    for (std::int64_t i = 0; i < count; ++i) {
      write_block(xb + i * kBlockCols, batch.scale[i], batch.inverse[i], out, half_init, pair_sums);
      out += kInt8BlockBytes;
      half_init += 2 * sizeof(std::int32_t);
      pair_sums += 2 * sizeof(std::int16_t);
    }
  }
}

/// Round to nearest even; NaN stays a quiet NaN: what f32_to_bf16 does.
void prepare_bf16_row(const float* x, std::int64_t cols, std::byte* out) {
  auto* values = reinterpret_cast<std::uint16_t*>(out);
  std::int64_t c = 0;
  const hn::Rebind<std::uint16_t, DI> halves;
  for (; c + kLanes <= cols; c += kLanes) {
    const auto bits = hn::BitCast(du, hn::LoadU(df, x + c));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
    const auto nan = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7f800000));
    const auto result = hn::IfThenElse(nan, hn::BitCast(di, quiet), hn::BitCast(di, rounded));
    hn::StoreU(hn::DemoteTo(halves, result), halves, values + c);
  }
  for (; c < cols; ++c) values[c] = f32_to_bf16(x[c]);
  if (cols % 2 != 0) values[cols] = 0;
}

}  // namespace

void prepare(Arithmetic arithmetic, const float* x, std::int64_t stride, std::int64_t rows, std::int64_t cols,
             std::byte* out) {
  LITHE_CHECK(arithmetic != Arithmetic::int8 || cols % kBlockCols == 0);
  const std::size_t row_bytes = activation_row_bytes(arithmetic, cols);
  for (std::int64_t r = 0; r < rows; ++r, x += stride, out += row_bytes) {
    switch (arithmetic) {
      case Arithmetic::f32:
        std::memcpy(out, x, static_cast<std::size_t>(cols) * sizeof(float));
        break;
      case Arithmetic::bf16:
        prepare_bf16_row(x, cols, out);
        break;
      case Arithmetic::int8:
        prepare_int8_row(x, cols, out);
        break;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lithe::kernels
HWY_AFTER_NAMESPACE();
