#include "common/backend/cuda/attention/decode_attention.h"
#include "common/backend/cuda/attention/decode_task.h"
#include "common/backend/cuda/device/launch.h"
#include "ptx.h"

namespace baton {

template <class Stored, int kHeadDim>
static __global__ void __launch_bounds__(kAttentionThreads, DecodeShape<Stored, kHeadDim>::kBlocks)
    DecodeAttentionKernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  using Shape = DecodeShape<Stored, kHeadDim>;
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
  StoreQueries<MatrixElement<Stored>, kHeadDim, kKvPageTokens, Shape::kQueryLayout>(
      args, {task.row, 1}, kv_head, shared_memory);
  // tests/planted_bugs: kernel_queries_before_the_barrier
  __syncthreads();
  TaskState<kHeadDim> state;
  ClearState(state);
  AttendPages<Stored, kHeadDim>(
      args, pages, shared_memory, own, [](int, uint8_t*) {}, state);
  __syncwarp();
  StoreState<Stored>(state, args.group, reinterpret_cast<float*>(own));
  EndTask(args, {task, kv_head * args.group, args.group}, reinterpret_cast<const float*>(warps),
          Shape::kWarpBytes / sizeof(float), end_shared);
}

template <class Stored, int kHeadDim>
static void LaunchFor(const AttentionArgs& args, cudaStream_t stream) {
  Launch(DecodeAttentionKernel<Stored, kHeadDim>,
         {.grid = static_cast<unsigned>(args.work.max_tasks * args.cache.kv_heads),
          .block = kAttentionThreads,
          .shared_bytes = DecodeShape<Stored, kHeadDim>::kSharedBytes,
          .stream = stream,
          .may_start_early = true},
         args);
}

bool DecodeAttentionTakes(const KvLayerView& cache, int group) {
  bool fits = false;
  WithPageShape(cache, [&](auto stored, auto head_dim) {
    fits =
        DecodeShape<decltype(stored), decltype(head_dim)::value>::kSharedBytes <= MostSharedBytes();
  });
  return group <= kMaxTaskHeads && fits;
}

void LaunchDecodeAttention(const AttentionArgs& args, cudaStream_t stream) {
  WithPageShape(args.cache, [&](auto stored, auto head_dim) {
    LaunchFor<decltype(stored), decltype(head_dim)::value>(args, stream);
  });
}

}  // namespace baton
