// Plain operations on rows of activations, with the CPU's bits.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/tensor.h"

namespace baton {

// out += bias, by rows. `bias` [out.columns] in device memory.
void LaunchAddBias(const float* bias, Tensor out, cudaStream_t stream);

// values = factor * values.
void LaunchScale(float factor, Tensor values, cudaStream_t stream);

// values = cap * (1 - 2 / (1 + exp(2 * (values / cap)))), which is cap * tanh(values / cap).
void LaunchSoftCap(float cap, Tensor values, cudaStream_t stream);

// out[i] = in[rows[i]]. `rows` [out.rows] in device memory. REQUIRES: `rows` ascend, each once;
// `out` is the first rows of `in`, or does not overlap it.
void LaunchCopyRows(Tensor in, const int32_t* rows, Tensor out, cudaStream_t stream);

}  // namespace baton
