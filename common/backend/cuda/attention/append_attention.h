// Rotation, append and attention in one kernel, for passes in which every sequence has one row, as
// in a decode step. The row's own key and value are read by one thread block of each KV head only:
// the one that has the row's last keys. It rotates the key, stores both in the cache, and attends
// to what it stored, so that a step is one kernel a layer shorter. Every bit, in the cache and in
// the context, is that of LaunchRotateAndAppend and LaunchAttention one after the other.
//
// Each block rotates its queries by itself. Where the keys of a pass are many, so are the blocks;
// the time of a kernel more does not count there, and the queries are rotated once, by
// LaunchRotateAndAppend.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/attention_rule.h"
#include "common/backend/cuda/attention/attention.h"
#include "common/backend/cuda/device/operands.h"
#include "common/backend/tensor.h"

namespace baton {

// What a layer's products made of the rows of a pass, in device memory; borrowed.
struct NewRows {
  CudaRope rope;
  Tensor queries;  // [rows, heads * head_dim], not rotated
  Tensor keys;     // [rows, kv_heads * head_dim], not rotated
  Tensor values;   // [rows, kv_heads * head_dim]
};

// Whether LaunchAppendAndAttend takes such rows and such a cache: 16 bits or codes of a byte for the
// tensor cores, a rope whose pairs divide into ranges of eight, a plan of AttentionCut::kByRowCount, and few
// enough thread blocks for a device with `multiprocessors`.
bool AppendAttentionTakes(const NewRows& rows, const AttentionWork& work, const KvLayerView& cache,
                          int multiprocessors);

// LaunchRotateAndAppend, then LaunchAttention. Leaves rows.queries and rows.keys as they are.
// REQUIRES: what LaunchAttention does; AppendAttentionTakes; each sequence of the pass has one row;
// what the cache holds of earlier positions was there before the last copy on the stream.
void LaunchAppendAndAttend(const CudaPass& pass, const AttentionWork& work,
                           const AttentionRule& rule, const NewRows& rows, const KvLayerView& cache,
                           Tensor out, const CudaAttentionScratch& scratch, cudaStream_t stream);

}  // namespace baton
