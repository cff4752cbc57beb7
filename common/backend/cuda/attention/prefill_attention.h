// Attention of sequences with several rows on the tensor cores. A thread block has one tile of a
// sequence's rows and one KV head. The tile's rows times the query heads, in this order, are the M
// tiles of its warps. Keys come in tiles from position 0 on; one is copied while another is
// computed with. The loop bounds of each warp leave out the pages that are later than all of its
// rows. Within the last pages, scores of later keys are -infinity.
//
// The bits of a row do not depend on which rows share its tile.
#pragma once

#include "common/backend/cuda/attention/attention_args.h"

namespace baton {

// Rows of a block's M tiles. A tile has as many rows of the pass as fit, for all heads of a group.
constexpr int PrefillQueries(int head_dim) { return head_dim > 128 ? 64 : 128; }

// Runs the tiles of args.work. See LaunchAttention. REQUIRES: DecodeAttentionTakes the cache and
// group.
void LaunchPrefillAttention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace baton
