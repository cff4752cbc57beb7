// The softmax of rows whose scores come page by page. Exponentials are relative to the maximum so
// far, and the sums are scaled when the maximum grows. Scores are exponents of 2. Layouts are
// those of attention_pages.h.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "common/backend/cuda/device/device.h"

namespace baton {

// The state of rows lane / 4 and lane / 4 + 8 of kTiles M tiles.
template <int kTiles, int kHeadDim>
struct SoftmaxState {
  float max[kTiles][2];
  float sum[kTiles][2];  // sums over this lane's columns
  float o[kTiles][kHeadDim / 8][4];
};

template <int kTiles, int kHeadDim>
__device__ void ClearState(SoftmaxState<kTiles, kHeadDim>& state) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      state.max[t][r] = -INFINITY;
      state.sum[t][r] = 0;
    }
#pragma unroll
    for (int d = 0; d < kHeadDim / 8; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) state.o[t][d][i] = 0;
    }
  }
}

// Turns `scores` into weights, and scales the sums so far to the new maximum. REQUIRES: each row
// has or had a score above -infinity.
template <int kTiles, int kHeadDim, int kPages>
__device__ void TakeScores(float (&scores)[kTiles][kPages][2][4],
                           SoftmaxState<kTiles, kHeadDim>& state) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    float scale[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float max = state.max[t][r];
#pragma unroll
      for (int i = 0; i < kPages * 4; ++i) {
        max = fmaxf(max, scores[t][i / 4][i / 2 % 2][r * 2 + i % 2]);
      }
      max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, 1));
      max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, 2));
      scale[r] = exp2f(state.max[t][r] - max);
      state.max[t][r] = max;
      float sum = state.sum[t][r] * scale[r];
#pragma unroll
      for (int i = 0; i < kPages * 4; ++i) {
        float& score = scores[t][i / 4][i / 2 % 2][r * 2 + i % 2];
        score = exp2f(score - max);
        sum += score;
      }
      state.sum[t][r] = sum;
    }
    // Most maxima are found early, so that the scaling is often not needed.
    if (__all_sync(kAllLanes, scale[0] == 1 && scale[1] == 1)) continue;
#pragma unroll
    for (int d = 0; d < kHeadDim / 8; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) state.o[t][d][i] *= scale[i / 2];
    }
  }
}

// Gives every lane of a row the sums over all columns.
template <int kTiles, int kHeadDim>
__device__ void FoldSums(SoftmaxState<kTiles, kHeadDim>& state) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      state.sum[t][r] += __shfl_xor_sync(kAllLanes, state.sum[t][r], 1);
      state.sum[t][r] += __shfl_xor_sync(kAllLanes, state.sum[t][r], 2);
    }
  }
}

}  // namespace baton
