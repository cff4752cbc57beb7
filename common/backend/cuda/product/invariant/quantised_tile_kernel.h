// The kernel of invariant_product.h for many rows and quantised weights. As in InvariantTileKernel a
// block has 128 outputs and 64 rows, and each of its warps 16 outputs. But the weights come through
// shared memory too, and the sums of the parts so far lie there: so loads are one to three tiles ahead,
// and with one term two blocks' registers fit on a multiprocessor (but not those of Q6_K).
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "common/backend/cuda/product/formats/weight_ring.h"
#include "common/backend/cuda/product/invariant/divided_tile.h"
#include "common/backend/cuda/product/invariant/invariant_product_kernels.h"
#include "ptx.h"

namespace baton {

template <class Block, int kTerms>
struct QuantisedTileShape {
  using Rows = TileShape<Block, kTerms>;
  template <int kStages>
  using Ring = WeightRing<Block::kElement, kInvariantThreads, 16, kStages>;
  // Thread blocks on a multiprocessor.
  static constexpr int kOccupancy = kTerms == 1 && !Block::kHalfScales ? 2 : 1;
  static constexpr int kTotalBytes = kInvariantThreads * Rows::kRowTiles * 16;
  // With two blocks what an H100 has, with one what an A100 has.
  static constexpr int kMostBytes = kOccupancy == 2 ? 228 * 1024 / 2 - 1024 : 163 * 1024;
  static constexpr int kStages =
      std::min(4, (kMostBytes - Rows::kSharedBytes - kTotalBytes) / Ring<1>::kStageBytes);
  static constexpr int kRingAt = Rows::kSharedBytes;
  static constexpr int kTotalsAt = kRingAt + Ring<kStages>::kBytes;
  static constexpr int kSharedBytes = kTotalsAt + kTotalBytes;
};

template <class Block, int kTerms>
static __global__ void __launch_bounds__(kInvariantThreads,
                                         QuantisedTileShape<Block, kTerms>::kOccupancy)
    QuantisedTileKernel(const __grid_constant__ InvariantArgs args) {
  using Shape = QuantisedTileShape<Block, kTerms>;
  using Rows = typename Shape::Rows;
  constexpr int kStages = Shape::kStages;
  extern __shared__ __align__(16) uint8_t shared_memory[];
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread % 32 / 4;
  const int t = thread % 4;
  const TilePlace place = TilePlaceOf<kTileOutputs, Rows::kRows>(args);
  const InvariantArgs::Matrix& matrix = place.matrix;
  const int begin = place.part * args.part_tiles;
  const int end = args.splits == 1 ? args.tiles : min(args.tiles, begin + args.part_tiles);

  LetNextKernelStart();
  typename Shape::template Ring<kStages> ring(matrix.weight + place.first_output * args.row_bytes,
                                              matrix.rows - 1 - place.first_output, args.row_bytes,
                                              args.columns, end, shared_memory + Shape::kRingAt);
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) ring.Copy(begin + i);
  const RowCopies<Rows> input(args, place.first_row);
  WaitForPreviousKernel();
  input.Copy(args, begin, shared_memory);
  WaitForCopies<0>();
  auto* const totals = reinterpret_cast<float4*>(shared_memory + Shape::kTotalsAt) + thread;
  TileSums<Rows::kRowTiles> sums = {};
  int buffer = 0;
  int end_part = begin + args.part_tiles;
  for (int tile = begin; tile < end; ++tile) {
    __syncthreads();  // all warps have copied, and none reads the other buffer any more
    const uint8_t* x = shared_memory + buffer + group * 64 + t * 16;
    buffer = Rows::kBufferBytes - buffer;
    if (tile + 1 < end) input.Copy(args, tile + 1, shared_memory + buffer);
    ring.Copy(tile + kStages - 1);
    CommitCopies();
    const auto weights = ring.Take(tile);
    const QuantisedRow chunks[2] = {weights.Row(0), weights.Row(1)};
    // Not unrolled: the compiler would bring the loads of all pairs forward, for which there are not
    // enough registers.
#pragma unroll 1
    for (int pair = 0; pair < Block::kOfTile * Block::kPairs; ++pair) {
      MultiplyShared<Block, kTerms, Rows::kRowTiles>(x, PairWeights<Block>(chunks, pair), sums);
      x += Rows::kPairBytes;
    }
    if (tile + 1 == end_part || tile + 1 == end) {
      KeepPart<Rows::kRowTiles>(tile < begin + args.part_tiles, sums, totals);
      end_part += args.part_tiles;
    }
    // The rows of the next tile, and its weights: only the last copy of weights may be under way.
    // tests/planted_bugs: kernel_weights_before_they_are_copied
    WaitForCopies<(kStages > 2 ? 1 : 0)>();
  }
  if (args.splits > 1 &&
      !JoinParts<Rows::kRowTiles, kInvariantThreads>(
          args, place.tile, place.part, reinterpret_cast<int32_t*>(shared_memory),
          [&](int i) { return totals[i * kInvariantThreads]; },
          [&](int i, float4 sum) { totals[i * kInvariantThreads] = sum; })) {
    return;
  }
#pragma unroll
  for (int n = 0; n < Rows::kRowTiles; ++n) {
    const float4 total = totals[n * kInvariantThreads];
    const float all[4] = {total.x, total.y, total.z, total.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      StoreOutput(args, matrix, place.first_row + n * 8 + t * 2 + i % 2,
                  place.first_output + thread / 32 * 16 + group + i / 2 * 8, all[i]);
    }
  }
}

}  // namespace baton
