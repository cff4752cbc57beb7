// The softmax of rows whose scores come page by page. Exponentials are relative to a maximum so
// far, and the sums are scaled when the maximum grows. Scores are exponents of 2. Layouts are those
// of attention_pages.h. At the end, how states are merged, the sink's among them.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>

#include "common/backend/cuda/attention/attention_args.h"
#include "common/backend/cuda/device/device.h"
#include "ptx.h"

namespace baton {

// Which maximum exponentials are relative to. kGreatest: the greatest score so far. kNear: one that
// no score so far exceeds by more than kMaxSlack, so that sums are seldom scaled; and exponentials
// take one instruction, which makes zero of what is below 2^-126. Either way a row's scores alone
// decide.
enum class RowMax { kGreatest, kNear };

inline constexpr float kMaxSlack = 8;  // weights up to 2^8: far from the largest __half

// The state of rows lane / 4 and lane / 4 + 8 of kTiles M tiles.
template <int kTiles, int kHeadDim, RowMax kMax = RowMax::kGreatest>
struct SoftmaxState {
  float max[kTiles][2];
  float sum[kTiles][2];  // sums over this lane's columns
  // 1 / the power of two in units of which O is. Only sums of a CodeTile's values have one.
  float inverse_unit[kTiles][2];
  float o[kTiles][kHeadDim / 8][4];
};

template <int kTiles, int kHeadDim, RowMax kMax>
__device__ void ClearState(SoftmaxState<kTiles, kHeadDim, kMax>& state) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      state.max[t][r] = kMax == RowMax::kGreatest ? -INFINITY : -FLT_MAX;
      state.sum[t][r] = 0;
      state.inverse_unit[t][r] = 0x1p126f;
    }
#pragma unroll
    for (int d = 0; d < kHeadDim / 8; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) state.o[t][d][i] = 0;
    }
  }
}

// Scales what an M tile has summed of `values`.
template <int kFragments>
__device__ void ScaleSums(const float (&scale)[2], float (&o)[kFragments][4]) {
#pragma unroll
  for (int d = 0; d < kFragments; ++d) {
#pragma unroll
    for (int i = 0; i < 4; ++i) o[d][i] *= scale[i / 2];
  }
}

// Turns `scores` into weights, and scales the sums so far to the new maximum. The state of a row
// that has only seen scores of -infinity stays clear.
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
      // Infinities have no difference.
      const float base = max == -INFINITY ? 0 : max;
      scale[r] = exp2f(state.max[t][r] - base);
      state.max[t][r] = max;
      float sum = state.sum[t][r] * scale[r];
#pragma unroll
      for (int i = 0; i < kPages * 4; ++i) {
        float& score = scores[t][i / 4][i / 2 % 2][r * 2 + i % 2];
        score = exp2f(score - base);
        sum += score;
      }
      state.sum[t][r] = sum;
    }
    // Most maxima are found early, so that the scaling is often not needed.
    if (__all_sync(kAllLanes, scale[0] == 1 && scale[1] == 1)) continue;
    ScaleSums(scale, state.o[t]);
  }
}

// Raises the maxima that the rows' scores exceed by more than kMaxSlack, and scales the sums.
// `greatest` are the greatest scores among this lane's columns. Out of the way of the usual case,
// which needs no exchange between lanes.
template <int kTiles, int kHeadDim>
__device__ void RaiseMax(float (&greatest)[kTiles][2],
                         SoftmaxState<kTiles, kHeadDim, RowMax::kNear>& state) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    float scale[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float max = greatest[t][r];
      max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, 1));
      max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, 2));
      if (!(max > state.max[t][r] + kMaxSlack)) max = state.max[t][r];
      scale[r] = Exp2Approximate(state.max[t][r] - max);
      state.max[t][r] = max;
      state.sum[t][r] *= scale[r];
    }
    ScaleSums(scale, state.o[t]);
  }
}

// The same, with RowMax::kNear. The maximum is finite from the start, so that nothing here is a
// difference of infinities, unless a score is one.
template <int kTiles, int kHeadDim, int kPages>
__device__ void TakeScores(float (&scores)[kTiles][kPages][2][4],
                           SoftmaxState<kTiles, kHeadDim, RowMax::kNear>& state) {
  float greatest[kTiles][2];
  bool exceeds = false;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      greatest[t][r] = scores[t][0][0][r * 2];
#pragma unroll
      for (int i = 1; i < kPages * 4; ++i) {
        greatest[t][r] = fmaxf(greatest[t][r], scores[t][i / 4][i / 2 % 2][r * 2 + i % 2]);
      }
      exceeds |= greatest[t][r] > state.max[t][r] + kMaxSlack;
    }
  }
  if (__any_sync(kAllLanes, exceeds)) RaiseMax(greatest, state);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int i = 0; i < kPages * 4; ++i) {
        float& score = scores[t][i / 4][i / 2 % 2][r * 2 + i % 2];
        score = Exp2Approximate(score - state.max[t][r]);
        state.sum[t][r] += score;
      }
    }
  }
}

// Gives every lane of a row the sums over all columns.
template <int kTiles, int kHeadDim, RowMax kMax>
__device__ void FoldSums(SoftmaxState<kTiles, kHeadDim, kMax>& state) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      state.sum[t][r] += __shfl_xor_sync(kAllLanes, state.sum[t][r], 1);
      state.sum[t][r] += __shfl_xor_sync(kAllLanes, state.sum[t][r], 2);
    }
  }
}

// The factors with which a state joins the total before it: both are scaled to the new maximum.
struct MergeScales {
  float max;
  float total;
  float state;
};
__device__ inline MergeScales ScalesFor(float total_max, float state_max) {
  const float max = fmaxf(total_max, state_max);
  return {max, exp2f(total_max - max), exp2f(state_max - max)};
}
__device__ inline float MergeValue(const MergeScales& scales, float total, float state) {
  return __fmaf_rn(state, scales.state, total * scales.total);
}

// What O of query head `head` is multiplied by at the end. `max` and `sum` are those of all keys that
// the row sees. The head's sink is merged as a state with the sink as its maximum, the sum 1 and
// O = 0.
__device__ inline float ContextScale(const AttentionArgs& args, int head, float max, float sum) {
  if (args.sinks == nullptr) return 1.0f / sum;
  constexpr float kLog2E = 1.44269504f;
  const MergeScales scales = ScalesFor(max, fminf(args.sinks[head] * kLog2E, FLT_MAX));
  return scales.total * (1.0f / MergeValue(scales, sum, 1));
}

}  // namespace baton
