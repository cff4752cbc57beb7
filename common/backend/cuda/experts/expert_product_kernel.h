// The kernel of expert_product.h, for any weight format, and its launch. Several sources include
// this, each for some element types.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/experts/expert_product.h"
#include "common/backend/cuda/product/invariant_product_launch.h"
#include "common/base/check.h"
#include "ptx.h"

namespace baton {

struct ExpertProductArgs {
  struct Matrix {
    const uint8_t* weights[kMaxExperts];  // [outputs, row_bytes] each
    const float* bias;                    // [experts, outputs], or null
    float* out;                           // [pairs, outputs]
  };
  const uint8_t* terms;    // ProductTerms::data
  int64_t term_bytes;      // bytes from one term to the next
  int64_t term_row_bytes;  // bytes from one row to the next
  int pairs_of_row;
  int columns;
  int column_tiles;   // tiles of kTileColumns columns
  int part_tiles;     // column tiles of a part
  int64_t row_bytes;  // bytes of a weight's row
  int outputs;
  int units;       // units of kPartOutputs outputs of a matrix
  int tile_parts;  // thread blocks that share a tile's pairs
  ExpertPairs pairs;
  Matrix matrices[2];
};

// Adds the sums of the parts and stores the results, which are those of the tile's pairs from
// `first_pair` on.
template <int kRowTiles>
__device__ void StorePairs(const ExpertProductArgs& args, const ExpertProductArgs::Matrix& matrix,
                           int first_output, const ExpertTile& tile, int first_pair,
                           const float* sums) {
  constexpr int kSums = kRowTiles * 8 * kPartOutputs;
  const int parts = (args.column_tiles + args.part_tiles - 1) / args.part_tiles;
  for (int i = static_cast<int>(threadIdx.x); i < kSums; i += kInvariantThreads) {
    const int output = first_output + i % kPartOutputs;
    const int place = first_pair + i / kPartOutputs;
    if (place >= tile.count || output >= args.outputs) continue;
    float sum = SumOfParts<kRowTiles * 8>(sums, parts, i);
    if (matrix.bias != nullptr) {
      sum += matrix.bias[static_cast<int64_t>(tile.expert) * args.outputs + output];
    }
    const int64_t pair = args.pairs.order[tile.first + place];
    matrix.out[pair * args.outputs + output] = sum;
  }
}

// The grid is [units of all matrices, tiles, parts of a tile], the last first. Each warp has a part of
// the columns.
// kOccupancy: thread blocks on a multiprocessor. kTerms: those of the input.
template <class Block, int kRowTiles, int kDepth, int kOccupancy, int kTerms>
static __global__ void __launch_bounds__(kInvariantThreads, kOccupancy)
    ExpertProductKernel(const __grid_constant__ ExpertProductArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  WaitForPreviousKernel();
  const int tile_block = static_cast<int>(blockIdx.x) / args.tile_parts;
  const int first_pair = static_cast<int>(blockIdx.x) % args.tile_parts * kRowTiles * 8;
  const int tile_index = tile_block % args.pairs.max_tiles;
  if (tile_index >= *args.pairs.tile_count) return;
  const ExpertTile tile = args.pairs.tiles[tile_index];
  if (first_pair >= tile.count) return;
  const int unit = tile_block / args.pairs.max_tiles;
  const ExpertProductArgs::Matrix& matrix = args.matrices[unit / args.units];
  const int first_output = unit % args.units * kPartOutputs;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;

  // Outputs behind the last one get the last row of the weight; none is stored.
  const uint8_t* const weight = matrix.weights[tile.expert];
  const auto row_of = [&](int output) {
    return RowAt<Block>(weight + min(output, args.outputs - 1) * args.row_bytes, args.columns);
  };
  const typename Block::Row rows[2] = {row_of(first_output + group),
                                       row_of(first_output + group + 8)};
  const int block = warp * args.part_tiles * Block::kOfTile;
  const int end = min(args.column_tiles, (warp + 1) * args.part_tiles) * Block::kOfTile;
  // Pairs behind the last one are the last one; none of their sums is stored.
  const uint8_t* x[kRowTiles];
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    const int place = tile.first + min(first_pair + n * 8 + group, tile.count - 1);
    x[n] = args.terms + args.pairs.order[place] / args.pairs_of_row * args.term_row_bytes +
           2 * (block * Block::kColumns + PairColumn<Block>(0, t));
  }
  float sums[kRowTiles][4] = {};
  MultiplyPart<Block, kTerms, kDepth>(
      rows, args.columns, block, end, x, args.term_bytes, [] {}, sums);
  auto* const all = reinterpret_cast<float*>(shared_memory);
  KeepSums(sums, all + warp * kRowTiles * 8 * kPartOutputs);
  __syncthreads();
  StorePairs<kRowTiles>(args, matrix, first_output, tile, first_pair, all);
}

template <class Block>
ExpertProductArgs ExpertArgsFor(const ExpertProductInput& in, std::span<const ExpertOutput> outputs,
                                const ExpertPairs& pairs) {
  const int columns = in.terms.columns;
  const int stride = ProductTermStride(columns);
  ExpertProductArgs args = {};
  args.terms = static_cast<const uint8_t*>(in.terms.data);
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

template <class Block, int kTerms, int kTilePairs>
void LaunchExpertTiles(const ExpertProductInput& in, std::span<const ExpertOutput> outputs,
                       const ExpertPairs& pairs, cudaStream_t stream) {
  constexpr int kRowTiles = std::min(kTilePairs / 8, kMostRowTiles<Block, kTerms>);
  using Shape = PartsShape<Block, kRowTiles, kTerms>;
  ExpertProductArgs args = ExpertArgsFor<Block>(in, outputs, pairs);
  args.tile_parts = kTilePairs / (8 * kRowTiles);
  const int64_t blocks = static_cast<int64_t>(outputs.size()) * args.units * args.tile_parts *
                         static_cast<int64_t>(pairs.max_tiles);
  BATON_CHECK(blocks <= std::numeric_limits<int>::max(), "blocks of a launch");
  Launch(ExpertProductKernel<Block, kRowTiles, Shape::kDepth, Shape::kOccupancy, kTerms>,
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
  const auto launch = [&]<int kTilePairs>() {
    if (in.terms.terms == 2) {
      LaunchExpertTiles<Block, 2, kTilePairs>(in, outputs, pairs, stream);
    } else {
      LaunchExpertTiles<Block, 1, kTilePairs>(in, outputs, pairs, stream);
    }
  };
  if (tile_pairs == kFewTilePairs) {
    launch.template operator()<kFewTilePairs>();
  } else {
    launch.template operator()<kManyTilePairs>();
  }
}

// LaunchExpertProduct for quantised weights (expert_product_quantised.cu).
void LaunchQuantisedExpertProduct(const ExpertProductInput& in,
                                  std::span<const ExpertOutput> outputs, const ExpertPairs& pairs,
                                  int tile_pairs, cudaStream_t stream);

}  // namespace baton
