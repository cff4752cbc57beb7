// Rows of a quantised weight as float elements: the values of the file's format, rounded once to
// the element type asked for.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/device/operands.h"
#include "common/backend/tensor.h"

namespace baton {

// out [count, columns] = rows [first_row, first_row + count) of `weight`, laid out as a
// CudaMatrix of element type `to`. REQUIRES: `weight` is quantised, `to` is not.
void LaunchDequantise(const CudaMatrix& weight, int first_row, int count, CudaElement to, void* out,
                      cudaStream_t stream);

// out[i] = row row_ids[i] of `table`. `row_ids` [out.rows] is in device memory. REQUIRES: `table`
// is quantised.
void LaunchDequantiseRows(const CudaMatrix& table, const int32_t* row_ids, Tensor out,
                          cudaStream_t stream);

}  // namespace baton
