#include "common/backend/cuda/attention/attention_tile.h"
#include "common/backend/cuda/attention/decode_task.h"
#include "common/backend/cuda/attention/run_attention.h"
#include "common/backend/cuda/device/launch.h"
#include "ptx.h"

namespace baton {

// EndTask for several rows, whose states are [kAttentionWarps][rows * group, PartialStride].
static __device__ void EndRun(const AttentionArgs& args, const DecodeTask& task, int first_head,
                              const float* states, size_t warp_stride, uint8_t* shared) {
  __syncthreads();
  for (int i = 0; i < task.row_count; ++i) {
    MergeWarps(args, {RowOf(args, task, i), first_head, args.group},
               states + i * args.group * PartialStride(args.cache.head_dim), warp_stride);
  }
  if (task.first_partial < 0) return;
  const int segments = SegmentsOf(args, task).count;
  if (!EndsRows(args, {task, first_head, args.group}, segments,
                reinterpret_cast<int32_t*>(shared))) {
    return;
  }
  for (int i = 0; i < task.row_count; ++i) {
    const DecodeTask row = RowOf(args, task, i);
    // tests/planted_bugs: run_merges_the_first_rows_segments
    MergePartials(args, {row, first_head, args.group}, SegmentsOf(args, row.row),
                  reinterpret_cast<float*>(shared) + 4);
    __syncthreads();  // all have read the maxima of this row
  }
}

template <class Stored, int kHeadDim>
static __global__ void __launch_bounds__(kAttentionThreads)
    RunAttentionKernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  using Shape = DecodeShape<Stored, kHeadDim>;
  using Element = MatrixElement<Stored>;
  LetNextKernelStart();
  WaitForPreviousKernel();
  uint8_t* const end_shared = shared_memory + PageShape<kHeadDim>::kBytes;
  uint8_t* const warps = shared_memory + Shape::kWarpsAt;
  uint8_t* const own = warps + static_cast<int>(threadIdx.x) / 32 * Shape::kWarpBytes;
  const int item = static_cast<int>(blockIdx.x) / args.cache.kv_heads;
  if (item >= args.work.counts[0]) return;
  const DecodeTask task = TaskAt(args, item);
  if (task.first_key >= task.end_key) return;
  const int kv_head = static_cast<int>(blockIdx.x) % args.cache.kv_heads;
  const TaskPages pages = FindPages(args, task, kv_head);
  CopyFirstPage<Stored, kHeadDim>(args, pages, own);
  const PrefillTile tile = {task.row, task.row_count};
  StoreQueries<Element, kHeadDim, kKvPageTokens, Shape::kQueryLayout>(args, tile, kv_head,
                                                                      shared_memory);
  const TileWork work = {.tile = tile,
                         .kv_head = kv_head,
                         .first_position = args.pass.positions[task.row],
                         .first_key = task.first_key,
                         .end_key = task.end_key,
                         .block_table = nullptr};
  const WarpRows rows = FindRows<1>(args, work, 0);
  __syncthreads();
  TaskState<kHeadDim> state;
  ClearState(state);
  ForEachPage<Stored, kHeadDim>(
      args, pages, own, [](int, uint8_t*) {},
      [&](int first_key, const TaskTile<Stored, kHeadDim>& keys) {
        AttendTile(rows, first_key, shared_memory, keys, 0, state);
      });
  FoldSums(state);
  __syncwarp();
  StoreState<Stored>(state, rows.used, reinterpret_cast<float*>(own));
  EndRun(args, task, kv_head * args.group, reinterpret_cast<const float*>(warps),
         Shape::kWarpBytes / sizeof(float), end_shared);
}

void LaunchRunAttention(const AttentionArgs& args, cudaStream_t stream) {
  WithPageShape(args.cache, [&](auto stored, auto head_dim) {
    using Stored = decltype(stored);
    constexpr int kHeadDim = decltype(head_dim)::value;
    Launch(RunAttentionKernel<Stored, kHeadDim>,
           {.grid = static_cast<unsigned>(args.work.max_tasks * args.cache.kv_heads),
            .block = kAttentionThreads,
            .shared_bytes = DecodeShape<Stored, kHeadDim>::kSharedBytes,
            .stream = stream,
            .may_start_early = true},
           args);
  });
}

}  // namespace baton
