#include "common/backend/cuda/attention/attention_tile.h"
#include "common/backend/cuda/attention/page_copies.h"
#include "common/backend/cuda/attention/prefill_attention.h"
#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "ptx.h"

namespace baton {

// Shared memory: [queries][2 buffers][K, V][pages]. For a cache of codes there is one more
// [K, V][pages] behind the buffers, which takes the widened codes.
template <class Stored, int kHeadDim>
struct PrefillShape {
  static constexpr int kQueries = PrefillQueries(kHeadDim);
  static constexpr int kTiles = kQueries / 16 / kAttentionWarps;  // M tiles of a warp
  static constexpr int kPages = kHeadDim > 80 ? 2 : 4;            // pages of a key tile
  static constexpr int kKeys = kPages * kKvPageTokens;
  static constexpr int kPartBytes = kPages * PageShape<kHeadDim>::kBytes;  // K, or V, of a key tile
  static constexpr int kPageBytes = CopiedPage<Stored, kHeadDim>::kBytes;
  static constexpr int kBufferBytes = 2 * kPages * kPageBytes;
  static constexpr int kBuffersAt = kQueries * PageShape<kHeadDim>::kRowBytes;
  static constexpr int kSharedBytes =
      kBuffersAt + 2 * kBufferBytes + (kIsFloat<Stored> ? 0 : 2 * kPartBytes);
  static_assert(kAttentionWarps % kPages == 0);  // CopyKeys gives each warp one page
};

template <class Stored, int kHeadDim>
using PrefillState = SoftmaxState<PrefillShape<Stored, kHeadDim>::kTiles, kHeadDim, RowMax::kNear>;

// Where this warp's page of a key tile lies: found by divisions for the first tile, by steps for
// the others.
struct PagePlace {
  int key;    // the page's first key
  int entry;  // index in the block table
  int token;  // in its block

  __device__ void Advance(const KvLayerView& cache, int keys) {
    key += keys;
    for (token += keys; token >= cache.block_size; token -= cache.block_size) entry += cache.groups;
  }
};

static __device__ inline PagePlace PlaceOf(const KvLayerView& cache, int key) {
  return {key, static_cast<int>(cache.TableIndex(key)), key % cache.block_size};
}

// The block of a page; of one behind the tile's keys, any.
static __device__ inline int32_t BlockAt(const TileWork& work, const PagePlace& place) {
  return place.key < work.end_key ? work.block_table[place.entry] : 0;
}

// Begins to copy this warp's page of a key tile, which is at `place` in block `block`, to `buffer`
// [K, V][pages].
template <class Stored, int kHeadDim>
static __device__ void CopyKeys(const AttentionArgs& args, const TileWork& work,
                                const PagePlace& place, int32_t block, uint8_t* buffer) {
  using Shape = PrefillShape<Stored, kHeadDim>;
  constexpr int kPageWarps = kAttentionWarps / Shape::kPages;  // warps that share K and V of a page
  if (place.key < work.end_key) {
    const KvLayerView cache = WithConstants<Stored, kHeadDim>(args.cache);
    const HeadRows keys = KeysAt(cache, block, place.token, work.kv_head);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int page = warp % Shape::kPages;
#pragma unroll
    for (int i = 0; i < 2; i += kPageWarps) {
      const int part = warp / Shape::kPages + i;
      CopyPage<Stored, kHeadDim>(part == 0 ? keys : keys.Values(cache), 0, work.end_key - place.key,
                                 buffer + (part * Shape::kPages + page) * Shape::kPageBytes,
                                 static_cast<int>(threadIdx.x % 32));
    }
  }
  CommitCopies();
}

template <class Stored, int kHeadDim>
static __device__ void AttendPrompt(const AttentionArgs& args, const TileWork& work,
                                    const WarpRows<PrefillShape<Stored, kHeadDim>::kTiles>& rows,
                                    uint8_t* shared, PrefillState<Stored, kHeadDim>& state) {
  using Shape = PrefillShape<Stored, kHeadDim>;
  using Element = MatrixElement<Stored>;
  const uint8_t* const queries = shared + rows.first * PageShape<kHeadDim>::kRowBytes;
  uint8_t* const buffers = shared + Shape::kBuffersAt;
  int first_key = work.first_key / Shape::kKeys * Shape::kKeys;
  const int page = static_cast<int>(threadIdx.x) / 32 % Shape::kPages;
  PagePlace place = PlaceOf(args.cache, first_key + page * kKvPageTokens);
  CopyKeys<Stored, kHeadDim>(args, work, place, BlockAt(work, place), buffers);
  // They come while the keys do.
  StoreQueries<Element, kHeadDim, Shape::kQueries>(args, work.tile, work.kv_head, shared);
  place.Advance(args.cache, Shape::kKeys);
  int32_t next_block = BlockAt(work, place);
  int buffer = 0;
  // tests/planted_bugs: kernel_key_buffers
  for (; first_key < work.end_key; first_key += Shape::kKeys) {
    WaitForCopies<0>();
    __syncthreads();  // all warps have copied, and none reads the other buffer any more
    const int next = first_key + Shape::kKeys;
    if (next < work.end_key) {
      CopyKeys<Stored, kHeadDim>(args, work, place, next_block,
                                 buffers + (buffer ^ 1) * Shape::kBufferBytes);
      place.Advance(args.cache, Shape::kKeys);
      next_block = BlockAt(work, place);
    }
    const auto tile = TakeTile<Stored, kHeadDim, Shape::kPages, kAttentionWarps>(
        static_cast<int>(threadIdx.x) / 32, work.end_key - first_key,
        buffers + buffer * Shape::kBufferBytes, buffers + 2 * Shape::kBufferBytes);
    AttendTile(rows, first_key, queries, tile, 0, state);
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
  const WarpRows rows = FindRows<Shape::kTiles>(args, work, static_cast<int>(threadIdx.x) / 32);
  PrefillState<Stored, kHeadDim> state;
  ClearState(state);
  AttendPrompt<Stored, kHeadDim>(args, work, rows, shared_memory, state);
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
