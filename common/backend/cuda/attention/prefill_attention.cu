#include "common/backend/cuda/attention/attention_tile.h"
#include "common/backend/cuda/attention/prefill_attention.h"
#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "ptx.h"

namespace baton {

// Shared memory: [queries][2 buffers][K, V][pages]. For a cache of codes there is one more
// [K, V][pages] behind the buffers, which takes the dequantised elements.
template <class Stored, int kHeadDim>
struct PrefillShape {
  static constexpr int kQueries = PrefillQueries(kHeadDim);
  static constexpr int kTiles = kQueries / 16 / kAttentionWarps;  // M tiles of a warp
  static constexpr int kPages = kHeadDim > 80 ? 2 : 4;            // pages of a key tile
  static constexpr int kKeys = kPages * kKvPageTokens;
  static constexpr int kPartBytes = kPages * PageShape<kHeadDim>::kBytes;  // K, or V, of a key tile
  static constexpr int kPageBytes = kCopiedPageBytes<Stored, kHeadDim>;
  static constexpr int kBufferBytes = 2 * kPages * kPageBytes;
  static constexpr int kBuffersAt = kQueries * PageShape<kHeadDim>::kRowBytes;
  static constexpr int kSharedBytes =
      kBuffersAt + 2 * kBufferBytes + (kIsKvCode<Stored> ? 2 * kPartBytes : 0);
  static_assert(kAttentionWarps % kPages == 0);  // CopyKeys gives each warp one page
};

template <class Stored, int kHeadDim>
using PrefillState = SoftmaxState<PrefillShape<Stored, kHeadDim>::kTiles, kHeadDim, RowMax::kNear>;

// The block that has this warp's page of the key tile at `first_key`.
template <int kPages>
static __device__ int32_t FindBlock(const AttentionArgs& args, const TileWork& work,
                                    int first_key) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int key = first_key + warp % kPages * kKvPageTokens;
  return key < work.end_key ? work.block_table[args.cache.TableIndex(key)] : 0;
}

// Begins to copy the key tile at `first_key` to `buffer` [K, V][pages]. `block` is from FindBlock.
template <class Stored, int kHeadDim>
static __device__ void CopyKeys(const AttentionArgs& args, const TileWork& work, int first_key,
                                int32_t block, uint8_t* buffer) {
  using Shape = PrefillShape<Stored, kHeadDim>;
  const KvLayerView& cache = args.cache;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int page = warp % Shape::kPages;
  const int key = first_key + page * kKvPageTokens;
  if (key < work.end_key) {
    const HeadRows keys = KeysAt(cache, block, key % cache.block_size, work.kv_head);
#pragma unroll
    for (int part = warp / Shape::kPages; part < 2; part += kAttentionWarps / Shape::kPages) {
      CopyPage<Stored, kHeadDim>(part == 0 ? keys : keys.Values(cache), 0, work.end_key - key,
                                 buffer + (part * Shape::kPages + page) * Shape::kPageBytes,
                                 static_cast<int>(threadIdx.x) % 32);
    }
  }
  CommitCopies();
}

template <class Stored, int kHeadDim>
static __device__ void AttendTile(const AttentionArgs& args, const TileWork& work,
                                  const WarpRows<PrefillShape<Stored, kHeadDim>::kTiles>& rows,
                                  uint8_t* shared, PrefillState<Stored, kHeadDim>& state) {
  using Shape = PrefillShape<Stored, kHeadDim>;
  using Element = MatrixElement<Stored>;
  const uint8_t* const queries = shared + rows.first * PageShape<kHeadDim>::kRowBytes;
  uint8_t* const buffers = shared + Shape::kBuffersAt;
  int first_key = work.first_key / Shape::kKeys * Shape::kKeys;
  CopyKeys<Stored, kHeadDim>(args, work, first_key, FindBlock<Shape::kPages>(args, work, first_key),
                             buffers);
  int32_t next_block = FindBlock<Shape::kPages>(args, work, first_key + Shape::kKeys);
  int buffer = 0;
  for (; first_key < work.end_key; first_key += Shape::kKeys) {
    WaitForCopies<0>();
    __syncthreads();  // all warps have copied, and none reads the other buffer any more
    const int next = first_key + Shape::kKeys;
    if (next < work.end_key) {
      CopyKeys<Stored, kHeadDim>(args, work, next, next_block,
                                 buffers + (buffer ^ 1) * Shape::kBufferBytes);
      next_block = FindBlock<Shape::kPages>(args, work, next + Shape::kKeys);
    }
    const uint8_t* const keys = TakeTile<Stored, kHeadDim, Shape::kPages, kAttentionWarps>(
        static_cast<int>(threadIdx.x) / 32, work.end_key - first_key,
        buffers + buffer * Shape::kBufferBytes, buffers + 2 * Shape::kBufferBytes);
    const uint8_t* const values = keys + Shape::kPartBytes;
    if (rows.AllSee(first_key, next)) {
      AttendKeys<Element, kHeadDim, Shape::kPages, true>(rows, first_key, queries, keys, values,
                                                         state);
    } else if (rows.AnySees(first_key, next)) {
      AttendKeys<Element, kHeadDim, Shape::kPages, false>(rows, first_key, queries, keys, values,
                                                          state);
    }
    buffer ^= 1;
  }
  FoldSums(state);
}

template <class Stored, int kHeadDim>
static __global__ void __launch_bounds__(kAttentionThreads)
    PrefillAttentionKernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  using Shape = PrefillShape<Stored, kHeadDim>;
  WaitForPreviousKernel();
  LetNextKernelStart();
  const int item = static_cast<int>(blockIdx.x) / args.cache.kv_heads;
  if (item >= args.work.counts[1]) return;
  const TileWork work = TileAt(args, item);
  StoreQueries<MatrixElement<Stored>, kHeadDim>(args, work.tile, work.kv_head, Shape::kQueries,
                                                shared_memory);
  const WarpRows rows = FindRows<Shape::kTiles>(args, work, static_cast<int>(threadIdx.x) / 32);
  PrefillState<Stored, kHeadDim> state;
  ClearState(state);
  AttendTile<Stored, kHeadDim>(args, work, rows, shared_memory, state);
  StoreContexts<kHeadDim>(args, work, rows, state, 0);
}

template <class Stored, int kHeadDim>
static void LaunchFor(const AttentionArgs& args, cudaStream_t stream) {
  Launch(PrefillAttentionKernel<Stored, kHeadDim>,
         {.grid = static_cast<unsigned>(args.work.max_tiles * args.cache.kv_heads),
          .block = kAttentionThreads,
          .shared_bytes = PrefillShape<Stored, kHeadDim>::kSharedBytes,
          .stream = stream,
          .may_start_early = true},
         args);
}

void LaunchPrefillAttention(const AttentionArgs& args, cudaStream_t stream) {
  WithPageShape(args.cache, [&](auto stored, auto head_dim) {
    LaunchFor<decltype(stored), decltype(head_dim)::value>(args, stream);
  });
}

}  // namespace baton
