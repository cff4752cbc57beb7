// Root-mean-square normalisation.
//
// The squares are summed in 16 lanes (lanes.h); out = in * (1 / sqrt(sum / columns + epsilon)) *
// gain, left to right.
#pragma once

#include "common/backend/cpu/isa.h"
#include "common/backend/cpu/thread_pool.h"
#include "common/backend/tensor.h"

namespace baton {

// `gain` [columns]. `out` may be `in`.
void NormalizeRows(CpuIsa isa, ThreadPool& pool, Tensor in, const float* gain, float epsilon,
                   Tensor out);

}  // namespace baton
