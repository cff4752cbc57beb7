// The kernel of expert_product.h, for any weight format, and its launch. Several sources include
// this, each for some element types.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <span>

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/experts/expert_product.h"
#include "common/backend/cuda/product/invariant_product_kernels.h"
#include "common/base/check.h"
#include "ptx.h"

namespace baton {

struct ExpertProductArgs {
  struct Matrix {
    const uint8_t* weights[kMaxExperts];  // [outputs, row_bytes] each
    const float* bias;                    // [experts, outputs], or null
    float* out;                           // [pairs, outputs]
  };
  const uint8_t* terms;  // ProductTerms::data
  int term_count;
  int64_t term_bytes;      // bytes from one term to the next
  int64_t term_row_bytes;  // bytes from one row to the next
  int pairs_of_row;
  int columns;
  int column_tiles;   // tiles of kTileColumns columns
  int part_tiles;     // column tiles of a part
  int64_t row_bytes;  // bytes of a weight's row
  int outputs;
  int units;  // units of kPartOutputs outputs of a matrix
  ExpertPairs pairs;
  Matrix matrices[2];
};

// sums += the weights of a pair of mma steps times the rows at `x`, of which there is one for each
// eight pairs of the tile; null behind the tile's last pair.
template <class Block, int kRowTiles>
__device__ __forceinline__ void MultiplyPairs(const ExpertProductArgs& args,
                                              const uint8_t* const (&x)[kRowTiles], int column,
                                              const PairWeights<Block>& weights,
                                              float (&sums)[kRowTiles][4]) {
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    uint4 high = {0, 0, 0, 0};
    uint4 low = {0, 0, 0, 0};
    if (x[n] != nullptr) {
      const uint8_t* const at = x[n] + 2 * static_cast<int64_t>(column);
      high = LoadColumns<Block, /*kInPlace=*/false>(at);
      if (args.term_count == 2) low = LoadColumns<Block, /*kInPlace=*/false>(at + args.term_bytes);
    }
    weights.Multiply(high, low, args.term_count == 2, sums[n]);
  }
}

// Adds the sums of the parts and stores the results.
template <int kRowTiles>
__device__ void StorePairs(const ExpertProductArgs& args, const ExpertProductArgs::Matrix& matrix,
                           int first_output, const ExpertTile& tile, const float* sums) {
  constexpr int kSums = kRowTiles * 8 * kPartOutputs;
  const int parts = (args.column_tiles + args.part_tiles - 1) / args.part_tiles;
  for (int i = static_cast<int>(threadIdx.x); i < kSums; i += kInvariantThreads) {
    const int output = first_output + i % kPartOutputs;
    if (i / kPartOutputs >= tile.count || output >= args.outputs) continue;
    float sum = SumOfParts<kRowTiles>(sums, parts, i);
    if (matrix.bias != nullptr) {
      sum += matrix.bias[static_cast<int64_t>(tile.expert) * args.outputs + output];
    }
    const int64_t pair = args.pairs.order[tile.first + i / kPartOutputs];
    matrix.out[pair * args.outputs + output] = sum;
  }
}

// The grid is [units of all matrices, tiles], tiles first. Each warp has a part of the columns.
// kDepth: column blocks that a warp has loaded ahead. kOccupancy: thread blocks on a
// multiprocessor.
template <class Block, int kRowTiles, int kDepth, int kOccupancy>
static __global__ void __launch_bounds__(kInvariantThreads, kOccupancy)
    ExpertProductKernel(const __grid_constant__ ExpertProductArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  WaitForPreviousKernel();
  const int tile_index = static_cast<int>(blockIdx.x) % args.pairs.max_tiles;
  if (tile_index >= *args.pairs.tile_count) return;
  const ExpertTile tile = args.pairs.tiles[tile_index];
  const int unit = static_cast<int>(blockIdx.x) / args.pairs.max_tiles;
  const ExpertProductArgs::Matrix& matrix = args.matrices[unit / args.units];
  const int first_output = unit % args.units * kPartOutputs;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;

  // Outputs behind the last one get the last row of the weight; none is stored.
  const uint8_t* const weight = matrix.weights[tile.expert];
  const uint8_t* const rows[2] = {
      weight + min(first_output + group, args.outputs - 1) * args.row_bytes,
      weight + min(first_output + group + 8, args.outputs - 1) * args.row_bytes};
  const uint8_t* x[kRowTiles];
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    const int place = n * 8 + group;
    const bool valid = place < tile.count;
    const int row = valid ? args.pairs.order[tile.first + place] / args.pairs_of_row : 0;
    x[n] = valid ? args.terms + row * args.term_row_bytes : nullptr;
  }

  const int end = min(args.column_tiles, (warp + 1) * args.part_tiles) * Block::kOfTile;
  int block = warp * args.part_tiles * Block::kOfTile;
  LaneWeights<Block> weights[kDepth][2];
  const auto load = [&](int next, LaneWeights<Block>(&to)[2]) {
    if (next >= end) return;
    to[0].Load(rows[0], args.columns, next, t);
    to[1].Load(rows[1], args.columns, next, t);
  };
#pragma unroll
  for (int d = 0; d < kDepth; ++d) load(block + d, weights[d]);
  float sums[kRowTiles][4] = {};
  for (; block < end; block += kDepth) {
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      if (block + d < end) {
#pragma unroll
        for (int pair = 0; pair < Block::kPairs; ++pair) {
          MultiplyPairs<Block>(args, x, (block + d) * Block::kColumns + PairColumn<Block>(pair, t),
                               PairWeights<Block>(weights[d], pair), sums);
        }
      }
      load(block + d + kDepth, weights[d]);
    }
  }
  auto* const all = reinterpret_cast<float*>(shared_memory);
  KeepSums(sums, all + warp * kRowTiles * 8 * kPartOutputs);
  __syncthreads();
  StorePairs<kRowTiles>(args, matrix, first_output, tile, all);
}

template <class Block>
ExpertProductArgs ExpertArgsFor(const ExpertProductInput& in, std::span<const ExpertOutput> outputs,
                                const ExpertPairs& pairs) {
  const int columns = in.terms.columns;
  const int stride = ProductTermStride(columns);
  ExpertProductArgs args = {};
  args.terms = static_cast<const uint8_t*>(in.terms.data);
  args.term_count = in.terms.terms;
  args.term_bytes = int64_t{2} * stride * in.terms.rows;
  args.term_row_bytes = int64_t{2} * stride;
  args.pairs_of_row = in.pairs_of_row;
  args.columns = columns;
  args.column_tiles = ColumnTiles(columns);
  args.part_tiles = InvariantPartTiles(columns);
  args.row_bytes = static_cast<int64_t>(CudaRowBytes(Block::kElement, columns));
  args.outputs = outputs[0].weights[0].rows;
  args.units = (args.outputs + kPartOutputs - 1) / kPartOutputs;
  args.pairs = pairs;
  for (size_t m = 0; m < outputs.size(); ++m) {
    for (size_t e = 0; e < outputs[m].weights.size(); ++e) {
      args.matrices[m].weights[e] = static_cast<const uint8_t*>(outputs[m].weights[e].data);
    }
    args.matrices[m].bias = outputs[m].bias;
    args.matrices[m].out = outputs[m].out;
  }
  return args;
}

template <class Block, int kRowTiles, int kDepth, int kOccupancy>
void LaunchExpertTiles(const ExpertProductInput& in, std::span<const ExpertOutput> outputs,
                       const ExpertPairs& pairs, cudaStream_t stream) {
  const ExpertProductArgs args = ExpertArgsFor<Block>(in, outputs, pairs);
  const int64_t blocks =
      static_cast<int64_t>(outputs.size()) * args.units * static_cast<int64_t>(pairs.max_tiles);
  BATON_CHECK(blocks <= std::numeric_limits<int>::max(), "blocks of a launch");
  Launch(ExpertProductKernel<Block, kRowTiles, kDepth, kOccupancy>,
         {.grid = static_cast<unsigned>(blocks),
          .block = kInvariantThreads,
          .shared_bytes = sizeof(float) * kInvariantWarps * kRowTiles * 8 * kPartOutputs,
          .stream = stream,
          .may_start_early = true},
         args);
}

template <CudaElement kElement>
void LaunchExpertElement(const ExpertProductInput& in, std::span<const ExpertOutput> outputs,
                         const ExpertPairs& pairs, int tile_pairs, cudaStream_t stream) {
  using Block = InvariantBlock<kElement>;
  // Thread blocks on a multiprocessor, as in PartsShape: as many as leave the registers that the
  // kernel needs. A warp has 2 to 4 KB of weights in flight.
  constexpr bool kMxfp4 = kElement == CudaElement::kMxfp4;
  constexpr int kFewBlocks = HasMin(kElement) ? 1 : kMxfp4 ? 3 : 2;
  constexpr int kManyBlocks = Block::kGroups && !kMxfp4 ? 1 : 2;
  constexpr bool kDeep = Block::kLaneColumns == 8 && Block::kChunks == 1;
  if (tile_pairs == kFewTilePairs) {
    LaunchExpertTiles<Block, kFewTilePairs / 8, kFewBlocks == 1 || kDeep ? 4 : 2, kFewBlocks>(
        in, outputs, pairs, stream);
  } else {
    LaunchExpertTiles<Block, kManyTilePairs / 8, kDeep ? 4 : 2, kManyBlocks>(in, outputs, pairs,
                                                                             stream);
  }
}

// LaunchExpertProduct for quantised weights (expert_product_quantised.cu).
void LaunchQuantisedExpertProduct(const ExpertProductInput& in,
                                  std::span<const ExpertOutput> outputs, const ExpertPairs& pairs,
                                  int tile_pairs, cudaStream_t stream);

}  // namespace baton
