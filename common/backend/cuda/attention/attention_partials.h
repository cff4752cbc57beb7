// The end of a task: the states of a block's warps are merged into one, and the states of those of
// a row's tasks that have a key into the row's context. A state is
// [PartialStride(head_dim)]: O, which is the sum of 2^(score - maximum) * value; the maximum; the
// sum of 2^(score - maximum). A state that saw no key has O = 0, the sum 0, and the least maximum of
// its RowMax.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "common/backend/cuda/attention/attention_args.h"
#include "common/backend/cuda/attention/attention_softmax.h"
#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/last_block.h"

namespace baton {

// A task, and the query heads [first_head, first_head + count) of its rows.
struct TaskHeads {
  DecodeTask task;
  int first_head;
  int count;  // at most kMaxTaskHeads
};
inline constexpr int kMaxTaskHeads = 16;
inline constexpr int kTaskSharedBytes = (kMaxTaskHeads + 4) * 4;  // shared memory for EndTask

// Row `index` of the task's rows, as a task of its own.
__device__ inline DecodeTask RowOf(const AttentionArgs& args, const DecodeTask& task, int index) {
  DecodeTask row = task;
  row.row += index;
  row.row_count = 1;
  if (task.first_partial >= 0) {
    const int last_key = args.pass.positions[task.row + task.row_count - 1];
    row.first_partial += index * (last_key / kAttentionSegment + 1);
  }
  return row;
}

__device__ inline float4 AddScaled(float4 sum, float scale, float4 x) {
  return {__fmaf_rn(scale, x.x, sum.x), __fmaf_rn(scale, x.y, sum.y), __fmaf_rn(scale, x.z, sum.z),
          __fmaf_rn(scale, x.w, sum.w)};
}

// States to be merged in ascending order. State i is at `first + i * stride`.
struct States {
  const float* first;
  size_t stride;
  int count;
};

// Four neighbouring elements of the merged O, and the merged sum, relative to the maximum of all.
struct Merged {
  float4 o;
  float sum;
  float max;
};
__device__ inline Merged MergeStates(const States& states, int head_dim, int element, float max) {
  Merged merged = {{0, 0, 0, 0}, 0, max};
#pragma unroll 4
  for (int i = 0; i < states.count; ++i) {
    const float* const state = states.first + static_cast<size_t>(i) * states.stride;
    const float scale = exp2f(state[head_dim] - max);
    merged.o = AddScaled(merged.o, scale, *reinterpret_cast<const float4*>(state + element));
    merged.sum = __fmaf_rn(scale, state[head_dim + 1], merged.sum);
  }
  return merged;
}

// The partial result `partial` of query head `head`, counted among all heads, in scratch memory.
__device__ inline float* PartialAt(const AttentionArgs& args, int partial, int head) {
  return args.scratch.partials + (static_cast<size_t>(partial) * static_cast<size_t>(args.heads) +
                                  static_cast<size_t>(head)) *
                                     static_cast<size_t>(PartialStride(args.cache.head_dim));
}

__device__ inline void StoreContext(const AttentionArgs& args, int row, int head, int element,
                                    const Merged& merged) {
  const float scale = ContextScale(args, head, merged.max, merged.sum);
  float* const to = args.out.Row(row) + head * args.cache.head_dim + element;
  *reinterpret_cast<float4*>(to) = {merged.o.x * scale, merged.o.y * scale, merged.o.z * scale,
                                    merged.o.w * scale};
}

// Merges the states of the warps into a partial result of the row, or into the row's context if
// the task has all keys of its row. `states` [kAttentionWarps][heads.count, PartialStride] is in
// shared memory; from one warp's states to the next it is `warp_stride` floats.
__device__ inline void MergeWarps(const AttentionArgs& args, const TaskHeads& heads,
                                  const float* states, size_t warp_stride) {
  const int head_dim = args.cache.head_dim;
  const int quads = head_dim / 4;
  for (int i = static_cast<int>(threadIdx.x); i < heads.count * quads; i += kAttentionThreads) {
    const int head = i / quads;
    const int element = i % quads * 4;
    const States of_head = {states + head * PartialStride(head_dim), warp_stride, kAttentionWarps};
    float max = of_head.first[head_dim];
    for (int warp = 1; warp < kAttentionWarps; ++warp) {
      max = fmaxf(max, of_head.first[static_cast<size_t>(warp) * warp_stride + head_dim]);
    }
    const Merged merged = MergeStates(of_head, head_dim, element, max);
    if (heads.task.first_partial < 0) {
      StoreContext(args, heads.task.row, heads.first_head + head, element, merged);
      continue;
    }
    float* const to =
        PartialAt(args, heads.task.first_partial + heads.task.first_key / kAttentionSegment,
                  heads.first_head + head);
    *reinterpret_cast<float4*>(to + element) = merged.o;
    if (element == 0) {
      *reinterpret_cast<float2*>(to + head_dim) = {max, merged.sum};
    }
  }
}

// --- AttentionCut::kAlike: states are merged one after the other, so that the result does not
// --- depend on who merges them, or when.

// Four neighbouring elements of the states merged so far.
struct MergedInOrder {
  Merged total = {{0, 0, 0, 0}, 0, -INFINITY};

  // REQUIRES: the state saw a key.
  __device__ void Take(const Merged& state) {
    const MergeScales scales = ScalesFor(total.max, state.max);
    total.max = scales.max;
    total.sum = MergeValue(scales, total.sum, state.sum);
    total.o = {MergeValue(scales, total.o.x, state.o.x), MergeValue(scales, total.o.y, state.o.y),
               MergeValue(scales, total.o.z, state.o.z), MergeValue(scales, total.o.w, state.o.w)};
  }
};

// Merges the partial results of a row into its context. All kThreads threads call it.
template <int kThreads>
__device__ inline void MergePartialsInOrder(const AttentionArgs& args, const TaskHeads& heads,
                                            const RowSegments& segments) {
  const int head_dim = args.cache.head_dim;
  const int quads = head_dim / 4;
  const size_t stride =
      static_cast<size_t>(args.heads) * static_cast<size_t>(PartialStride(head_dim));
  for (int i = static_cast<int>(threadIdx.x); i < heads.count * quads; i += kThreads) {
    const int head = heads.first_head + i / quads;
    const int element = i % quads * 4;
    const float* partial = PartialAt(args, heads.task.first_partial + segments.first, head);
    MergedInOrder merged;
#pragma unroll 8
    for (int k = 0; k < segments.count; ++k, partial += stride) {
      const float2 max_and_sum = *reinterpret_cast<const float2*>(partial + head_dim);
      merged.Take(
          {*reinterpret_cast<const float4*>(partial + element), max_and_sum.y, max_and_sum.x});
    }
    StoreContext(args, heads.task.row, head, element, merged.total);
  }
}

// True in the block that ends the last of the `count` tasks of these rows. The first row's counter,
// that of the first head, counts for all. `shared` [1], in shared memory.
__device__ inline bool EndsRows(const AttentionArgs& args, const TaskHeads& heads, int count,
                                int32_t* shared) {
  int32_t* const counter = args.scratch.arrivals +
                           static_cast<size_t>(heads.task.row) * static_cast<size_t>(args.heads) +
                           static_cast<size_t>(heads.first_head);
  return ComesLast(counter, count, shared);
}

// --- AttentionCut::kByRowCount: all states are merged at once, relative to the maximum of all.

// Merges the partial results of a row into its context. `shared` [heads.count], in shared memory.
__device__ inline void MergePartials(const AttentionArgs& args, const TaskHeads& heads,
                                     const RowSegments& segments, float* shared) {
  const int head_dim = args.cache.head_dim;
  const size_t stride =
      static_cast<size_t>(args.heads) * static_cast<size_t>(PartialStride(head_dim));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int head = static_cast<int>(threadIdx.x) / 32; head < heads.count; head += kAttentionWarps) {
    const float* const first =
        PartialAt(args, heads.task.first_partial + segments.first, heads.first_head + head);
    float max = -INFINITY;
    for (int i = lane; i < segments.count; i += 32) {
      max = fmaxf(max, first[static_cast<size_t>(i) * stride + head_dim]);
    }
    max = WarpMax(max);
    if (lane == 0) shared[head] = max;
  }
  __syncthreads();
  const int quads = head_dim / 4;
  for (int i = static_cast<int>(threadIdx.x); i < heads.count * quads; i += kAttentionThreads) {
    const int head = i / quads;
    const int element = i % quads * 4;
    const States of_head = {
        PartialAt(args, heads.task.first_partial + segments.first, heads.first_head + head), stride,
        segments.count};
    StoreContext(args, heads.task.row, heads.first_head + head, element,
                 MergeStates(of_head, head_dim, element, shared[head]));
  }
}

// Ends a task whose warps have left their states in shared memory, as MergeWarps takes them. All
// threads call it, as the last thing they do. `shared` [kTaskSharedBytes], in shared memory.
__device__ inline void EndTask(const AttentionArgs& args, const TaskHeads& heads,
                               const float* states, size_t warp_stride, uint8_t* shared) {
  __syncthreads();
  MergeWarps(args, heads, states, warp_stride);
  if (heads.task.first_partial >= 0) {
    const RowSegments segments = SegmentsOf(args, heads.task.row);
    if (EndsRows(args, heads, segments.count, reinterpret_cast<int32_t*>(shared))) {
      MergePartials(args, heads, segments, reinterpret_cast<float*>(shared) + 4);
    }
  }
}

}  // namespace baton
