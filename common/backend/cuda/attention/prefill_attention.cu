#include "common/backend/cuda/attention/attention_tile.h"
#include "common/backend/cuda/attention/prefill_attention.h"
#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "ptx.h"

namespace baton {

// Shared memory: [queries][2 buffers][K, V][pages]. For a cache of codes there is one more
// [K, V][pages] behind the buffers, which takes the dequantised elements. A key tile is copied as a
// whole and multiplied in kSteps parts, each of as many keys as there are registers for scores.
template <class Stored_, int kHeadDim_, int kSteps_>
struct PrefillShape {
  using Stored = Stored_;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kSteps = kSteps_;
  static constexpr int kQueries = PrefillQueries(kHeadDim);
  static constexpr int kTiles = kQueries / 16 / kAttentionWarps;  // M tiles of a warp
  static constexpr int kStepPages = kHeadDim > 80 ? 2 : 4;        // pages of a part
  static constexpr int kStepKeys = kStepPages * kKvPageTokens;
  static constexpr int kPages = kSteps * kStepPages;  // pages of a key tile
  static constexpr int kKeys = kPages * kKvPageTokens;
  static constexpr int kPartBytes = kPages * PageShape<kHeadDim>::kBytes;  // K, or V, of a key tile
  static constexpr int kPageBytes = kCopiedPageBytes<Stored, kHeadDim>;
  static constexpr int kBufferBytes = 2 * kPages * kPageBytes;
  static constexpr int kBuffersAt = kQueries * PageShape<kHeadDim>::kRowBytes;
  static constexpr int kLastKeysAt =
      kBuffersAt + 2 * kBufferBytes + (kIsKvCode<Stored> ? 2 * kPartBytes : 0);
  static constexpr bool kParksLastKeys = kSteps > 1;  // there the registers do not suffice
  static constexpr int kSharedBytes = kLastKeysAt + (kParksLastKeys ? kQueries * 4 : 0);
  static_assert(kAttentionWarps % kPages == 0);  // CopyKeys gives each warp one page
};

template <class Shape>
using PrefillState = SoftmaxState<Shape::kTiles, Shape::kHeadDim, RowMax::kNear>;

// Where a page lies: found by divisions for the first key tile, by steps for the others.
struct PagePlace {
  const int32_t* entry;  // of the block table
  int token;             // in the block

  __device__ void Advance(const KvLayerView& cache, int keys) {
    for (token += keys; token >= cache.block_size; token -= cache.block_size) entry += cache.groups;
  }
};

static __device__ inline PagePlace PlaceOf(const KvLayerView& cache, const int32_t* block_table,
                                           int key) {
  return {block_table + cache.TableIndex(key), key % cache.block_size};
}

// The block of the page at `key`; of one behind the tile's keys, any.
static __device__ inline int32_t BlockAt(const TileWork& work, const PagePlace& place, int key) {
  return key < work.end_key ? *place.entry : 0;
}

// The first key of this warp's page, from the first of the tile on.
template <class Shape>
static __device__ int PageKey() {
  return static_cast<int>(threadIdx.x) / 32 % Shape::kPages * kKvPageTokens;
}

// Begins to copy this warp's page of a key tile to `buffer` [K, V][pages]. It has the keys from
// `key` on, and begins at `token` of block `block`.
template <class Shape>
static __device__ void CopyKeys(const AttentionArgs& args, const TileWork& work, int key,
                                int32_t block, int token, uint8_t* buffer) {
  using Stored = typename Shape::Stored;
  constexpr int kHeadDim = Shape::kHeadDim;
  constexpr int kPageWarps = kAttentionWarps / Shape::kPages;  // which share K and V of a page
  if (key < work.end_key) {
    const KvLayerView cache = WithConstants<Stored, kHeadDim>(args.cache);
    const HeadRows keys = KeysAt(cache, block, token, work.kv_head);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int page = warp % Shape::kPages;
#pragma unroll
    for (int i = 0; i < 2; i += kPageWarps) {
      const int part = warp / Shape::kPages + i;
      CopyPage<Stored, kHeadDim>(part == 0 ? keys : keys.Values(cache), 0, work.end_key - key,
                                 buffer + (part * Shape::kPages + page) * Shape::kPageBytes,
                                 static_cast<int>(threadIdx.x % 32));
    }
  }
  CommitCopies();
}

// The last keys of the warp's rows may wait in shared memory for the few tiles where they matter:
// this lane's, eight apart.
template <class Shape>
static __device__ int* LastKeys(const WarpRows<Shape::kTiles>& rows, uint8_t* shared) {
  return reinterpret_cast<int*>(shared + Shape::kLastKeysAt) + rows.first +
         static_cast<int>(threadIdx.x % 32) / 4;
}

template <class Shape>
static __device__ void ParkLastKeys(const WarpRows<Shape::kTiles>& rows, uint8_t* shared) {
  if constexpr (Shape::kParksLastKeys) {
    int* const last_keys = LastKeys<Shape>(rows, shared);
#pragma unroll
    for (int i = 0; i < Shape::kTiles * 2; ++i) last_keys[i * 8] = rows.last_key[i / 2][i % 2];
  }
}

template <class Shape>
static __device__ WarpRows<Shape::kTiles> WithLastKeys(WarpRows<Shape::kTiles> rows,
                                                       uint8_t* shared) {
  if constexpr (Shape::kParksLastKeys) {
    const int* const last_keys = LastKeys<Shape>(rows, shared);
#pragma unroll
    for (int i = 0; i < Shape::kTiles * 2; ++i) rows.last_key[i / 2][i % 2] = last_keys[i * 8];
  }
  return rows;
}

// Attends to a key tile in shared memory.
template <class Shape>
static __device__ void AttendSteps(const WarpRows<Shape::kTiles>& rows, int first_key,
                                   const uint8_t* queries, const uint8_t* keys, uint8_t* shared,
                                   PrefillState<Shape>& state) {
  using Element = MatrixElement<typename Shape::Stored>;
  constexpr int kHeadDim = Shape::kHeadDim;
  constexpr int kStepBytes = Shape::kStepPages * PageShape<kHeadDim>::kBytes;
  const uint8_t* const values = keys + Shape::kPartBytes;
  if (rows.AllSee(first_key, first_key + Shape::kKeys)) {
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      AttendKeys<Element, kHeadDim, Shape::kStepPages, true>(
          rows, first_key + step * Shape::kStepKeys, queries, keys + step * kStepBytes,
          values + step * kStepBytes, state);
    }
    return;
  }
  const WarpRows<Shape::kTiles> seeing = WithLastKeys<Shape>(rows, shared);
#pragma unroll 1
  for (int step = 0; step < Shape::kSteps; ++step) {
    const int first = first_key + step * Shape::kStepKeys;
    if (!rows.AnySees(first, first + Shape::kStepKeys)) continue;
    AttendKeys<Element, kHeadDim, Shape::kStepPages, false>(
        seeing, first, queries, keys + step * kStepBytes, values + step * kStepBytes, state);
  }
}

template <class Shape>
static __device__ void AttendTile(const AttentionArgs& args, const TileWork& work,
                                  const WarpRows<Shape::kTiles>& rows, uint8_t* shared,
                                  PrefillState<Shape>& state) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const uint8_t* const queries = shared + rows.first * PageShape<Shape::kHeadDim>::kRowBytes;
  uint8_t* const buffers = shared + Shape::kBuffersAt;
  int first_key = work.first_key / Shape::kKeys * Shape::kKeys;
  PagePlace place = PlaceOf(args.cache, work.block_table, first_key + PageKey<Shape>());
  CopyKeys<Shape>(args, work, first_key + PageKey<Shape>(),
                  BlockAt(work, place, first_key + PageKey<Shape>()), place.token, buffers);
  place.Advance(args.cache, Shape::kKeys);
  int32_t next_block = BlockAt(work, place, first_key + Shape::kKeys + PageKey<Shape>());
  for (int buffer = 0; first_key < work.end_key; first_key += Shape::kKeys, buffer ^= 1) {
    WaitForCopies<0>();
    __syncthreads();  // all warps have copied, and none reads the other buffer any more
    const int next = first_key + Shape::kKeys;
    if (next < work.end_key) {
      CopyKeys<Shape>(args, work, next + PageKey<Shape>(), next_block, place.token,
                      buffers + (buffer ^ 1) * Shape::kBufferBytes);
      place.Advance(args.cache, Shape::kKeys);
      next_block = BlockAt(work, place, next + Shape::kKeys + PageKey<Shape>());
    }
    const uint8_t* const keys =
        TakeTile<typename Shape::Stored, Shape::kHeadDim, Shape::kPages, kAttentionWarps>(
            warp, work.end_key - first_key, buffers + buffer * Shape::kBufferBytes,
            buffers + 2 * Shape::kBufferBytes);
    AttendSteps<Shape>(rows, first_key, queries, keys, shared, state);
  }
  FoldSums(state);
}

template <class Stored, int kHeadDim, int kSteps>
static __global__ void __launch_bounds__(kAttentionThreads)
    PrefillAttentionKernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  using Shape = PrefillShape<Stored, kHeadDim, kSteps>;
  WaitForPreviousKernel();
  LetNextKernelStart();
  const int item = static_cast<int>(blockIdx.x) / args.cache.kv_heads;
  if (item >= args.work.counts[1]) return;
  const TileWork work = TileAt(args, item);
  StoreQueries<MatrixElement<Stored>, kHeadDim>(args, work.tile, work.kv_head, Shape::kQueries,
                                                shared_memory);
  const WarpRows rows = FindRows<Shape::kTiles>(args, work, static_cast<int>(threadIdx.x) / 32);
  ParkLastKeys<Shape>(rows, shared_memory);
  PrefillState<Shape> state;
  ClearState(state);
  AttendTile<Shape>(args, work, rows, shared_memory, state);
  StoreContexts<kHeadDim>(args, work, rows, state, 0);
}

template <class Stored, int kHeadDim, int kSteps>
static void LaunchFor(const AttentionArgs& args, cudaStream_t stream) {
  Launch(PrefillAttentionKernel<Stored, kHeadDim, kSteps>,
         {.grid = static_cast<unsigned>(args.work.max_tiles * args.cache.kv_heads),
          .block = kAttentionThreads,
          .shared_bytes = PrefillShape<Stored, kHeadDim, kSteps>::kSharedBytes,
          .stream = stream,
          .may_start_early = true},
         args);
}

// Whether two blocks fit on a multiprocessor with so much shared memory each. Its memory is what a
// block may have and the 1 KB that the device keeps of each block.
static bool TwoFit(int shared_bytes) {
  return 2 * (shared_bytes + 1024) <= MostSharedBytes() + 1024;
}

void LaunchPrefillAttention(const AttentionArgs& args, cudaStream_t stream) {
  WithPageShape(args.cache, [&](auto stored, auto head_dim) {
    using Stored = decltype(stored);
    constexpr int kHeadDim = decltype(head_dim)::value;
    if constexpr (kHeadDim == 128) {
      if (TwoFit(PrefillShape<Stored, kHeadDim, 2>::kSharedBytes)) {
        return LaunchFor<Stored, kHeadDim, 2>(args, stream);
      }
    }
    LaunchFor<Stored, kHeadDim, 1>(args, stream);
  });
}

}  // namespace baton
