// What the engine asks of a model in one step: prefill, decode, chunked prefill, verification, scoring and
// embedding are all just batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/kv_pool.h"

namespace lithe::models {

enum class MaskKind : std::uint8_t { causal, bidirectional, tree };

/// A run of new tokens of one sequence.
struct BatchSequence {
  kvcache::SequenceCache* cache =
      nullptr;                        // room for `count` tokens already reserved; forward() commits them
  std::int64_t begin = 0, count = 0;  // its rows in Batch::tokens
};

/// The largest step of a run, in each measure: what scratch must be there for.
struct StepShape {
  std::int64_t rows = 0;        // tokens
  std::int64_t keys = 0;        // of the longest sequence, the new ones included
  std::int64_t logit_rows = 0;  // whose logits are wanted
};

struct Batch {
  std::vector<std::int32_t> tokens;  // [rows], sequences one after another
  std::vector<BatchSequence> sequences;
  std::vector<std::int64_t> logit_rows;  // rows whose logits are wanted, ascending
  std::vector<std::uint8_t>
      types{};  // [rows]: each token's segment, for models that tell them apart; or empty
  MaskKind mask = MaskKind::causal;  // positions follow from each cache's length
};

}  // namespace lithe::models
