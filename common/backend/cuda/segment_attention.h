// Attention of --deterministic on the tensor cores: a row has the same bits as the only row of its
// sequence, cut in tasks, and in a run of any length.
//
// Keys are cut at absolute multiples of kAttentionSplit, the segments. Each has a state of its own
// (attention_softmax.h), tile of keys by tile of keys in one warp; the states are merged in
// ascending order. In a run a warp has all segments of its 16 queries one after the other, and
// leaves the merge out for rows that see nothing of a segment; a task has one segment of one row,
// and the last task of the row to end merges them (attention_partials.h says where they lie). Both
// call the same functions. With head dimensions above 128 two warps have a half of the values'
// columns each, so that both states fit into registers; they compute the same scores.
#pragma once

#include "common/backend/cuda/attention_args.h"

namespace baton {

// The tiles and tasks of args.work. See LaunchAttention. REQUIRES: DecodeAttentionTakes the cache
// and group; a plan of AttentionCut::kAlike.
void LaunchSegmentTiles(const AttentionArgs& args, cudaStream_t stream);
void LaunchSegmentTasks(const AttentionArgs& args, cudaStream_t stream);

}  // namespace baton
