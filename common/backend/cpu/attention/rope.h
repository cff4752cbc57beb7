// Rotates Q and K by their positions and stores K and V in the KV cache.
//
// A pair (a, b) with cosine c and sine s becomes (fma(a, c, -(b * s)), fma(a, s, b * c)). Then each
// value of a row's queries is multiplied by the row's scale, if there are scales.
#pragma once

#include "common/backend/backend.h"
#include "common/backend/cpu/machine/thread_pool.h"

namespace baton {

struct CpuKernels;

// The rows of a pass in the form that the kernels take; all memory is borrowed.
struct RopeArgs {
  const BatchSequence* sequences;
  int sequence_count;
  const float* cosines;  // [rows, pairs]
  const float* sines;    // [rows, pairs]
  int pairs;             // rotated pairs of a head; 0: nothing is rotated
  RopePairs kind;
  const float* query_scales;  // [rows] or null
  Tensor queries;
  Tensor keys;
  Tensor values;
  KvLayerView cache;
};

// Rotates `queries` and `keys` in place; stores `keys` and `values` at their positions. See
// Backend::RotateAndAppend.
void RotateAndAppendRows(const CpuKernels& kernels, ThreadPool& pool, const Pass& pass, int rope,
                         Tensor queries, Tensor keys, Tensor values, const KvLayerView& cache);

}  // namespace baton
