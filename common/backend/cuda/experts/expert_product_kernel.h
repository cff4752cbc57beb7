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
#include "common/backend/cuda/product/invariant/invariant_product_launch.h"
#include "common/backend/cuda/product/two_rows/two_row_product_launch.h"
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
  int units;  // units of kPartOutputs outputs of a matrix
  ExpertPairs pairs;
  Matrix matrices[2];
};

// What a thread block multiplies. The grid is [units of all matrices, tiles], tiles first.
struct ExpertUnit {
  const ExpertProductArgs::Matrix& matrix;
  ExpertTile tile;  // has no pairs if there are fewer tiles
  int first_output;
};
__device__ __forceinline__ ExpertUnit ExpertUnitOfBlock(const ExpertProductArgs& args) {
  const int tile = static_cast<int>(blockIdx.x) % args.pairs.max_tiles;
  const int unit = static_cast<int>(blockIdx.x) / args.pairs.max_tiles;
  return {args.matrices[unit / args.units],
          tile < *args.pairs.tile_count ? args.pairs.tiles[tile] : ExpertTile{},
          unit % args.units * kPartOutputs};
}

// The weights' row of `output`. Outputs behind the last one get the last row; none is stored.
__device__ __forceinline__ const uint8_t* ExpertRow(const ExpertProductArgs& args,
                                                    const ExpertUnit& unit, int output) {
  return unit.matrix.weights[unit.tile.expert] + min(output, args.outputs - 1) * args.row_bytes;
}

// The input of pair `pair` of the tile. Pairs behind the last one are the last one; none of their
// sums is stored.
__device__ __forceinline__ const uint8_t* PairInputRow(const ExpertProductArgs& args,
                                                       const ExpertTile& tile, int pair) {
  // tests/planted_bugs: kernel_input_of_the_first_pair
  const int32_t place = args.pairs.order[tile.first + min(pair, tile.count - 1)];
  return args.terms + place / args.pairs_of_row * args.term_row_bytes;
}

// Adds the sums of the parts and stores the results.
template <int kPairs>
__device__ void StorePairs(const ExpertProductArgs& args, const ExpertUnit& unit,
                           const float* sums) {
  constexpr int kSums = kPairs * kPartOutputs;
  const int parts = (args.column_tiles + args.part_tiles - 1) / args.part_tiles;
  for (int i = static_cast<int>(threadIdx.x); i < kSums; i += kInvariantThreads) {
    const int output = unit.first_output + i % kPartOutputs;
    if (i / kPartOutputs >= unit.tile.count || output >= args.outputs) continue;
    float sum = SumOfParts<kPairs>(sums, parts, i);
    if (unit.matrix.bias != nullptr) {
      sum += unit.matrix.bias[static_cast<int64_t>(unit.tile.expert) * args.outputs + output];
    }
    const int64_t pair = args.pairs.order[unit.tile.first + i / kPartOutputs];
    unit.matrix.out[pair * args.outputs + output] = sum;
  }
}

// Each warp has a part of the columns. kOccupancy: thread blocks on a multiprocessor. kTerms: the
// input's terms.
template <class Block, int kRowTiles, int kDepth, int kOccupancy, int kTerms>
static __global__ void __launch_bounds__(kInvariantThreads, kOccupancy)
    ExpertProductKernel(const __grid_constant__ ExpertProductArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  WaitForPreviousKernel();
  const ExpertUnit unit = ExpertUnitOfBlock(args);
  if (unit.tile.count == 0) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const typename Block::Row rows[2] = {
      RowAt<Block>(ExpertRow(args, unit, unit.first_output + group), args.columns),
      RowAt<Block>(ExpertRow(args, unit, unit.first_output + group + 8), args.columns)};
  const int block = warp * args.part_tiles * Block::kOfTile;
  const int end = min(args.column_tiles, (warp + 1) * args.part_tiles) * Block::kOfTile;
  const uint8_t* x[kRowTiles];
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    x[n] = PairInputRow(args, unit.tile, n * 8 + group) +
           2 * (block * Block::kColumns + PairColumn<Block>(0, t));
  }
  float sums[kRowTiles][4] = {};
  MultiplyPart<Block, kTerms, kDepth>(
      rows, args.columns, block, end, x, args.term_bytes, [] {}, sums);
  auto* const all = reinterpret_cast<float*>(shared_memory);
  KeepSums(sums, all + warp * kRowTiles * 8 * kPartOutputs);
  __syncthreads();
  StorePairs<kRowTiles * 8>(args, unit, all);
}

// The same for tiles of at most two pairs, as TwoRowKernel.
template <CudaElement kElement, int kDepth, int kOccupancy>
static __global__ void __launch_bounds__(kInvariantThreads, kOccupancy)
    ExpertTwoPairKernel(const __grid_constant__ ExpertProductArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  WaitForPreviousKernel();
  const ExpertUnit unit = ExpertUnitOfBlock(args);
  if (unit.tile.count == 0) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const QuantisedRow rows[2] = {
      KeptRowAt<kElement>(ExpertRow(args, unit, unit.first_output + group), args.columns),
      KeptRowAt<kElement>(ExpertRow(args, unit, unit.first_output + group + 8), args.columns)};
  const int tile = warp * args.part_tiles;
  const int end = min(args.column_tiles, (warp + 1) * args.part_tiles);
  const uint8_t* const x = PairInputRow(args, unit.tile, group % kTwoRows) +
                           2 * (tile * kTileColumns + PairColumn<InvariantBlock<kElement>>(0, t));
  float sums[4] = {};
  MultiplyTwoRows<kElement, kDepth>(
      rows, tile, end, x, [] {}, sums);
  auto* const all = reinterpret_cast<float*>(shared_memory);
  KeepBlockSums(sums, all + warp * kTwoRows * kPartOutputs);
  __syncthreads();
  StorePairs<kTwoRows>(args, unit, all);
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

// Launches a kernel whose thread blocks have tiles of `tile_pairs` pairs.
template <class Kernel>
void LaunchExpertKernel(Kernel kernel, const ExpertProductArgs& args, size_t matrices,
                        int tile_pairs, cudaStream_t stream) {
  const int64_t blocks = static_cast<int64_t>(matrices) * args.units * args.pairs.max_tiles;
  BATON_CHECK(blocks <= std::numeric_limits<int>::max(), "blocks of a launch");
  Launch(kernel,
         {.grid = static_cast<unsigned>(blocks),
          .block = kInvariantThreads,
          .shared_bytes =
              sizeof(float) * kInvariantWarps * kPartOutputs * static_cast<size_t>(tile_pairs),
          .stream = stream,
          .may_start_early = true},
         args);
}

template <CudaElement kElement>
void LaunchExpertElement(const ExpertProductInput& in, std::span<const ExpertOutput> outputs,
                         const ExpertPairs& pairs, int tile_pairs, cudaStream_t stream) {
  using Block = InvariantBlock<kElement>;
  const ExpertProductArgs args = ExpertArgsFor<Block>(in, outputs, pairs);
  const auto launch = [&](auto kernel) {
    LaunchExpertKernel(kernel, args, outputs.size(), tile_pairs, stream);
  };
  const auto launch_parts = [&]<int kRowTiles, int kTerms>() {
    using Shape = PartsShape<Block, kRowTiles, kTerms>;
    launch(ExpertProductKernel<Block, kRowTiles, Shape::kDepth, Shape::kOccupancy, kTerms>);
  };
  const auto launch_terms = [&]<int kTerms>() {
    if (tile_pairs == kFewTilePairs) {
      launch_parts.template operator()<kFewTilePairs / 8, kTerms>();
    } else {
      launch_parts.template operator()<kManyTilePairs / 8, kTerms>();
    }
  };
  if constexpr (IsQuantised(kElement)) {
    BATON_CHECK(in.terms.terms == 1, "quantised weights' input has one term");
    if (tile_pairs == kTwoTilePairs) {
      using Shape = TwoRowShape<kElement>;
      return launch(ExpertTwoPairKernel<kElement, Shape::kDepth, Shape::kOccupancy>);
    }
    launch_terms.template operator()<1>();
  } else {
    BATON_CHECK(tile_pairs != kTwoTilePairs, "tiles of two pairs are for quantised weights");
    if (in.terms.terms == 1) {
      launch_terms.template operator()<1>();
    } else {
      launch_terms.template operator()<2>();
    }
  }
}

// LaunchExpertProduct for quantised weights (expert_product_quantised.cu).
void LaunchQuantisedExpertProduct(const ExpertProductInput& in,
                                  std::span<const ExpertOutput> outputs, const ExpertPairs& pairs,
                                  int tile_pairs, cudaStream_t stream);

}  // namespace baton
