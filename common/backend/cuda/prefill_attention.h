// Attention of runs of rows on the tensor cores. A block has one tile of a sequence's rows and one
// KV head: the tile's rows times the query heads are its warps' M tiles, in this order. Keys come
// in tiles from position 0 on, of which one is copied while another is computed with. Each warp
// leaves out the pages that are later than all of its rows, by its loop's bounds; within the last
// ones, scores of later keys are -infinity.
//
// A row's bits do not depend on which rows share its tile.
#pragma once

#include "common/backend/cuda/attention_args.h"

namespace baton {

// Rows of the block's M tiles: a tile has as many rows of the pass as fit for all heads of a group.
constexpr int PrefillQueries(int head_dim) { return head_dim > 128 ? 64 : 128; }

// The tiles of args.work. See LaunchAttention. REQUIRES: DecodeAttentionTakes the cache and group.
void LaunchPrefillAttention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace baton
