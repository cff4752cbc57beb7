// Tiles of outputs and rows whose columns may be divided among thread blocks (SplitScratch).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/device/last_block.h"
#include "common/backend/cuda/product/invariant/invariant_product.h"
#include "common/backend/cuda/product/invariant/invariant_product_lane.h"

namespace baton {

// The work of a thread block that has a tile, or a part of its columns.
struct TilePlace {
  const InvariantArgs::Matrix& matrix;
  int tile;
  int part;
  int first_output;
  int first_row;
};
// The place of this block, where tiles have kOutputs outputs and kRows rows.
template <int kOutputs, int kRows>
__device__ __forceinline__ TilePlace TilePlaceOf(const InvariantArgs& args) {
  const int part = static_cast<int>(blockIdx.x) % args.splits;
  const int tile = static_cast<int>(blockIdx.x) / args.splits;
  const int unit = tile / args.row_tiles;
  const InvariantArgs::Matrix& matrix = MatrixOfUnit(args, unit);
  return {matrix, tile, part, (unit - matrix.first_unit) * kOutputs, tile % args.row_tiles * kRows};
}

// Leaves a thread's sums of one part of a tile's columns for the last of the tile's thread blocks, for
// which they become those of all parts, added in ascending order. Returns whether this is the last one.
// A thread has kSums of them: get(i) and set(i, sum). `shared` [1]: no warp reads it any more once all
// have come here.
template <int kSums, int kThreads, class Get, class Set>
__device__ __forceinline__ bool JoinParts(const InvariantArgs& args, int tile, int part,
                                          int32_t* shared, const Get& get, const Set& set) {
  static_assert(kSums * kThreads * sizeof(float4) <= kSplitSumBytes);
  auto* const sums =
      reinterpret_cast<float4*>(args.split_sums + tile * args.splits * kSplitSumBytes) +
      threadIdx.x;
  constexpr int kPartSums = kSums * kThreads;
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[part * kPartSums + i * kThreads] = get(i);
  // tests/planted_bugs: kernel_parts_joined_before_all_came
  if (!ComesLast(args.split_arrivals + tile, args.splits, shared)) return false;
#pragma unroll
  // tests/planted_bugs: kernel_divided_parts_in_another_order
  for (int i = 0; i < kSums; ++i) {
    const float4* const at = sums + i * kThreads;
    float4 total = at[0];
    for (int other = 1; other < args.splits; ++other) {
      const float4 sum = at[other * kPartSums];
      total = {total.x + sum.x, total.y + sum.y, total.z + sum.z, total.w + sum.w};
    }
    set(i, total);
  }
  return true;
}

}  // namespace baton
