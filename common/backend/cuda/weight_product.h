// Products of many rows with a weight of any element type: a quantised one is dequantised first, as
// many of its rows at a time as the scratch memory holds.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "absl/status/status.h"

#include "common/backend/cuda/gemm.h"
#include "common/backend/cuda/operands.h"

namespace baton {

// Device memory, borrowed; aligned to 256 bytes.
struct DequantisedScratch {
  void* data = nullptr;
  size_t bytes = 0;  // of at least one row
};

// As Gemm::Multiply. `in_element` is that of product.in: the weight's own, or any float type for a
// quantised weight, which is dequantised to it. Enqueued on one stream, products may share the
// scratch.
absl::Status MultiplyWeight(Gemm& gemm, const Gemm::Product& product, CudaElement in_element,
                            const DequantisedScratch& scratch, cudaStream_t stream);

}  // namespace baton
