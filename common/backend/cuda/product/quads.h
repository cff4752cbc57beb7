// Four columns of a product's input at a time.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/product/gate.h"
#include "common/backend/gate_function.h"

namespace baton {

// Columns `column` to `column + 3` of a row; columns beyond `columns` are 0.
__device__ __forceinline__ float4 LoadQuad(const float* row, int column, int columns) {
  if (columns % 4 == 0) {
    return column < columns ? *reinterpret_cast<const float4*>(row + column)
                            : make_float4(0, 0, 0, 0);
  }
  return make_float4(column < columns ? row[column] : 0, column + 1 < columns ? row[column + 1] : 0,
                     column + 2 < columns ? row[column + 2] : 0,
                     column + 3 < columns ? row[column + 3] : 0);
}

__device__ __forceinline__ float4 GatedQuad(GateFunction function, const float4& gate,
                                            const float4& up) {
  return make_float4(Gated(function, gate.x, up.x), Gated(function, gate.y, up.y),
                     Gated(function, gate.z, up.z), Gated(function, gate.w, up.w));
}

}  // namespace baton
