#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "common/backend/cuda/attention/attention_partials.h"
#include "common/backend/cuda/attention/attention_tile.h"
#include "common/backend/cuda/attention/page_copies.h"
#include "common/backend/cuda/attention/prefill_attention.h"
#include "common/backend/cuda/attention/segment_attention.h"
#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "ptx.h"

namespace baton {

// Shared memory: [queries][2 buffers][K, V][pages]. For a cache of codes there is one more
// [K, V][pages] behind the buffers, which takes the widened codes.
template <class Stored_, int kHeadDim, int kWarps_>
struct SegmentShape {
  using Stored = Stored_;
  using Element = MatrixElement<Stored>;
  static constexpr int kWarps = kWarps_;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kHalves = kHeadDim > 128 ? 2 : 1;  // warps for each M tile
  static constexpr int kColumns = kHeadDim / kHalves;     // columns of the values for each warp
  static constexpr int kQueries = kWarps / kHalves * 16;
  static constexpr int kPages = kHeadDim > 80 ? 2 : 4;  // pages of a key tile
  static constexpr int kKeys = kPages * kKvPageTokens;
  static constexpr int kPartBytes = kPages * PageShape<kHeadDim>::kBytes;  // K, or V, of a key tile
  static constexpr int kPageBytes = CopiedPage<Stored, kHeadDim>::kBytes;
  static constexpr int kBufferBytes = 2 * kPages * kPageBytes;
  static constexpr int kBuffersAt = kQueries * PageShape<kHeadDim>::kRowBytes;
  static constexpr int kSharedBytes =
      kBuffersAt + 2 * kBufferBytes + (kIsFloat<Stored> ? 0 : 2 * kPartBytes);
  static_assert(kAttentionSegment % kKeys == 0 && kAttentionSegment / kKvPageTokens <= 32);
};

template <class Shape>
static __device__ void MeetAll() {
  if constexpr (Shape::kWarps == 1) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

// The KV block of this lane's page: lane i has the i-th page of the segment at `first_key`.
static __device__ inline int32_t FindBlocks(const AttentionArgs& args, const TileWork& work,
                                            int first_key) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int key = min(first_key + lane * kKvPageTokens, work.end_key - 1);
  return work.block_table[args.cache.TableIndex(key)];
}

// Begins to copy the key tile at `first_key` to `buffer` [K, V][pages]. `blocks` is FindBlocks of
// the tile's segment.
template <class Shape, int kHeadDim>
static __device__ void CopyTile(const AttentionArgs& args, const TileWork& work, int first_key,
                                int32_t blocks, uint8_t* buffer) {
  const KvLayerView& cache = args.cache;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x) / 32; i < 2 * Shape::kPages; i += Shape::kWarps) {
    const int page = i % Shape::kPages;
    const int part = i / Shape::kPages;
    const int key = first_key + page * kKvPageTokens;
    const int32_t block = __shfl_sync(kAllLanes, blocks, key % kAttentionSegment / kKvPageTokens);
    if (key >= work.end_key) continue;
    const HeadRows keys = KeysAt(cache, block, key % cache.block_size, work.kv_head);
    CopyPage<typename Shape::Stored, kHeadDim>(part == 0 ? keys : keys.Values(cache), 0,
                                               work.end_key - key, buffer + i * Shape::kPageBytes,
                                               lane);
  }
  CommitCopies();
}

// Merges `segment` into `total`, for the rows that see one of its keys.
template <int kColumns>
static __device__ void MergeSegment(const WarpRows<1>& rows, int first_key,
                                    const SoftmaxState<1, kColumns>& segment,
                                    SoftmaxState<1, kColumns>& total) {
  bool sees[2];
  MergeScales scales[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int last_key = rows.last_key[0][r];
    sees[r] = last_key >= first_key && last_key + 1 - rows.window < first_key + kAttentionSegment;
    scales[r] = ScalesFor(total.max[0][r], segment.max[0][r]);
    if (!sees[r]) continue;
    total.max[0][r] = scales[r].max;
    total.sum[0][r] = MergeValue(scales[r], total.sum[0][r], segment.sum[0][r]);
  }
  // Each sum is selected: with a branch around all of a row the compiler moves and spills registers
  // in the loop over keys.
#pragma unroll
  for (int d = 0; d < kColumns / 8; ++d) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float merged = MergeValue(scales[i / 2], total.o[0][d][i], segment.o[0][d][i]);
      // tests/planted_bugs: kernel_segment_merged_into_rows_that_see_none
      if (sees[i / 2]) total.o[0][d][i] = merged;
    }
  }
}

// The first column of the values that this warp sums.
template <class Shape>
static __device__ int FirstColumn() {
  return static_cast<int>(threadIdx.x) / 32 % Shape::kHalves * Shape::kColumns;
}

// Attends to keys [work.first_key, work.end_key). After each segment it calls end_segment(the
// segment's first key, state). kSingle: all keys are of one segment.
template <class Shape, int kHeadDim, bool kSingle, class EndSegment>
static __device__ void AttendSegments(const AttentionArgs& args, const TileWork& work,
                                      const WarpRows<1>& rows, uint8_t* shared,
                                      const EndSegment& end_segment) {
  const uint8_t* const queries = shared + rows.first * PageShape<kHeadDim>::kRowBytes;
  const int first_column = FirstColumn<Shape>();
  uint8_t* const buffers = shared + Shape::kBuffersAt;
  const int first_segment = work.first_key / kAttentionSegment * kAttentionSegment;
  int first_key = work.first_key / Shape::kKeys * Shape::kKeys;
  int32_t blocks = FindBlocks(args, work, first_segment);
  [[maybe_unused]] int32_t next_blocks =
      kSingle ? 0 : FindBlocks(args, work, first_segment + kAttentionSegment);
  CopyTile<Shape, kHeadDim>(args, work, first_key, blocks, buffers);
  SoftmaxState<1, Shape::kColumns> state;
  ClearState(state);
  for (int buffer = 0; first_key < work.end_key; first_key += Shape::kKeys, buffer ^= 1) {
    WaitForCopies<0>();
    MeetAll<Shape>();  // all warps have copied, and none reads the other buffer any more
    const int next = first_key + Shape::kKeys;
    if (!kSingle && next % kAttentionSegment == 0) {
      blocks = next_blocks;
      next_blocks = FindBlocks(args, work, next + kAttentionSegment);
    }
    if (next < work.end_key) {
      CopyTile<Shape, kHeadDim>(args, work, next, blocks,
                                buffers + (buffer ^ 1) * Shape::kBufferBytes);
    }
    const auto tile = TakeTile<typename Shape::Stored, kHeadDim, Shape::kPages, Shape::kWarps>(
        static_cast<int>(threadIdx.x) / 32, work.end_key - first_key,
        buffers + buffer * Shape::kBufferBytes, buffers + 2 * Shape::kBufferBytes);
    AttendTile(rows, first_key, queries, tile, first_column, state);
    if (!kSingle && (next % kAttentionSegment == 0 || next >= work.end_key)) {
      FoldSums(state);
      end_segment(first_key / kAttentionSegment * kAttentionSegment, state);
      ClearState(state);
    }
  }
  if (kSingle) {
    FoldSums(state);
    end_segment(first_segment, state);
  }
}

// --- Tiles: sequences of several rows.

template <class Shape, int kHeadDim>
static __global__ void __launch_bounds__(Shape::kThreads)
    SegmentTileKernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  WaitForPreviousKernel();
  LetNextKernelStart();
  const int item = static_cast<int>(blockIdx.x) / args.cache.kv_heads;
  if (item >= args.work.counts[1]) return;
  const TileWork work = TileAt(args, item);
  StoreQueries<typename Shape::Element, kHeadDim, Shape::kQueries, QueryLayout::kPlain,
               Shape::kThreads>(args, work.tile, work.kv_head, shared_memory);
  const WarpRows rows =
      FindRows<1>(args, work, static_cast<int>(threadIdx.x) / 32 / Shape::kHalves);
  SoftmaxState<1, Shape::kColumns> total;
  ClearState(total);
  AttendSegments<Shape, kHeadDim, /*kSingle=*/false>(
      args, work, rows, shared_memory,
      [&](int first_key, const SoftmaxState<1, Shape::kColumns>& segment) {
        MergeSegment(rows, first_key, segment, total);
      });
  StoreContexts<kHeadDim>(args, work, rows, total, FirstColumn<Shape>());
}

// --- Tasks: segments of single rows, or of a few rows of a run.

// Stores the states of the rows' heads, from `first_head` on, as partial results.
template <class Shape, int kHeadDim>
static __device__ void StorePartials(const AttentionArgs& args, const DecodeTask& task,
                                     int first_head, int used,
                                     const SoftmaxState<1, Shape::kColumns>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_column = FirstColumn<Shape>();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = r * 8 + lane / 4;
    if (query >= used) continue;
    // tests/planted_bugs: kernel_run_rows_share_a_partial
    const int partial =
        RowOf(args, task, query / args.group).first_partial + task.first_key / kAttentionSegment;
    float* const to = PartialAt(args, partial, first_head + query % args.group);
#pragma unroll
    for (int d = 0; d < Shape::kColumns / 8; ++d) {
      *reinterpret_cast<float2*>(to + first_column + d * 8 + lane % 4 * 2) = {
          state.o[0][d][r * 2], state.o[0][d][r * 2 + 1]};
    }
    if (lane % 4 == 0 && first_column == 0) {
      *reinterpret_cast<float2*>(to + kHeadDim) = {state.max[0][r], state.sum[0][r]};
    }
  }
}

template <class Shape, int kHeadDim>
static __global__ void __launch_bounds__(Shape::kThreads)
    SegmentTaskKernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  WaitForPreviousKernel();
  LetNextKernelStart();
  const int item = static_cast<int>(blockIdx.x) / args.cache.kv_heads;
  if (item >= args.work.counts[0]) return;
  const DecodeTask task = TaskAt(args, item);
  if (task.first_key >= task.end_key) return;
  const TileWork work = {.tile = {task.row, task.row_count},
                         .kv_head = static_cast<int>(blockIdx.x) % args.cache.kv_heads,
                         .first_position = args.pass.positions[task.row],
                         .first_key = task.first_key,
                         .end_key = task.end_key,
                         .block_table = BlockTable(args.pass, task.row)};
  const int first_head = work.kv_head * args.group;
  StoreQueries<typename Shape::Element, kHeadDim, kKvPageTokens, QueryLayout::kPlain,
               Shape::kThreads>(args, work.tile, work.kv_head, shared_memory);
  const WarpRows rows = FindRows<1>(args, work, 0);
  AttendSegments<Shape, kHeadDim, /*kSingle=*/true>(
      args, work, rows, shared_memory,
      [&](int first_key, const SoftmaxState<1, Shape::kColumns>& segment) {
        if (task.first_partial >= 0) {
          return StorePartials<Shape, kHeadDim>(args, task, first_head, rows.used, segment);
        }
        SoftmaxState<1, Shape::kColumns> total;
        ClearState(total);
        MergeSegment(rows, first_key, segment, total);
        StoreContexts<kHeadDim>(args, work, rows, total, FirstColumn<Shape>());
      });
  if (task.first_partial < 0) return;
  const int segments = SegmentsOf(args, task).count;
  if (!EndsRows(args, {task, first_head, args.group}, segments,
                reinterpret_cast<int32_t*>(shared_memory))) {
    return;
  }
  for (int i = 0; i < task.row_count; ++i) {
    const DecodeTask row = RowOf(args, task, i);
    MergePartialsInOrder<Shape::kThreads>(args, {row, first_head, args.group},
                                          SegmentsOf(args, row.row));
  }
}

template <class Shape>
static LaunchOptions OptionsFor(int items, const AttentionArgs& args, cudaStream_t stream) {
  return {.grid = static_cast<unsigned>(items * args.cache.kv_heads),
          .block = Shape::kThreads,
          .shared_bytes = Shape::kSharedBytes,
          .stream = stream,
          .may_start_early = true};
}

void LaunchSegmentTiles(const AttentionArgs& args, cudaStream_t stream) {
  WithPageShape(args.cache, [&](auto stored, auto head_dim) {
    constexpr int kHeadDim = decltype(head_dim)::value;
    using Shape = SegmentShape<decltype(stored), kHeadDim, 8>;
    static_assert(Shape::kQueries == PrefillQueries(kHeadDim), "tiles are planned for these");
    Launch(SegmentTileKernel<Shape, kHeadDim>, OptionsFor<Shape>(args.work.max_tiles, args, stream),
           args);
  });
}

void LaunchSegmentTasks(const AttentionArgs& args, cudaStream_t stream) {
  WithPageShape(args.cache, [&](auto stored, auto head_dim) {
    using Stored = decltype(stored);
    constexpr int kHeadDim = decltype(head_dim)::value;
    using Shape = SegmentShape<Stored, kHeadDim, SegmentShape<Stored, kHeadDim, 2>::kHalves>;
    Launch(SegmentTaskKernel<Shape, kHeadDim>, OptionsFor<Shape>(args.work.max_tasks, args, stream),
           args);
  });
}

}  // namespace baton
