// Attention of single rows on the tensor cores. A thread block has one task (the keys of one segment
// that a row sees) and one KV head. The query heads of that KV head are the rows of one M tile, so
// they share the reading of keys and values. Each warp of the block takes every fourth page,
// through two buffers of its own, so that no warp waits for another until their states are merged.
// States are merged in the order of the warps, then in the order of the splits by the row's last
// block to end (attention_partials.h).
//
// Bytes in flight to a multiprocessor: one page of K and V for each warp. With head_dim 128 that is
// 8 KiB for each of the 12 warps that fit by their shared memory (72 KiB a block).
#pragma once

#include "common/backend/cuda/attention/attention_args.h"

namespace baton {

// True if the kernel takes such a cache and group, and the device has the shared memory for it.
bool DecodeAttentionTakes(const KvLayerView& cache, int group);

// Runs the tasks of args.work. See LaunchAttention.
void LaunchDecodeAttention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace baton
