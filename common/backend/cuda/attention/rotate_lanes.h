// The rotation of int4's heads (kv_int4.h) in a warp: lane l has element g * 32 + l of a head in
// register g. Whole warps call everything here.
#pragma once

#include "common/backend/cuda/attention/attention.h"
#include "common/backend/cuda/device/device.h"
#include "common/base/kv_int4.h"

namespace baton {

// Registers of a lane for the largest head.
inline constexpr int kHeadRegisters = kMaxVectorHeadDim / kWarpLanes;
static_assert(kKvGroup == kWarpLanes && kMaxVectorHeadDim == kMostInt4HeadDim);

struct HeadLanes {
  float x[kHeadRegisters];
};

// Loads a head from memory of any kind. REQUIRES: head_dim is a multiple of kKvGroup.
__device__ inline HeadLanes LoadHead(const float* head, int head_dim, int lane) {
  HeadLanes lanes;
#pragma unroll
  for (int g = 0; g < kHeadRegisters; ++g) {
    lanes.x[g] = g * kKvGroup < head_dim ? head[g * kKvGroup + lane] : 0.0f;
  }
  return lanes;
}

__device__ inline void StoreHead(const HeadLanes& lanes, float* head, int head_dim, int lane) {
#pragma unroll
  for (int g = 0; g < kHeadRegisters; ++g) {
    if (g * kKvGroup < head_dim) head[g * kKvGroup + lane] = lanes.x[g];
  }
}

__device__ inline void RotateHead(HeadLanes& lanes, int head_dim, int lane) {
  const int block = RotationBlock(head_dim);
  const float factor = RotationFactor(block);
#pragma unroll
  for (int g = 0; g < kHeadRegisters; ++g) {
    float& x = lanes.x[g];
    x *= factor;
    for (int distance = 1; distance < kWarpLanes; distance *= 2) {
      const float other = __shfl_xor_sync(kAllLanes, x, distance);
      x = (lane & distance) != 0 ? other - x : x + other;
    }
  }
#pragma unroll
  for (int step = 1; step < kHeadRegisters; step *= 2) {
    if (step * kWarpLanes >= block) continue;
#pragma unroll
    for (int g = 0; g < kHeadRegisters; ++g) {
      if ((g & step) != 0) continue;
      const float a = lanes.x[g];
      const float b = lanes.x[g + step];
      lanes.x[g] = a + b;
      lanes.x[g + step] = a - b;
    }
  }
}

}  // namespace baton
