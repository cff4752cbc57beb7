#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "common/backend/cuda/attention_pages.h"
#include "common/backend/cuda/attention_softmax.h"
#include "common/backend/cuda/device.h"
#include "common/backend/cuda/launch.h"
#include "common/backend/cuda/prefill_attention.h"
#include "ptx.h"

namespace baton {

// Shared memory: [queries][2 buffers][K, V][pages].
template <int kHeadDim>
struct PrefillShape {
  static constexpr int kQueries = PrefillQueries(kHeadDim);
  static constexpr int kTiles = kQueries / 16 / kAttentionWarps;  // M tiles of a warp
  static constexpr int kPages = kHeadDim > 80 ? 2 : 4;            // of a key tile
  static constexpr int kKeys = kPages * kAttentionPage;
  static constexpr int kPartBytes = kPages * PageShape<kHeadDim>::kBytes;
  static constexpr int kBuffersAt = kQueries * PageShape<kHeadDim>::kRowBytes;
  static constexpr int kSharedBytes = kBuffersAt + 4 * kPartBytes;
  static_assert(kAttentionWarps % kPages == 0);  // CopyKeys
};

// A block's work.
struct TileWork {
  PrefillTile tile;
  int kv_head;
  int first_position;  // of the tile's first row
  int end_key;         // of its last row
  const int32_t* block_table;
};

// A warp's share of it: its first row of the M tiles, and the keys that its rows see.
template <int kTiles>
struct WarpRows {
  int first;
  int used;     // 0 to kTiles * 16
  int all_end;  // keys before this are seen by all rows
  int end_key;  // keys from here on by none
  int last_key[kTiles][2];
};

template <int kTiles>
static __device__ WarpRows<kTiles> FindRows(const AttentionArgs& args, const TileWork& work) {
  WarpRows<kTiles> rows;
  rows.first = static_cast<int>(threadIdx.x) / 32 * kTiles * 16;
  rows.used = max(0, min(kTiles * 16, work.tile.row_count * args.group - rows.first));
  rows.all_end = work.first_position + rows.first / args.group + 1;
  rows.end_key =
      rows.used == 0 ? 0 : work.first_position + (rows.first + rows.used - 1) / args.group + 1;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int t = 0; t < kTiles; ++t) {
    for (int r = 0; r < 2; ++r) {
      // Rows that nobody uses see what the last one sees.
      const int row = rows.first + t * 16 + r * 8 + lane / 4;
      rows.last_key[t][r] = work.first_position + min(row / args.group, work.tile.row_count - 1);
    }
  }
  return rows;
}

// The block that has this warp's page of the key tile at `first_key`.
template <int kHeadDim>
static __device__ int32_t FindBlock(const AttentionArgs& args, const TileWork& work,
                                    int first_key) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int key = first_key + warp % PrefillShape<kHeadDim>::kPages * kAttentionPage;
  return key < work.end_key ? work.block_table[key / args.cache.block_size] : 0;
}

// Begins to copy the key tile at `first_key` to `buffer` [K, V][pages]. `block` as above.
template <int kHeadDim>
static __device__ void CopyKeys(const AttentionArgs& args, const TileWork& work, int first_key,
                                int32_t block, uint8_t* buffer) {
  using Shape = PrefillShape<kHeadDim>;
  const KvLayerView& cache = args.cache;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int page = warp % Shape::kPages;
  const int key = first_key + page * kAttentionPage;
  if (key < work.end_key) {
    const uint8_t* const keys = KeyAt(cache, block, key % cache.block_size, work.kv_head);
#pragma unroll
    for (int part = warp / Shape::kPages; part < 2; part += kAttentionWarps / Shape::kPages) {
      CopyPage<kHeadDim>(keys + (part == 0 ? 0 : cache.values_offset - cache.keys_offset),
                         cache.row_bytes(), work.end_key - key,
                         buffer + part * Shape::kPartBytes + page * PageShape<kHeadDim>::kBytes,
                         static_cast<int>(threadIdx.x) % 32);
    }
  }
  CommitCopies();
}

// The 16-bit elements, two in a register.
template <class Element>
struct PairBits;
template <>
struct PairBits<__half> {
  static constexpr uint32_t kExponent = 0x7c007c00;
  static constexpr uint32_t kLeastNormal = 0x04000400;
  static constexpr uint32_t kOne = 0x3c003c00;
};
template <>
struct PairBits<__nv_bfloat16> {
  static constexpr uint32_t kExponent = 0x7f807f80;
  static constexpr uint32_t kLeastNormal = 0x00800080;
  static constexpr uint32_t kOne = 0x3f803f80;
};

// Infinities and NaNs of the pair become 0, and 1 in what is returned; the other elements 0 there.
template <class Element>
static __device__ uint32_t TakeNonFinite(uint32_t& pair) {
  using Bits = PairBits<Element>;
  const uint32_t highest = ((pair & Bits::kExponent) + Bits::kLeastNormal) & 0x80008000u;
  const uint32_t mask = (highest >> 15) * 0xffffu;
  pair &= ~mask;
  return Bits::kOne & mask;
}

// The operand [16, 16] that is 1 where M tile t's row sees the page's key, else 0. `key` is this
// lane's first of the page's.
template <class Element>
static __device__ void FindSeen(const int (&last_key)[2], int key, uint32_t (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int seen = last_key[i % 2] - (key + i / 2 * 8);
    a[i] = PairBits<Element>::kOne & (seen >= 1 ? 0xffffffffu : seen == 0 ? 0xffffu : 0);
  }
}

// MultiplyValues where not all rows see all keys: what they do not see has the weight 0, and 0
// times an infinity would be NaN. So only finite values are multiplied, and a row that sees another
// one becomes NaN.
template <class Element, int kHeadDim, int kTiles, int kPages>
static __device__ void MultiplySeenValues(const WarpRows<kTiles>& rows, int first_key,
                                          const float (&weights)[kTiles][kPages][2][4],
                                          const uint8_t* values, int pages,
                                          float (&sums)[kTiles][kHeadDim / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint8_t* const value = ValueRows<kHeadDim>(values, lane);
#pragma unroll
  for (int p = 0; p < kPages; ++p) {
    if (p >= pages) continue;
    uint32_t a[kTiles][4];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) RoundWeights<Element>(weights[t][p], a[t]);
#pragma unroll
    for (int d = 0; d < kHeadDim / 16; ++d) {
      uint32_t b[4];
      LoadMatricesTransposed(b, value + p * PageShape<kHeadDim>::kBytes + d * 32);
      uint32_t bad[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) bad[i] = TakeNonFinite<Element>(b[i]);
      MultiplyBoth<Element>(a, b, sums, d);
      if (__any_sync(kAllLanes, static_cast<int>(bad[0] | bad[1] | bad[2] | bad[3]))) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          float seen[2][4] = {};
          uint32_t sees[4];
          FindSeen<Element>(rows.last_key[t], first_key + p * kAttentionPage + lane % 4 * 2, sees);
          Multiply<Element>(seen[0], sees, bad[0], bad[1]);
          Multiply<Element>(seen[1], sees, bad[2], bad[3]);
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            if (seen[i / 4][i % 4] > 0) sums[t][d * 2 + i / 4][i % 4] = NAN;
          }
        }
      }
    }
  }
}

// One key tile. kAllSeen: all rows see all of its keys.
template <class Element, int kHeadDim, bool kAllSeen>
static __device__ void AttendKeys(const WarpRows<PrefillShape<kHeadDim>::kTiles>& rows,
                                  int first_key, const uint8_t* queries, const uint8_t* keys,
                                  SoftmaxState<PrefillShape<kHeadDim>::kTiles, kHeadDim>& state) {
  using Shape = PrefillShape<kHeadDim>;
  const int pages =
      kAllSeen
          ? Shape::kPages
          : min(Shape::kPages, (rows.end_key - first_key + kAttentionPage - 1) / kAttentionPage);
  float scores[Shape::kTiles][Shape::kPages][2][4] = {};
  MultiplyKeys<Element, kHeadDim>(queries, keys, pages, scores);
  if constexpr (!kAllSeen) {
    const int key = first_key + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int t = 0; t < Shape::kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < Shape::kPages * 8; ++i) {
        if (key + i / 4 * 8 + i % 2 > rows.last_key[t][i / 2 % 2]) {
          scores[t][i / 8][i / 4 % 2][i % 4] = -INFINITY;
        }
      }
    }
  }
  TakeScores(scores, state);
  const uint8_t* const values = keys + Shape::kPartBytes;
  if constexpr (kAllSeen) {
    MultiplyValues<Element, kHeadDim>(scores, values, pages, state.o);
  } else {
    MultiplySeenValues<Element, kHeadDim>(rows, first_key, scores, values, pages, state.o);
  }
}

template <class Element, int kHeadDim>
static __device__ void AttendTile(const AttentionArgs& args, const TileWork& work,
                                  const WarpRows<PrefillShape<kHeadDim>::kTiles>& rows,
                                  uint8_t* shared,
                                  SoftmaxState<PrefillShape<kHeadDim>::kTiles, kHeadDim>& state) {
  using Shape = PrefillShape<kHeadDim>;
  const uint8_t* const queries = shared + rows.first * PageShape<kHeadDim>::kRowBytes;
  uint8_t* const buffers = shared + Shape::kBuffersAt;
  CopyKeys<kHeadDim>(args, work, 0, FindBlock<kHeadDim>(args, work, 0), buffers);
  int32_t next_block = FindBlock<kHeadDim>(args, work, Shape::kKeys);
  int buffer = 0;
  for (int first_key = 0; first_key < work.end_key; first_key += Shape::kKeys) {
    WaitForCopies<0>();
    __syncthreads();  // copied by all warps; and none reads the other buffer any more
    const int next = first_key + Shape::kKeys;
    if (next < work.end_key) {
      CopyKeys<kHeadDim>(args, work, next, next_block,
                         buffers + (buffer ^ 1) * 2 * Shape::kPartBytes);
      next_block = FindBlock<kHeadDim>(args, work, next + Shape::kKeys);
    }
    const uint8_t* const keys = buffers + buffer * 2 * Shape::kPartBytes;
    if (next <= rows.all_end && rows.used > 0) {
      AttendKeys<Element, kHeadDim, true>(rows, first_key, queries, keys, state);
    } else if (first_key < rows.end_key) {
      AttendKeys<Element, kHeadDim, false>(rows, first_key, queries, keys, state);
    }
    buffer ^= 1;
  }
  FoldSums(state);
}

template <int kTiles, int kHeadDim>
static __device__ void StoreContexts(const AttentionArgs& args, const TileWork& work,
                                     const WarpRows<kTiles>& rows,
                                     const SoftmaxState<kTiles, kHeadDim>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int own_row = t * 16 + r * 8 + lane / 4;
      if (own_row >= rows.used) continue;
      const int row = rows.first + own_row;
      const float inverse = 1.0f / state.sum[t][r];
      const int head = work.kv_head * args.group + row % args.group;
      float* const to =
          args.out.Row(work.tile.first_row + row / args.group) + head * kHeadDim + lane % 4 * 2;
#pragma unroll
      for (int d = 0; d < kHeadDim / 8; ++d) {
        *reinterpret_cast<float2*>(to + d * 8) = {state.o[t][d][r * 2] * inverse,
                                                  state.o[t][d][r * 2 + 1] * inverse};
      }
    }
  }
}

template <class Element, int kHeadDim>
static __global__ void __launch_bounds__(kAttentionThreads)
    PrefillAttentionKernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  using Shape = PrefillShape<kHeadDim>;
  WaitForPreviousKernel();
  LetNextKernelStart();
  const int item = static_cast<int>(blockIdx.x) / args.cache.kv_heads;
  if (item >= args.work.counts[1]) return;
  const PrefillTile tile = args.work.tiles[item];
  const int first_position = args.pass.positions[tile.first_row];
  const TileWork work = {.tile = tile,
                         .kv_head = static_cast<int>(blockIdx.x) % args.cache.kv_heads,
                         .first_position = first_position,
                         .end_key = first_position + tile.row_count,
                         .block_table = BlockTable(args.pass, tile.first_row)};
  StoreQueries<Element, kHeadDim>(args, tile, work.kv_head, Shape::kQueries, shared_memory);
  const WarpRows rows = FindRows<Shape::kTiles>(args, work);
  SoftmaxState<Shape::kTiles, kHeadDim> state;
  ClearState(state);
  AttendTile<Element, kHeadDim>(args, work, rows, shared_memory, state);
  StoreContexts(args, work, rows, state);
}

template <class Element, int kHeadDim>
static void LaunchFor(const AttentionArgs& args, cudaStream_t stream) {
  Launch(PrefillAttentionKernel<Element, kHeadDim>,
         {.grid = static_cast<unsigned>(args.work.max_tiles * args.cache.kv_heads),
          .block = kAttentionThreads,
          .shared_bytes = PrefillShape<kHeadDim>::kSharedBytes,
          .stream = stream,
          .may_start_early = true},
         args);
}

void LaunchPrefillAttention(const AttentionArgs& args, cudaStream_t stream) {
  WithPageShape(args.cache, [&](auto element, auto head_dim) {
    LaunchFor<decltype(element), decltype(head_dim)::value>(args, stream);
  });
}

}  // namespace baton
