// Rotary positions, and the way of K and V into the cache.
//
// A pair (a, b) with cosine c and sine s becomes (fma(a, c, -(b * s)), fma(a, s, b * c)).
#pragma once

#include "common/backend/backend.h"
#include "common/backend/cpu/isa.h"
#include "common/backend/cpu/thread_pool.h"

namespace baton {

// Rotates `queries` and `keys` in place; stores `keys` and `values` at their positions. See
// Backend::RotateAndAppend.
void RotateAndAppendRows(CpuIsa isa, ThreadPool& pool, const Pass& pass, Tensor queries,
                         Tensor keys, Tensor values, const KvLayerView& cache);

}  // namespace baton
