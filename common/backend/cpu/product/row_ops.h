// Operations on rows of activations between products.
//
// A norm of n values x is x * (1 / sqrt(sum(x^2) / n + epsilon)) * gain, left to right; the squares
// are summed in 16 lanes (lanes.h), as in product_input.h.
#pragma once

#include "common/backend/cpu/machine/thread_pool.h"
#include "common/backend/cpu/simd/isa.h"
#include "common/backend/tensor.h"

namespace baton {

// Normalises each `size` neighbouring columns by themselves. `gain` [size]. REQUIRES: size divides
// the columns.
void NormGroupsOfRows(CpuIsa isa, ThreadPool& pool, const float* gain, int size, float epsilon,
                      Tensor values);

// out = fma(scale, norm(in), out), by rows. `gain` [columns].
void AddNormOfRows(CpuIsa isa, ThreadPool& pool, Tensor in, const float* gain, float epsilon,
                   float scale, Tensor out);

// values = factor * values.
void ScaleRows(CpuIsa isa, ThreadPool& pool, float factor, Tensor values);

// values = cap * (1 - 2 / (1 + exp(2 * (values / cap)))), which is cap * tanh(values / cap).
void SoftCapRows(CpuIsa isa, ThreadPool& pool, float cap, Tensor values);

}  // namespace baton
