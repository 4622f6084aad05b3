// Attention of a whole batch in one layer, cut over the threads.
//
// One parallel region however many sequences: a step that decodes 32 short sequences pays one barrier,
// not 32. Tasks are (sequence, kv head, row tile); one that is too heavy for a balanced cut is split at key
// blocks (flash-decoding), and whoever finishes its last block merges. Which cut is taken depends on the
// threads; the bits do not (promise 1).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention.h"
#include "layers/context.h"

namespace lithe::layers {

/// flash is the fast one; naive (all scores in memory) and chunked (Rabe & Staats) are measured alternatives
/// that agree with it within rounding.
enum class AttentionMode : std::uint8_t { flash, naive, chunked };

/// What attention() takes at most for `job.rows` rows, of one sequence or of many, that see up to
/// `job.key_count` keys each.
ScratchNeed attention_scratch(const ExecContext& context, AttentionMode mode,
                              const kernels::AttentionJob& job);

/// Runs every job; keys and values are already stored. Takes its task list from context.arena() and the
/// workers' scratch; notes the bytes of both in the context.
void attention(ExecContext& context, AttentionMode mode, std::span<const kernels::AttentionJob> jobs);

}  // namespace lithe::layers
