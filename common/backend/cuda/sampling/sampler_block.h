// Reductions and loops that the threads of a warp or a block do together. All of their threads call
// these functions, and all get the result.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/device/device.h"

namespace baton {

__device__ inline int Thread() { return static_cast<int>(threadIdx.x); }
__device__ inline int Threads() { return static_cast<int>(blockDim.x); }
__device__ inline int Lane() { return Thread() % kWarpLanes; }
__device__ inline int Warp() { return Thread() / kWarpLanes; }
__device__ inline int Warps() { return Threads() / kWarpLanes; }

struct Add {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};
struct Min {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a < b ? a : b; }
};
struct Max {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a > b ? a : b; }
};

template <class Combine>
__device__ inline uint64_t WarpReduce(uint64_t value, Combine combine) {
  for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// `warps` [32] is shared memory.
template <class Combine>
__device__ inline uint64_t BlockReduce(uint64_t value, Combine combine, uint64_t* warps) {
  value = WarpReduce(value, combine);
  __syncthreads();  // the last use of `warps` is over
  if (Lane() == 0) warps[Warp()] = value;
  __syncthreads();
  value = warps[0];
  for (int warp = 1; warp < Warps(); ++warp) value = combine(value, warps[warp]);
  return value;
}

// The sum of the values of the threads before this one. `warps` [32] is shared memory.
__device__ inline uint64_t BlockSumBefore(uint64_t value, uint64_t* warps) {
  uint64_t through = value;
  for (int distance = 1; distance < kWarpLanes; distance *= 2) {
    const uint64_t other = __shfl_up_sync(kAllLanes, through, distance);
    if (Lane() >= distance) through += other;
  }
  __syncthreads();
  if (Lane() == kWarpLanes - 1) warps[Warp()] = through;
  __syncthreads();
  uint64_t before = through - value;
  for (int warp = 0; warp < Warp(); ++warp) before += warps[warp];
  return before;
}

// Sums of 64 bits in shared memory, to which threads add at the same time. Each has two halves,
// because 32-bit atomics on shared memory exist in hardware. The halves lie apart, so that
// neighbouring sums want different banks.
template <int kCount>
struct SharedSums {
  unsigned int low[kCount];
  unsigned int high[kCount];

  __device__ void Clear(int i) { low[i] = high[i] = 0; }
  __device__ void Add(int i, uint64_t value) {
    const auto more_low = static_cast<unsigned int>(value);
    const unsigned int carry = atomicAdd(&low[i], more_low) + more_low < more_low ? 1 : 0;
    const unsigned int more_high = static_cast<unsigned int>(value >> 32) + carry;
    if (more_high != 0) atomicAdd(&high[i], more_high);
  }
  // REQUIRES: no thread adds to it any more.
  __device__ uint64_t At(int i) const { return uint64_t{high[i]} << 32 | low[i]; }
};

// Calls work(index, value, inside) for those values of [begin, end) that fall to member `member` of
// a group of `members`. All members make the same number of calls, with `inside` false beyond the
// end. Several loads are in flight at a time.
template <class Work>
__device__ inline void ForEachValue(const float* values, int begin, int end, int member,
                                    int members, Work work) {
  constexpr int kAhead = 8;
  for (int base = begin; base < end; base += kAhead * members) {
    float ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int index = base + i * members + member;
      ahead[i] = index < end ? values[index] : 0;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int index = base + i * members + member;
      work(index, ahead[i], index < end);
    }
  }
}

}  // namespace baton
