// A tile of a sequence's rows against tiles of its keys: which keys each row sees, and what a warp
// does with a tile of keys. The bits of a row depend neither on the other rows of its tile nor on
// the contents of keys and values that it does not see.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "common/backend/cuda/attention/attention_pages.h"
#include "common/backend/cuda/attention/attention_softmax.h"
#include "common/backend/cuda/attention/code_tile.h"
#include "common/backend/cuda/attention/page_copies.h"

namespace baton {

// The work of a thread block.
struct TileWork {
  PrefillTile tile;
  int kv_head;
  int first_position;  // position of the tile's first row in its sequence
  int first_key;       // keys before this one are seen by no row of the tile
  int end_key;         // keys from here on are seen by no row of the tile
  const int32_t* block_table;
};

// The rows of the tile that one warp has, and the keys that these rows see. Only warps that divide
// the rows of the block have one.
template <int kTiles>
struct WarpRows {
  int first;                // the warp's first row, a multiple of kTiles * 16
  int used;                 // rows in use, 0 to kTiles * 16
  int all_end;              // keys from here on are not seen by all rows
  int end_key;              // keys from here on are seen by no row
  int window;               // keys that each row sees: the last ones up to its last key
  int last_key[kTiles][2];  // last key seen by this lane's rows of each M tile

  // Whether all rows see all of the keys [begin, end), and whether any row may see one of them.
  __device__ bool AllSee(int begin, int end) const {
    return used > 0 && end <= all_end && begin >= end_key - window;
  }
  __device__ bool AnySees(int begin, int end) const {
    return begin < end_key && end > all_end - window;
  }
};

template <int kTiles>
__device__ WarpRows<kTiles> FindRows(const AttentionArgs& args, const TileWork& work, int warp) {
  WarpRows<kTiles> rows;
  rows.first = warp * kTiles * 16;
  rows.used = max(0, min(kTiles * 16, work.tile.row_count * args.group - rows.first));
  rows.all_end = work.first_position + rows.first / args.group + 1;
  rows.end_key =
      rows.used == 0 ? 0 : work.first_position + (rows.first + rows.used - 1) / args.group + 1;
  rows.window = args.window;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int t = 0; t < kTiles; ++t) {
    for (int r = 0; r < 2; ++r) {
      // Rows that are not in use see the keys that the last row sees.
      const int row = rows.first + t * 16 + r * 8 + lane / 4;
      rows.last_key[t][r] = work.first_position + min(row / args.group, work.tile.row_count - 1);
    }
  }
  return rows;
}

// The work of this block of a grid [tiles, kv_heads]; `item` is the index of its tile.
__device__ inline TileWork TileAt(const AttentionArgs& args, int item) {
  const PrefillTile tile = args.work.tiles[item];
  const int first_position = args.pass.positions[tile.first_row];
  return {.tile = tile,
          .kv_head = static_cast<int>(blockIdx.x) % args.cache.kv_heads,
          .first_position = first_position,
          .first_key = FirstKey(args, first_position),
          .end_key = first_position + tile.row_count,
          .block_table = BlockTable(args.pass, tile.first_row)};
}

// Writes columns [first_column, first_column + kColumns) of the contexts of the warp's rows.
template <int kHeadDim, int kTiles, int kColumns, RowMax kMax>
__device__ void StoreContexts(const AttentionArgs& args, const TileWork& work,
                              const WarpRows<kTiles>& rows,
                              const SoftmaxState<kTiles, kColumns, kMax>& state, int first_column) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int own_row = t * 16 + r * 8 + lane / 4;
      if (own_row >= rows.used) continue;
      const int row = rows.first + own_row;
      const int head = work.kv_head * args.group + row % args.group;
      const float scale = ContextScale(args, head, state.max[t][r], state.sum[t][r]);
      float* const to = args.out.Row(work.tile.first_row + row / args.group) + head * kHeadDim +
                        first_column + lane % 4 * 2;
#pragma unroll
      for (int d = 0; d < kColumns / 8; ++d) {
        *reinterpret_cast<float2*>(to + d * 8) = {state.o[t][d][r * 2] * scale,
                                                  state.o[t][d][r * 2 + 1] * scale};
      }
    }
  }
}

// Constants of the 16-bit elements, two of them in a register.
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

// Replaces infinities and NaNs of the pair by 0. Returns a pair that has 1 there, 0
// elsewhere.
template <class Element>
__device__ uint32_t TakeNonFinite(uint32_t& pair) {
  using Bits = PairBits<Element>;
  const uint32_t highest = ((pair & Bits::kExponent) + Bits::kLeastNormal) & 0x80008000u;
  const uint32_t mask = (highest >> 15) * 0xffffu;
  pair &= ~mask;
  return Bits::kOne & mask;
}

// Makes the operand [16, 16] of an mma that is 1 if the row of an M tile sees the page's key, 0
// elsewhere. `last_key` belongs to this lane's rows, `key` is this lane's first key of the page.
template <class Element>
__device__ void FindSeen(const int (&last_key)[2], int window, int key, uint32_t (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int distance = last_key[i % 2] - (key + i / 2 * 8);
    a[i] = PairBits<Element>::kOne & ((Sees(distance, window) ? 0xffffu : 0) |
                                      (Sees(distance - 1, window) ? 0xffff0000u : 0));
  }
}

// MultiplyValues where not all rows see all keys. A key that a row does not see has the weight 0,
// and 0 times an infinity would be NaN. So only finite values are multiplied, and a row that sees a
// value that is not finite becomes NaN.
template <class Element, int kHeadDim, int kTiles, int kPages, int kFragments>
__device__ void MultiplySeenValues(const WarpRows<kTiles>& rows, int first_key,
                                   const float (&weights)[kTiles][kPages][2][4],
                                   const uint8_t* values, int pages,
                                   float (&sums)[kTiles][kFragments][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint8_t* const value = ValueRows<kHeadDim>(values, lane);
#pragma unroll
  for (int p = 0; p < kPages; ++p) {
    if (p >= pages) continue;
    uint32_t a[kTiles][4];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) RoundWeights<Element>(weights[t][p], a[t]);
#pragma unroll
    for (int d = 0; d < kFragments / 2; ++d) {
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
          FindSeen<Element>(rows.last_key[t], rows.window,
                            first_key + p * kKvPageTokens + lane % 4 * 2, sees);
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

// Adds weights times the values of a tile's first `pages` pages.
template <bool kAllSeen, class Stored, int kHeadDim, int kPages, int kTiles, int kFragments>
__device__ void AddValues(const WarpRows<kTiles>& rows, int first_key,
                          const float (&weights)[kTiles][kPages][2][4],
                          const KeyTile<Stored, kHeadDim, kPages>& tile, int first_column,
                          int pages, float (&/*inverse_unit*/)[kTiles][2],
                          float (&sums)[kTiles][kFragments][4]) {
  using Element = MatrixElement<Stored>;
  const uint8_t* const values = tile.Values(first_column);
  if constexpr (kAllSeen) {
    MultiplyValues<Element, kHeadDim>(weights, values, pages, sums);
  } else {
    MultiplySeenValues<Element, kHeadDim>(rows, first_key, weights, values, pages, sums);
  }
}
template <bool kAllSeen, class Stored, int kHeadDim>
__device__ void AddValues(const WarpRows<1>& rows, int first_key,
                          const float (&weights)[1][1][2][4],
                          const CodeTile<Stored, kHeadDim>& tile, int /*first_column*/,
                          int /*pages*/, float (&inverse_unit)[1][2],
                          float (&sums)[1][kHeadDim / 8][4]) {
  const int key = first_key + static_cast<int>(threadIdx.x) % 4 * 2;
  tile.AddValues(
      weights[0][0],
      [&](int row, int which, int second) {
        return kAllSeen || Sees(rows.last_key[0][row] - (key + which * 8 + second), rows.window);
      },
      inverse_unit[0], sums[0]);
}

// Attends the warp's rows to a tile of keys. kAllSeen: all rows see all of its keys. The state has
// columns [first_column, first_column + kColumns) of the values.
template <bool kAllSeen, class Tile, int kTiles, int kColumns, RowMax kMax>
__device__ void AttendKeys(const WarpRows<kTiles>& rows, int first_key, const uint8_t* queries,
                           const Tile& tile, int first_column,
                           SoftmaxState<kTiles, kColumns, kMax>& state) {
  constexpr int kPages = Tile::kPages;
  const int pages =
      kAllSeen ? kPages
               : min(kPages, (rows.end_key - first_key + kKvPageTokens - 1) / kKvPageTokens);
  float scores[kTiles][kPages][2][4] = {};
  tile.ScoreKeys(queries, pages, scores);
  if constexpr (!kAllSeen) {
    const int key = first_key + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < kPages * 8; ++i) {
        if (!Sees(rows.last_key[t][i / 2 % 2] - (key + i / 4 * 8 + i % 2), rows.window)) {
          scores[t][i / 8][i / 4 % 2][i % 4] = -INFINITY;
        }
      }
    }
  }
  TakeScores(scores, state);
  AddValues<kAllSeen>(rows, first_key, scores, tile, first_column, pages, state.inverse_unit,
                      state.o);
}

// Attends the warp's rows to a tile of keys, if one of them sees any.
template <class Tile, int kTiles, int kColumns, RowMax kMax>
__device__ void AttendTile(const WarpRows<kTiles>& rows, int first_key, const uint8_t* queries,
                           const Tile& tile, int first_column,
                           SoftmaxState<kTiles, kColumns, kMax>& state) {
  const int end_key = first_key + Tile::kPages * kKvPageTokens;
  // tests/planted_bugs: kernel_rows_see_later_keys
  if (rows.AllSee(first_key, end_key)) {
    AttendKeys<true>(rows, first_key, queries, tile, first_column, state);
  } else if (rows.AnySees(first_key, end_key)) {
    AttendKeys<false>(rows, first_key, queries, tile, first_column, state);
  }
}

}  // namespace baton
