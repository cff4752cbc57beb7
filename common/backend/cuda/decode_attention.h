// Attention of single rows on the tensor cores. A block has one task (kAttentionSplit keys of a
// row) and one KV head, whose query heads are the rows of one M tile: they share the reading of
// keys and values. Each of its warps takes every fourth page, through two buffers of its own, so
// that the warps never wait for one another before their states are merged: in the order of the
// warps, then in that of the splits, by the last block of the row to end (attention_partials.h).
//
// What is on its way to a multiprocessor at a time: a page of K and V for each warp, with head_dim
// 128 8 KiB for each of the 12 warps that fit by their shared memory (72 KiB a block).
#pragma once

#include "common/backend/cuda/attention_args.h"

namespace baton {

// Whether it has such a cache and group, and the device the memory that they take.
bool DecodeAttentionTakes(const KvLayerView& cache, int group);

// The tasks of args.work. See LaunchAttention.
void LaunchDecodeAttention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace baton
