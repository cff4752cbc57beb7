// The operations that take one element of each input: bias, gate, residual.
#pragma once

#include "common/backend/cpu/isa.h"
#include "common/backend/cpu/thread_pool.h"
#include "common/backend/tensor.h"

namespace baton {

// out += bias, by rows. `bias` [columns].
void AddBiasRows(CpuIsa isa, ThreadPool& pool, const float* bias, Tensor out);
// gate = (gate / (1 + exp(-gate))) * up.
void SiluMultiplyRows(CpuIsa isa, ThreadPool& pool, Tensor up, Tensor gate);
// out += in.
void AddRows(CpuIsa isa, ThreadPool& pool, Tensor in, Tensor out);

}  // namespace baton
