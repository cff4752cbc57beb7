// Two BF16 elements in a register.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace baton {

__device__ __forceinline__ __nv_bfloat162 Bf16PairOf(uint32_t bits) {
  __nv_bfloat162 pair;
  memcpy(&pair, &bits, sizeof(pair));
  return pair;
}
__device__ __forceinline__ uint32_t BitsOf(__nv_bfloat162 pair) {
  uint32_t bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}

// Rounds two values, `low` into the lower half.
__device__ __forceinline__ uint32_t PackBf16(float low, float high) {
  return BitsOf(__floats2bfloat162_rn(low, high));
}

}  // namespace baton
