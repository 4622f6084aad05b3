// Rotary position embedding: which angles, and their cosines and sines by position.
// Sources: RoFormer (2104.09864); linear scaling (2306.15595); dynamic NTK scaling as Transformers has it; YaRN
// (2309.00071); "llama3" scaling as published with Llama 3.1; LongRoPE (2402.13753).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace lithe::layers {

enum class RopeKind : std::uint8_t { none, half, interleaved };  // pairs (i, i + d/2) or (2i, 2i + 1)
enum class RopeScaling : std::uint8_t { none, linear, dynamic, yarn, llama3, longrope };

struct RopeSpec {
  RopeKind kind = RopeKind::half;
  int dim = 0;  // channels rotated, <= head_dim, even
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1.0;                                   // linear, dynamic, yarn, llama3
  std::int64_t original_context = 0;                     // all but linear: the length before it was stretched
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  bool truncate = true;                                  // yarn: the ramp begins and ends at whole channels
  double magnitude = 1.0;                                // on cosines and sines: yarn, longrope
  std::vector<float> freq_divisors{};                    // [dim / 2] of a file, or empty

  bool operator==(const RopeSpec&) const = default;
};

/// Radians a position for each pair, [dim / 2], scaling included. `context`: the length that positions may reach; only
/// dynamic scaling asks.
std::vector<float> rope_frequencies(const RopeSpec& spec, std::int64_t context = 0);

/// Grows as positions are asked for, so a long trained context costs nothing until it is used.
class RopeTable {
 public:
  RopeTable() = default;
  explicit RopeTable(const RopeSpec& spec, std::int64_t context = 0);

  bool enabled() const { return kind_ != RopeKind::none; }
  bool interleaved() const { return kind_ == RopeKind::interleaved; }
  int dim() const { return static_cast<int>(2 * frequencies_.size()); }

  /// Positions [0, count) become valid. Not while another thread reads.
  void extend(std::int64_t count);
  const float* cos(std::int64_t position) const { return cos_.data() + position * half(); }  // [dim / 2]
  const float* sin(std::int64_t position) const { return sin_.data() + position * half(); }

 private:
  std::int64_t half() const { return static_cast<std::int64_t>(frequencies_.size()); }
  RopeKind kind_ = RopeKind::none;
  std::vector<float> frequencies_;
  double magnitude_ = 1.0;
  std::vector<float> cos_, sin_;  // [positions, dim / 2]
  std::int64_t positions_ = 0;
};

}  // namespace lithe::layers
