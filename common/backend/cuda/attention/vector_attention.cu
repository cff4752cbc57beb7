#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "common/backend/cuda/attention/attention_partials.h"
#include "common/backend/cuda/attention/vector_attention.h"
#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "ptx.h"

namespace baton {

constexpr int kLaneElements = kMaxVectorHeadDim / 32;

// A query head of a task, as one warp sees it.
struct HeadWork {
  DecodeTask task;
  int kv_head;
  int head_dim;
  const KvLayerView& cache;
  const int32_t* block_table;
};

// The state of a row so far: the maximum of all keys, the sum of this lane's keys, and its elements
// of O.
struct LaneState {
  float max;
  float sum;
  float o[kLaneElements];
};

// This lane's part of the product of `query` [head_dim] and its key, still without the scale that a
// code has.
template <class Element>
static __device__ float MultiplyKey(const float* query, const Element* key, int head_dim) {
  constexpr int kElements = 16 / sizeof(Element);
  float sum = 0;
  const int half = static_cast<int>(threadIdx.x) / 16 % 2;
  for (int d = half * kElements; d < head_dim; d += 2 * kElements) {
    const Floats<kElements> chunk = LoadFloats<kElements>(key + d);
#pragma unroll
    for (int i = 0; i < kElements; ++i) sum = __fmaf_rn(chunk.values[i], query[d + i], sum);
  }
  return sum;
}

// MultiplyKey for key `token` of a page of an int4 cache, with its scales.
static __device__ float MultiplyInt4Key(const float* query, const HeadRows& page, int token,
                                        int head_dim) {
  constexpr int kBytes = kKvGroup / 2;
  float sum = 0;
  const int half = static_cast<int>(threadIdx.x) / 16 % 2;
  for (int group = half; group < head_dim / kKvGroup; group += 2) {
    const auto access = *reinterpret_cast<const uint4*>(page.Row(token) + group * kBytes);
    KvInt4 codes[kBytes];
    memcpy(codes, &access, sizeof(access));
    const float scale = page.GroupScale(token, group);
    const float* const from = query + group * kKvGroup;
    // By 16 bytes: the halves of a warp want the same banks, but then they take turns anyway.
#pragma unroll
    for (int i = 0; i < kBytes; i += 4) {
      const Floats<4> low = LoadFloats<4>(from + i);
      const Floats<4> high = LoadFloats<4>(from + i + kBytes);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        sum = __fmaf_rn(codes[i + k].Low() * scale, low.values[k], sum);
        sum = __fmaf_rn(codes[i + k].High() * scale, high.values[k], sum);
      }
    }
  }
  return sum;
}

// Element `index` of value `token` of a page, still without the scale that a code of a byte has.
template <class Element>
static __device__ float ValueAt(const HeadRows& page, int token, int index) {
  const auto* const value = reinterpret_cast<const Element*>(page.Row(token));
  if constexpr (kIsKvInt4<Element>) {
    const int group = index / kKvGroup;
    constexpr int kBytes = kKvGroup / 2;
    const KvInt4 codes = value[group * kBytes + index % kBytes];
    const float code = index % kKvGroup < kBytes ? codes.Low() : codes.High();
    return code * page.GroupScale(token, group);
  } else {
    return ToFloat(value[index]);
  }
}

// Attends to the page of keys [first_key, first_key + 16), as far as the task has them: at least
// one.
template <class Element>
static __device__ void AttendPage(const HeadWork& work, const float* query, int first_key,
                                  LaneState& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int begin = max(0, work.task.first_key - first_key);
  const int end = min(kKvPageTokens, work.task.end_key - first_key);
  const bool has_key = lane % 16 >= begin && lane % 16 < end;
  const KvLayerView& cache = work.cache;
  const HeadRows page = KeysAt(cache, work.block_table[cache.TableIndex(first_key)],
                               first_key % cache.block_size, work.kv_head);
  float score = 0;
  if (has_key) {
    if constexpr (kIsKvInt4<Element>) {
      score = MultiplyInt4Key(query, page, lane % 16, work.head_dim);
    } else {
      score =
          MultiplyKey(query, reinterpret_cast<const Element*>(page.Row(lane % 16)), work.head_dim);
    }
    if constexpr (kIsKvCode<Element>) score *= page.Scale(lane % 16);
  }
  score += __shfl_xor_sync(kAllLanes, score, 16);
  if (!has_key) score = -INFINITY;
  float max = fmaxf(state.max, score);
  for (int mask = 8; mask > 0; mask /= 2) max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, mask));
  const float scale = exp2f(state.max - max);
  const float weight = exp2f(score - max);
  state.max = max;
  state.sum = __fmaf_rn(state.sum, scale, weight);
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) state.o[i] *= scale;
  const HeadRows values = page.Values(cache);
  for (int key = begin; key < end; ++key) {
    float key_weight = __shfl_sync(kAllLanes, weight, key);
    if constexpr (kIsKvCode<Element>) key_weight *= values.Scale(key);
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      const int element = i * 32 + lane;
      if (element < work.head_dim) {
        state.o[i] = __fmaf_rn(key_weight, ValueAt<Element>(values, key, element), state.o[i]);
      }
    }
  }
}

// Attends to every fourth page, from this warp's on. `to` [PartialStride(head_dim)] becomes the
// warp's state.
template <class Element>
static __device__ void AttendPages(const HeadWork& work, const float* query, float* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  LaneState state = {-INFINITY, 0, {}};
  const int first = work.task.first_key / kKvPageTokens * kKvPageTokens;
  for (int key = first + warp * kKvPageTokens; key < work.task.end_key;
       key += kAttentionWarps * kKvPageTokens) {
    AttendPage<Element>(work, query, key, state);
  }
  // Lanes 16 to 31 have the same keys as lanes 0 to 15.
  for (int mask = 8; mask > 0; mask /= 2) {
    state.sum += __shfl_xor_sync(kAllLanes, state.sum, mask);
  }
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    if (i * 32 + lane < work.head_dim) to[i * 32 + lane] = state.o[i];
  }
  if (lane == 0) *reinterpret_cast<float2*>(to + work.head_dim) = {state.max, state.sum};
}

// A task for AttentionCut::kAlike: a state for each kAttentionSegment keys. The states are merged
// one after the other, here if the task has all keys of its row, otherwise by the last of the
// row's tasks. `states` [warps][stride].
template <class Element>
static __device__ void AttendAlike(const AttentionArgs& args, HeadWork work, int head,
                                   const float* query, float* states, size_t stride,
                                   uint8_t* shared) {
  const DecodeTask task = work.task;
  const TaskHeads heads = {task, head, 1};
  const int head_dim = work.head_dim;
  const int element = static_cast<int>(threadIdx.x) * 4;
  static_assert(kMaxVectorHeadDim <= 4 * kAttentionThreads);
  MergedInOrder merged;
  for (int key = task.first_key; key < task.end_key; key = work.task.end_key) {
    work.task.first_key = key;
    work.task.end_key = min((key / kAttentionSegment + 1) * kAttentionSegment, task.end_key);
    AttendPages<Element>(work, query, states + threadIdx.x / 32 * stride);
    __syncthreads();
    if (element < head_dim) {
      float max = states[head_dim];
      for (int warp = 1; warp < kAttentionWarps; ++warp) {
        max = fmaxf(max, states[static_cast<size_t>(warp) * stride + head_dim]);
      }
      const Merged state = MergeStates({states, stride, kAttentionWarps}, head_dim, element, max);
      if (task.first_partial < 0) {
        merged.Take(state);
      } else {
        float* const to = PartialAt(args, task.first_partial + key / kAttentionSegment, head);
        *reinterpret_cast<float4*>(to + element) = state.o;
        if (element == 0) *reinterpret_cast<float2*>(to + head_dim) = {max, state.sum};
      }
    }
    __syncthreads();  // no warp reads the states any more
  }
  if (task.first_partial < 0) {
    if (element < head_dim) StoreContext(args, task.row, head, element, merged.total);
    return;
  }
  const RowSegments segments = SegmentsOf(args, task.row);
  if (EndsRows(args, heads, segments.count, reinterpret_cast<int32_t*>(shared))) {
    MergePartialsInOrder<kAttentionThreads>(args, heads, segments);
  }
}

// Shared memory: [for EndTask][query, head_dim][warps][PartialStride(head_dim)].
constexpr int kQueryAt = (kTaskSharedBytes + 15) / 16 * 16;
static int SharedBytes(int head_dim) {
  return kQueryAt + (head_dim + kAttentionWarps * PartialStride(head_dim)) * 4;
}

template <class Element>
static __global__ void __launch_bounds__(kAttentionThreads)
    VectorAttentionKernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  WaitForPreviousKernel();
  LetNextKernelStart();
  const int head_dim = args.cache.head_dim;
  auto* const query = reinterpret_cast<float*>(shared_memory + kQueryAt);
  float* const states = query + head_dim;
  const int item = static_cast<int>(blockIdx.x) / args.heads;
  if (item >= args.work.counts[0]) return;
  const DecodeTask task = TaskAt(args, item);
  if (task.first_key >= task.end_key) return;
  const int head = static_cast<int>(blockIdx.x) % args.heads;
  const float* const from = args.queries.Row(task.row) + head * head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < head_dim; i += kAttentionThreads) {
    query[i] = from[i] * args.scale;
  }
  __syncthreads();
  const HeadWork work = {.task = task,
                         .kv_head = head / args.group,
                         .head_dim = head_dim,
                         .cache = args.cache,
                         .block_table = BlockTable(args.pass, task.row)};
  const size_t stride = static_cast<size_t>(PartialStride(head_dim));
  if (args.work.cut == AttentionCut::kAlike) {
    return AttendAlike<Element>(args, work, head, query, states, stride, shared_memory);
  }
  AttendPages<Element>(work, query, states + threadIdx.x / 32 * stride);
  EndTask(args, {task, head, 1}, states, stride, shared_memory);
}

template <class Element>
static void LaunchFor(const AttentionArgs& args, cudaStream_t stream) {
  Launch(VectorAttentionKernel<Element>,
         {.grid = static_cast<unsigned>(args.work.max_tasks * args.heads),
          .block = kAttentionThreads,
          .shared_bytes = static_cast<size_t>(SharedBytes(args.cache.head_dim)),
          .stream = stream,
          .may_start_early = true},
         args);
}

void LaunchVectorAttention(const AttentionArgs& args, cudaStream_t stream) {
  WithElement(args.cache.dtype, [&](auto element) { LaunchFor<decltype(element)>(args, stream); });
}

}  // namespace baton
