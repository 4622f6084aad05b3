// Speed of a loaded model: prefill of a prompt, decode of single tokens, at a depth, alone or many rows together.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/ceilings.h"
#include "engine/loaded_model.h"
#include "kvcache/kv_pool.h"

namespace lithe::engine {

/// One line of the table. prompt > 0: time to compute that many tokens; generate > 0: that many single tokens.
struct SpeedTest {
  std::int64_t prompt = 0, generate = 0;
  std::int64_t depth = 0;   // tokens already in each cache
  std::int64_t rows = 1;    // sequences that advance together
  std::int64_t step = 512;  // most tokens of one forward pass
  bool kv_cache = true;     // false: each token recomputes everything before it
  int repetitions = 5;
};

struct Speed {
  std::vector<double> seconds;  // a repetition each
  double tokens = 0;            // computed (prompt) or chosen (generate) in a repetition, all rows together
  double bytes = 0;             // read from memory by a repetition: weights once a pass, keys and values once
  double operations = 0;        // multiplies and adds of the linear layers and the head
  std::uint64_t peak_attention = 0;

  double median_seconds() const;
  std::vector<double> rates() const;  // tokens a second
  double median_rate() const { return tokens / median_seconds(); }
  double bandwidth_gbs() const { return bytes / median_seconds() / 1e9; }
  double gops() const { return operations / median_seconds() / 1e9; }
};

/// Fresh random tokens in each repetition, so that no cache of anybody's can answer; one repetition more, not counted,
/// warms up. keep_going is asked before each repetition; false: cancelled.
Result<Speed> measure(LoadedModel& model, const SpeedTest& test, FunctionRef<bool()> keep_going);

/// The ceiling that bounds this model's matrix products, and its name.
struct ArithmeticCeiling {
  double gops = 0;  // 0: unknown
  const char* name = "";
};
ArithmeticCeiling arithmetic_ceiling(const LoadedModel& model, const Ceilings& ceilings);

}  // namespace lithe::engine
