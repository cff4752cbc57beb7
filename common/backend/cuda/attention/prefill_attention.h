// Attention of sequences with several rows on the tensor cores. A thread block has one tile of a
// sequence's rows and one KV head. The tile's rows times the query heads, in this order, are the M
// tiles of its warps. Keys come in tiles, cut at absolute multiples of a tile's keys; one is copied
// while another is computed with. The loop bounds of each warp leave out the tiles that none of its
// rows sees. Within the others, scores of keys that a row does not see are -infinity.
//
// The bits of a row do not depend on which rows share its tile: a tile of keys of which a row sees
// none leaves its state clear.
#pragma once

#include "common/backend/cuda/attention/attention_args.h"

namespace baton {

// Rows of a block's M tiles. A tile has as many rows of the pass as fit, for all heads of a group.
constexpr int PrefillQueries(int head_dim) { return head_dim > 128 ? 64 : 128; }

// Runs the tiles of args.work. See LaunchAttention. REQUIRES: DecodeAttentionTakes the cache and
// group.
void LaunchPrefillAttention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace baton
