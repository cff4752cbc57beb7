// The functions of a feed-forward's gate on the device, element by element.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/exact_math.h"
#include "common/backend/gate_function.h"

namespace baton {

// function(gate, up), with the CPU's bits (cpu/product_input.h). A NaN stays one.
__device__ inline float Gated(GateFunction function, float gate, float up) {
  switch (function) {
    case GateFunction::kSilu:
      return SiluF(gate) * up;
    case GateFunction::kGeluTanh: {
      const float inner = fmaf(gate * gate, kGeluTanhCubic, kGeluTanhLinear);
      return gate / (1.0f + ExpF(gate * inner)) * up;
    }
    case GateFunction::kClampedSilu: {
      const float g = gate > kGateClamp ? kGateClamp : gate;
      const float below = up > kGateClamp ? kGateClamp : up;
      const float u = below < -kGateClamp ? -kGateClamp : below;
      return g / (1.0f + ExpF(-kClampedSiluSlope * g)) * (u + 1.0f);
    }
  }
  return 0;
}

}  // namespace baton
