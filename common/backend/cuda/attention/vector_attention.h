// Attention without tensor cores, in float32 throughout: for f32 caches and every head dimension. A
// thread block has one task and one query head. Each of its warps takes every fourth page of the
// task's keys, straight from the cache. The query heads of a group read the same keys in
// consecutive blocks, so that all but the first find them in the L2 cache.
//
// Within a page, two lanes share the product with a key: each has half of the 16-byte chunks
// (lane / 16, then every second). Of the values a lane has the elements lane, lane + 32, ...
//
// With AttentionCut::kAlike a task with all keys goes through the splits that other rows have as
// tasks, so that both give the same bits.
#pragma once

#include "common/backend/cuda/attention/attention_args.h"

namespace baton {

// Runs the tasks of args.work. See LaunchAttention.
void LaunchVectorAttention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace baton
