// The biases of Q, K and V.
#pragma once

#include "common/backend/cpu/machine/thread_pool.h"
#include "common/backend/cpu/simd/isa.h"
#include "common/backend/tensor.h"

namespace baton {

// out += bias, by rows. `bias` [columns].
void AddBiasRows(CpuIsa isa, ThreadPool& pool, const float* bias, Tensor out);

}  // namespace baton
