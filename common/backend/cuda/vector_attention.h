// Attention without tensor cores, in float32 throughout: for f32 caches and every head dimension. A
// block has one task and one query head; each of its warps takes every fourth page of the task's
// keys, straight from the cache. Query heads of a group read the same keys one block after the
// other, so the second finds them in the L2 cache.
//
// Within a page a lane has a key's product with one half of the 16-byte chunks (lane / 16, then
// every second), and of the values the elements lane, lane + 32, ...
//
// With AttentionCut::kAlike a task with all keys goes through the splits that other rows have as
// tasks, so that both come to the same.
#pragma once

#include "common/backend/cuda/attention_args.h"

namespace baton {

// The tasks of args.work. See LaunchAttention.
void LaunchVectorAttention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace baton
