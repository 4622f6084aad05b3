// RMS norm and layer norm with their weights.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernel_table.h"

namespace lithe::layers {

enum class NormKind : std::uint8_t { rms, layer };

struct Norm {
  NormKind kind = NormKind::rms;
  float eps = 1e-5f;
  std::vector<float> weight{};  // [n]
  std::vector<float> bias{};    // [n], or empty

  explicit operator bool() const { return !weight.empty(); }

  /// One row, x and out: [weight.size()]; out may be x.
  void apply(const kernels::KernelTable& table, const float* x, float* out) const {
    apply_part(table, 0, static_cast<std::int64_t>(weight.size()), x, out);
  }
  /// Weights [begin, begin + n) alone, on x: [n].
  void apply_part(const kernels::KernelTable& table, std::int64_t begin, std::int64_t n, const float* x,
                  float* out) const {
    if (kind == NormKind::rms) {
      table.rms_norm(x, weight.data() + begin, eps, n, out);
    } else {
      table.layer_norm(x, weight.data() + begin, bias.empty() ? nullptr : bias.data() + begin, eps, n, out);
    }
  }
};

}  // namespace lithe::layers
