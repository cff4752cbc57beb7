// Rotary positions, and the way of K and V into the cache.
//
// A pair (a, b) with cosine c and sine s becomes (fma(a, c, -(b * s)), fma(a, s, b * c)).
#pragma once

#include "common/backend/backend.h"
#include "common/backend/cpu/thread_pool.h"

namespace baton {

struct CpuKernels;

// The pass' rows, as the kernels take them.
struct RopeArgs {
  const PassSequence* sequences;
  int sequence_count;
  const float* cosines;  // [rows, pairs]
  const float* sines;
  int pairs;  // of a head
  RopePairs kind;
  Tensor queries;
  Tensor keys;
  Tensor values;
  KvLayerView cache;
};

// Rotates `queries` and `keys` in place; stores `keys` and `values` at their positions. See
// Backend::RotateAndAppend.
void RotateAndAppendRows(const CpuKernels& kernels, ThreadPool& pool, const Pass& pass,
                         Tensor queries, Tensor keys, Tensor values, const KvLayerView& cache);

}  // namespace baton
