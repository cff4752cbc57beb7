// Attention of --deterministic on the tensor cores: a row has the same bits as the only row of its
// sequence, cut into tasks, and among any number of rows.
//
// Keys are cut at absolute multiples of kAttentionSegment into segments. Each segment has a
// state of its own (attention_softmax.h), computed tile of keys by tile of keys in one warp; the
// states are merged in ascending order. If a sequence has many rows, a warp has all segments of
// its 16 queries one after the other, and leaves the merge out for rows that see nothing of a
// segment. A task has one segment of one row, or of a few rows of a run, and the last of the rows'
// tasks to end merges the states (attention_partials.h says where they lie). Both call the same functions. With head
// dimensions above 128 two warps have one half of the values' columns each, so that both states fit
// into registers; both compute the same scores.
#pragma once

#include "common/backend/cuda/attention/attention_args.h"

namespace baton {

// Run the tiles and the tasks of args.work, which may be those of runs. See LaunchAttention. REQUIRES: DecodeAttentionTakes the
// cache and group; the plan's cut is AttentionCut::kAlike.
void LaunchSegmentTiles(const AttentionArgs& args, cudaStream_t stream);
void LaunchSegmentTasks(const AttentionArgs& args, cudaStream_t stream);

}  // namespace baton
