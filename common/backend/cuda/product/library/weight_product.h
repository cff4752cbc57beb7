// Products of many rows with a weight of any element type. A quantised weight is dequantised first,
// as many of its rows at a time as the scratch memory holds. The caller rounds the input to the
// weight's type, or to BF16 for a quantised weight; values beyond the range of F16 become its
// largest value.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "absl/status/status.h"

#include "common/backend/cuda/device/operands.h"
#include "common/backend/cuda/product/library/gemm.h"

namespace baton {

// Device memory, borrowed; aligned to 256 bytes.
struct DequantisedScratch {
  void* data = nullptr;
  size_t bytes = 0;  // room for at least one row
};

// Gemm::Multiply for any weight. `in_element` is the type of product.in: that of the weight, or any
// float type for a quantised weight, which is dequantised to it. Products enqueued on one stream
// may share the scratch memory.
absl::Status MultiplyWeight(Gemm& gemm, const Gemm::Product& product, CudaElement in_element,
                            const DequantisedScratch& scratch, cudaStream_t stream);

}  // namespace baton
