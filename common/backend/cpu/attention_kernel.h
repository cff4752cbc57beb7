// The computation of attention.h. Included by the sources of the kernel tables only (kernels.h).
#pragma once

#include "common/backend/cpu/attention.h"
#include "common/backend/cpu/kv_element.h"
#include "common/backend/cpu/lanes.h"
#include "common/backend/exact_math.h"

namespace baton {

template <class Simd>
struct AttentionKernel {
  [[gnu::always_inline]] static int Least(int a, int b) { return a < b ? a : b; }

  // Running softmax of one query: [head_dim] sums, then maximum and denominator.
  [[gnu::always_inline]] static inline float* State(const AttentionArgs& args, int query) {
    return args.states + static_cast<size_t>(query) * static_cast<size_t>(args.cache.head_dim + 2);
  }

  // The K and V rows of one page, at this task's head; the rows of its tokens follow at `stride`
  // bytes.
  struct PageRows {
    const uint8_t* keys;
    const uint8_t* values;
    size_t stride;
  };
  [[gnu::always_inline]] static inline PageRows PageAt(const AttentionArgs& args, int position) {
    const KvLayerView& cache = args.cache;
    const size_t head_offset = static_cast<size_t>(args.task.kv_head) *
                               static_cast<size_t>(cache.head_dim) * cache.element_bytes();
    const int32_t block = args.task.sequence->block_table[position / cache.block_size];
    const int token = position % cache.block_size;
    return {cache.KeyRow(block, token) + head_offset, cache.ValueRow(block, token) + head_offset,
            cache.row_bytes()};
  }

  // A head's rows lie apart, where no hardware prefetcher follows in time.
  [[gnu::always_inline]] static inline void Prefetch(const AttentionArgs& args,
                                                     const PageRows& page, int count) {
    constexpr size_t kCacheLine = 64;
    const size_t bytes = static_cast<size_t>(args.cache.head_dim) * args.cache.element_bytes();
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      for (size_t byte = 0; byte < bytes; byte += kCacheLine) {
        __builtin_prefetch(page.keys + i * page.stride + byte);
        __builtin_prefetch(page.values + i * page.stride + byte);
      }
    }
  }

  // K, by dimension, and V of positions [start, start + count) into the scratch.
  [[gnu::always_inline]] static inline void WidenSegment(const AttentionArgs& args, int start,
                                                         int count) {
    const KvDtype dtype = args.cache.dtype;
    const int head_dim = args.cache.head_dim;
    alignas(64) float key[kMaxHeadDim];
    PageRows page = PageAt(args, start);
    Prefetch(args, page, Least(kPage, count));
    for (int first = 0; first < count; first += kPage) {
      const PageRows rows = page;
      if (first + kPage < count) {
        page = PageAt(args, start + first + kPage);
        Prefetch(args, page, Least(kPage, count - first - kPage));
      }
      for (int i = first; i < Least(first + kPage, count); ++i) {
        const size_t offset = static_cast<size_t>(i - first) * rows.stride;
        WidenKvRow(dtype, rows.keys + offset, head_dim, key);
        float* column = args.keys + i;
        for (int d = 0; d < head_dim; ++d) column[d * kKeyStride] = key[d];
        WidenKvRow(dtype, rows.values + offset, head_dim, args.values + i * head_dim);
      }
    }
  }

  // The products of the query with 16 keys; `keys` [head_dim, stride] from the first of them on.
  // Here vectors hold keys: partial[j] is lane j of each key's product, and the fold adds whole
  // vectors.
  [[gnu::always_inline]] static inline void ScoreKeys(const float* query, const float* keys,
                                                      int head_dim, float scale, float* scores) {
    Lanes partial[kLanes];
    for (int j = 0; j < kLanes; ++j) {
      Lanes sum = ZeroLanes();
      for (int d = j; d < head_dim; d += kLanes) {
        FusedAddScaled(keys + d * kKeyStride, query[d], sum);
      }
      partial[j] = sum;
    }
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) {
        for (int l = 0; l < kLanes; ++l) partial[j].v[l] += partial[j + width].v[l];
      }
    }
    for (int l = 0; l < kLanes; ++l) scores[l] = partial[0].v[l] * scale;
  }

  // Turns scores [count] into their exponentials, and returns the maximum and the sum of those.
  struct Softmax {
    float max;
    float sum;
  };
  [[gnu::always_inline]] static inline Softmax Exponentials(float* scores, int count) {
    float max = scores[0];
    for (int i = 1; i < count; ++i) max = scores[i] > max ? scores[i] : max;
    for (int i = 0; i < count; ++i) scores[i] = ExpF(scores[i] - max);
    Lanes sums = ZeroLanes();
    int i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) sums.v[l] += scores[i + l];
    }
    for (int l = 0; i + l < count; ++l) sums.v[l] += scores[i + l];
    return {max, FoldLanes(sums)};
  }

  // out[d] = the sum over i of weights[i] * values[i][d], for Columns columns.
  template <int Columns>
  [[gnu::always_inline]] static inline void WeightedSum(const float* weights, int count,
                                                        const float* values, int stride,
                                                        float* out) {
    Lanes sums[Columns / kLanes];
    for (Lanes& lanes : sums) lanes = ZeroLanes();
    for (int i = 0; i < count; ++i) {
      const float* row = values + static_cast<size_t>(i) * static_cast<size_t>(stride);
      for (int s = 0; s < Columns / kLanes; ++s) {
        FusedAddScaled(row + s * kLanes, weights[i], sums[s]);
      }
    }
    std::memcpy(out, sums, sizeof(sums));
  }

  // Merges a segment's softmax into the state.
  [[gnu::always_inline]] static inline void Merge(const Softmax& segment, const float* sums,
                                                  int head_dim, bool first, float* state) {
    if (first) {
      std::memcpy(state, sums, static_cast<size_t>(head_dim) * sizeof(float));
      state[head_dim] = segment.max;
      state[head_dim + 1] = segment.sum;
      return;
    }
    const float max = segment.max > state[head_dim] ? segment.max : state[head_dim];
    const float old_scale = ExpF(state[head_dim] - max);
    const float new_scale = ExpF(segment.max - max);
    for (int d = 0; d < head_dim; ++d) {
      state[d] = __builtin_fmaf(sums[d], new_scale, state[d] * old_scale);
    }
    state[head_dim + 1] = __builtin_fmaf(segment.sum, new_scale, state[head_dim + 1] * old_scale);
    state[head_dim] = max;
  }

  // One query against the `count` keys of a segment.
  [[gnu::always_inline]] static inline void AttendSegment(const AttentionArgs& args,
                                                          const float* query, int count, bool first,
                                                          float* state) {
    const int head_dim = args.cache.head_dim;
    const float* keys = args.keys;
    const float* values = args.values;
    const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(head_dim));
    alignas(64) float scores[kSegment];
    for (int i = 0; i < count; i += kLanes) {  // scores past `count` are never read
      ScoreKeys(query, keys + i, head_dim, scale, scores + i);
    }
    const Softmax segment = Exponentials(scores, count);
    alignas(64) float sums[kMaxHeadDim];
    int d = 0;
    for (; d + kSlice <= head_dim; d += kSlice) {
      WeightedSum<kSlice>(scores, count, values + d, head_dim, sums + d);
    }
    for (; d < head_dim; d += kLanes) {
      WeightedSum<kLanes>(scores, count, values + d, head_dim, sums + d);
    }
    Merge(segment, sums, head_dim, first, state);
  }

  static void Run(const AttentionArgs& args) {
    const AttentionTask& task = args.task;
    const int head_dim = args.cache.head_dim;
    const int group = args.queries.columns / head_dim / args.cache.kv_heads;
    const int first_position =
        task.sequence->first_position + task.first_row - task.sequence->first_row;
    const int end = first_position + task.row_count;  // past the last row's position
    for (int start = 0; start < end; start += kSegment) {
      WidenSegment(args, start, Least(kSegment, end - start));
      for (int query = 0; query < task.row_count * group; ++query) {
        const int row = query / group;
        const int count = Least(kSegment, first_position + row + 1 - start);
        if (count <= 0) continue;
        const int head = task.kv_head * group + query % group;
        AttendSegment(args, args.queries.Row(task.first_row + row) + head * head_dim, count,
                      start == 0, State(args, query));
      }
    }
    for (int query = 0; query < task.row_count * group; ++query) {
      const int head = task.kv_head * group + query % group;
      float* out = args.out.Row(task.first_row + query / group) + head * head_dim;
      const float* state = State(args, query);
      for (int d = 0; d < head_dim; ++d) out[d] = state[d] / state[head_dim + 1];
    }
  }
};

}  // namespace baton
