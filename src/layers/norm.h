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

  /// One row, x and out: [n]; out may be x.
  void apply(const kernels::KernelTable& table, const float* x, float* out) const {
    const auto n = static_cast<std::int64_t>(weight.size());
    if (kind == NormKind::rms) {
      table.rms_norm(x, weight.data(), eps, n, out);
    } else {
      table.layer_norm(x, weight.data(), bias.empty() ? nullptr : bias.data(), eps, n, out);
    }
  }
};

}  // namespace lithe::layers
