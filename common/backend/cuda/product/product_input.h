// The activations of products over many rows: normalised or gated, in the element type that the
// product takes, rounded to nearest even, and in F16 to no more than its largest. Arithmetic is
// float32, as on the CPU (cpu/product_input.h); only the order in which the squares of a row are
// summed differs.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/device/operands.h"
#include "common/backend/gate_function.h"
#include "common/backend/tensor.h"

namespace baton {

// All memory is device memory. `out` [rows, columns] of type `element`.

// out = in * (1 / sqrt(mean(in^2) + epsilon)) * gain, by rows. `gain` [in.columns].
void LaunchNormRows(Tensor in, const float* gain, float epsilon, CudaElement element, void* out,
                    cudaStream_t stream);

// out = function(gate, up). `up` has the shape of `gate`.
void LaunchGatedRows(GateFunction function, Tensor gate, Tensor up, CudaElement element, void* out,
                     cudaStream_t stream);

// out = in, converted to `element`.
void LaunchConvertRows(Tensor in, CudaElement element, void* out, cudaStream_t stream);

}  // namespace baton
