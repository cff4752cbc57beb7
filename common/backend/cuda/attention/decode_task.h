// A task of single rows' attention on the tensor cores (decode_attention.h), for the kernels that
// run one: its shared memory, the copies of its pages, and the state that each warp makes of them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "common/backend/cuda/attention/attention_pages.h"
#include "common/backend/cuda/attention/attention_partials.h"
#include "common/backend/cuda/attention/attention_softmax.h"
#include "common/backend/cuda/attention/code_tile.h"
#include "common/backend/cuda/attention/page_copies.h"
#include "common/backend/cuda/device/device.h"
#include "ptx.h"

namespace baton {

// Shared memory: [queries][for EndTask][warps][2 buffers][K, V page]. A warp's buffers later hold
// its states. For codes without a CodeTile a warp has one more [K, V page] behind its buffers, which
// takes the widened codes.
template <class Stored, int kHeadDim>
struct DecodeShape {
  static constexpr int kPageBytes = CopiedPage<Stored, kHeadDim>::kBytes;
  static constexpr int kBufferBytes = 2 * kPageBytes;
  static constexpr int kWarpBytes =
      2 * kBufferBytes +
      (kIsFloat<Stored> || kHasCodeTile<Stored, kHeadDim> ? 0 : 2 * PageShape<kHeadDim>::kBytes);
  static constexpr QueryLayout kQueryLayout =
      kHasCodeTile<Stored, kHeadDim> ? QueryLayout::kForCodes : QueryLayout::kPlain;
  static constexpr int kWarpsAt = PageShape<kHeadDim>::kBytes + (kTaskSharedBytes + 15) / 16 * 16;
  static constexpr int kSharedBytes = kWarpsAt + kAttentionWarps * kWarpBytes;
  static constexpr int kBlocks = kHeadDim > 128 ? 1 : 3;  // least blocks on a multiprocessor
  static_assert(kKvPageTokens * PartialStride(kHeadDim) * 4 <= kWarpBytes);
};

// A page of a task in the form for the tensor cores.
template <class Stored, int kHeadDim>
using TaskTile = std::conditional_t<kHasCodeTile<Stored, kHeadDim>, CodeTile<Stored, kHeadDim>,
                                    KeyTile<Stored, kHeadDim, 1>>;

// A task's pages: lane i holds the KV block of the i-th page. The first and the last page may have
// keys that are not the task's.
struct TaskPages {
  DecodeTask task;
  int first;  // the first page's first key
  int count;
  int end_copied;  // keys from here on are not in the cache
  int kv_head;
  int32_t block;
};

__device__ inline TaskPages FindPages(const AttentionArgs& args, const DecodeTask& task,
                                      int kv_head) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = task.first_key / kKvPageTokens * kKvPageTokens;
  const int key = min(first + lane * kKvPageTokens, task.end_key - 1);
  return {.task = task,
          .first = first,
          .count = (task.end_key - first + kKvPageTokens - 1) / kKvPageTokens,
          .end_copied = task.end_key,
          .kv_head = kv_head,
          .block = BlockTable(args.pass, task.row)[args.cache.TableIndex(key)]};
}

// Begins to copy keys and values of page `page` of the task to `buffer`.
template <class Stored, int kHeadDim>
__device__ void CopyTaskPage(const AttentionArgs& args, const TaskPages& pages, int page,
                             uint8_t* buffer) {
  const KvLayerView& cache = args.cache;
  const int key = pages.first + page * kKvPageTokens;
  const int32_t block = __shfl_sync(kAllLanes, pages.block, page);
  const HeadRows keys = KeysAt(cache, block, key % cache.block_size, pages.kv_head);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = pages.task.first_key - key;
  const int end = pages.end_copied - key;
  constexpr bool kCodes = kHasCodeTile<Stored, kHeadDim>;
  CopyPage<Stored, kHeadDim, kCodes>(keys, first, end, buffer, lane);
  CopyPage<Stored, kHeadDim, kCodes>(keys.Values(cache), first, end,
                                     buffer + DecodeShape<Stored, kHeadDim>::kPageBytes, lane);
  CommitCopies();
}

// Begins to copy this warp's first page, if it has one. `buffers` [2] of the warp.
template <class Stored, int kHeadDim>
__device__ void CopyFirstPage(const AttentionArgs& args, const TaskPages& pages, uint8_t* buffers) {
  const int page = static_cast<int>(threadIdx.x) / 32;
  if (page < pages.count) CopyTaskPage<Stored, kHeadDim>(args, pages, page, buffers);
}

// Calls attend(first key, TaskTile) for every fourth page of the task, from this warp's on. REQUIRES:
// CopyFirstPage. Calls complete(page, buffer) before, when the page has been copied.
template <class Stored, int kHeadDim, class Complete, class Attend>
__device__ void ForEachPage(const AttentionArgs& args, const TaskPages& pages, uint8_t* buffers,
                            const Complete& complete, const Attend& attend) {
  constexpr int kBufferBytes = DecodeShape<Stored, kHeadDim>::kBufferBytes;
  int page = static_cast<int>(threadIdx.x) / 32;
  for (int buffer = 0; page < pages.count; page += kAttentionWarps, buffer ^= 1) {
    WaitForCopies<0>();
    // tests/planted_bugs: kernel_page_before_its_lanes_copied
    __syncwarp();
    complete(page, buffers + buffer * kBufferBytes);
    const int next = page + kAttentionWarps;
    if (next < pages.count) {
      CopyTaskPage<Stored, kHeadDim>(args, pages, next, buffers + (buffer ^ 1) * kBufferBytes);
    }
    const int first_key = pages.first + page * kKvPageTokens;
    uint8_t* const copied = buffers + buffer * kBufferBytes;
    if constexpr (kHasCodeTile<Stored, kHeadDim>) {
      attend(first_key, CodeTile<Stored, kHeadDim>{copied});
    } else {
      attend(first_key, TakeTile<Stored, kHeadDim, 1, 1>(0, kKvPageTokens, copied,
                                                         buffers + 2 * kBufferBytes));
    }
  }
}

// The state of a task's rows.
template <int kHeadDim>
using TaskState = SoftmaxState<1, kHeadDim, RowMax::kNear>;

// Computes the state of a single row from every fourth page of its task. See ForEachPage.
template <class Stored, int kHeadDim, class Complete>
__device__ void AttendPages(const AttentionArgs& args, const TaskPages& pages,
                            const uint8_t* queries, uint8_t* buffers, const Complete& complete,
                            TaskState<kHeadDim>& state) {
  const DecodeTask& task = pages.task;
  ForEachPage<Stored, kHeadDim>(
      args, pages, buffers, complete, [&](int page_key, const TaskTile<Stored, kHeadDim>& tile) {
        float scores[1][1][2][4] = {};
        tile.ScoreKeys(queries, 1, scores);
        // tests/planted_bugs: kernel_last_page_taken_for_a_whole_one
        if (page_key < task.first_key || page_key + kKvPageTokens > task.end_key) {
          const int first_key = page_key + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const int key = first_key + i / 4 * 8 + i % 2;
            if (key < task.first_key || key >= task.end_key) scores[0][0][i / 4][i % 4] = -INFINITY;
          }
        }
        TakeScores(scores, state);
        if constexpr (kHasCodeTile<Stored, kHeadDim>) {
          // Keys that are not the task's have the scale 0.
          tile.AddValues(
              scores[0][0], [](int, int, int) { return true; }, state.inverse_unit[0], state.o[0]);
        } else {
          MultiplyValues<MatrixElement<Stored>, kHeadDim, 1, 1>(scores, tile.Values(0), 1, state.o);
        }
      });
  FoldSums(state);
}

// Stores rows [0, rows) of the state's M tile at `to`, as states of attention_partials.h.
template <class Stored, int kHeadDim>
__device__ void StoreState(const TaskState<kHeadDim>& state, int rows, float* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + r * 8;
    if (row >= rows) continue;
    float* const at = to + row * PartialStride(kHeadDim);
    [[maybe_unused]] float unit = 1;
    if constexpr (kHasCodeTile<Stored, kHeadDim>) {
      unit = 1 / state.inverse_unit[0][r];
    }
#pragma unroll
    for (int d = 0; d < kHeadDim / 8; d += 2) {
      const float(&even)[4] = state.o[0][d];
      const float(&odd)[4] = state.o[0][d + 1];
      if constexpr (kHasCodeTile<Stored, kHeadDim>) {
        *reinterpret_cast<float4*>(at + d * 8 + lane % 4 * 4) = {
            even[r * 2] * unit, odd[r * 2] * unit, even[r * 2 + 1] * unit, odd[r * 2 + 1] * unit};
      } else {
        *reinterpret_cast<float2*>(at + d * 8 + lane % 4 * 2) = {even[r * 2], even[r * 2 + 1]};
        *reinterpret_cast<float2*>(at + d * 8 + 8 + lane % 4 * 2) = {odd[r * 2], odd[r * 2 + 1]};
      }
    }
    if (lane % 4 == 0) {
      *reinterpret_cast<float2*>(at + kHeadDim) = {state.max[0][r], state.sum[0][r]};
    }
  }
}

}  // namespace baton
