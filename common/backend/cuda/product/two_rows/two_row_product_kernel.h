// The kernel of two_row_product.h. A thread block has 16 outputs, and each of its warps a part of
// the columns, as in InvariantPartsKernel. Of an mma's operands a lane holds what
// invariant_product_lane.h says: with g = lane / 4 and t = lane % 4, column g of B, which is row g % 2
// and block g / 2 of a tile, and columns 2t and 2t + 1 of D, which are both rows and block t.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/product/formats/two_row_format.h"
#include "common/backend/cuda/product/invariant/invariant_product_kernels.h"
#include "ptx.h"

namespace baton {

inline constexpr int kTwoRows = 2;

// The weights of a tile that one lane holds, for one output: its columns' codes, and what else the
// block has whose sums the lane scales.
template <CudaElement kElement>
struct TileWeights {
  using Format = TwoRowFormat<kElement>;
  typename Format::Words words;
  typename Format::Part part;

  __device__ __forceinline__ void Load(const QuantisedRow& row, int tile, int t) {
    words = Format::LoadWords(row, tile, t);
    part = Format::LoadPart(row, tile * kTileBlocks + t);
  }
};

// The columns of a pair that a lane multiplies, for each of its two steps.
using PairInput = uint2[2];

// As LoadColumns, into what there is and only if `valid`.
template <class Block>
__device__ __forceinline__ void LoadColumnsIf(bool valid, const uint8_t* at, PairInput& steps) {
  if constexpr (Block::kHalfScales) {
    LoadInPlaceIf8(valid, at, steps[0]);
    LoadInPlaceIf8(valid, at + 2 * 16, steps[1]);
  } else {
    uint4 columns = {steps[0].x, steps[0].y, steps[1].x, steps[1].y};
    LoadInPlaceIf16(valid, at, columns);
    steps[0] = {columns.x, columns.y};
    steps[1] = {columns.z, columns.w};
  }
}

// A lane's column of B in a tile. Pairs in which the lane has no columns of its block are zero, and
// stay so from tile to tile.
template <class Block>
struct TileInput {
  // Pairs that have a block's columns: one, or for Q8_0 two, where half of the lanes have them.
  static constexpr int kBlockPairs = Block::kGroups ? 1 : Block::kPairs;
  static constexpr bool kSummed = TwoRowFormat<Block::kElement>::kAdded > 0;
  PairInput pairs[kTilePairs] = {};
  PairInput block[kBlockPairs] = {};  // if kSummed: the block's pairs once more, without the others

  // `x` points to the lane's columns of the tile's first pair, in its row.
  __device__ __forceinline__ void Load(const uint8_t* x, int own, int t) {
    // tests/planted_bugs: kernel_input_of_other_blocks
    const auto has_own = [&](int pair) { return PairColumn<Block>(pair, t) / 32 == own; };
    const int first = own / kBlockPairs * kBlockPairs;
#pragma unroll
    for (int i = 0; i < (kSummed ? kBlockPairs : 0); ++i) {
      LoadColumnsIf<Block>(has_own(first), x + 2 * (PairColumn<Block>(first, 0) + 8 * i), block[i]);
    }
#pragma unroll
    for (int pair = 0; pair < kTilePairs; ++pair) {
      LoadColumnsIf<Block>(has_own(pair), x + 2 * PairColumn<Block>(pair, 0), pairs[pair]);
    }
  }
};

// sums += a tile's weights, of output g and of output g + 8, times the rows.
template <class Block>
__device__ __forceinline__ void MultiplyTile(const TileWeights<Block::kElement> (&weights)[2],
                                             const TileInput<Block>& input, float (&sums)[4]) {
  using Format = TwoRowFormat<Block::kElement>;
  using Input = TileInput<Block>;
  constexpr int kScales = Block::kHalfScales ? 2 : 1;
  constexpr uint32_t kOnes[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
  // Products of the block, or of its halves.
  float products[kScales][4] = {};
  float inputs[kScales][4] = {};  // the sums of the input alone, to make up for kAdded
  const auto add = [](const uint32_t(&a)[4], const uint2& b, float(&to)[4]) {
    MultiplyBf16(to, a, {b.x, b.y});
  };
  if constexpr (Input::kSummed) {
#pragma unroll
    for (int i = 0; i < 2 * Input::kBlockPairs; ++i) {
      add(kOnes, input.block[i / 2][i % 2], inputs[i % kScales]);
    }
  }
#pragma unroll
  for (int pair = 0; pair < kTilePairs; ++pair) {
    uint32_t upper[Format::kCodeTerms][4];
    uint32_t lower[Format::kCodeTerms][4];
    Format::Codes(weights[0].words, pair, upper);
    Format::Codes(weights[1].words, pair, lower);
#pragma unroll
    for (int i = 0; i < 2 * Format::kCodeTerms; ++i) {
      const int step = i / Format::kCodeTerms;
      const uint32_t(&high)[4] = upper[i % Format::kCodeTerms];
      const uint32_t(&low)[4] = lower[i % Format::kCodeTerms];
      add({high[2 * step], low[2 * step], high[2 * step + 1], low[2 * step + 1]},
          input.pairs[pair][step], products[step % kScales]);
    }
  }
#pragma unroll
  for (int half = 0; half < kScales; ++half) {
#pragma unroll
    for (int output = 0; output < 2; ++output) {
      const BlockScale block = Format::BlockOf(weights[output].part, half);
      const float min = __fmaf_rn(block.scale, -static_cast<float>(Format::kAdded), block.min);
#pragma unroll
      for (int i = 2 * output; i < 2 * output + 2; ++i) {
        sums[i] = __fmaf_rn(block.scale, products[half][i], sums[i]);
        if constexpr (Input::kSummed) sums[i] = __fmaf_rn(min, inputs[half][i], sums[i]);
      }
    }
  }
}

// Adds the sums of the lanes' blocks, and puts them among those of the warp.
__device__ __forceinline__ void KeepBlockSums(float (&sums)[4], float* warp_sums) {
  const int group = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sums[i] += __shfl_xor_sync(kAllLanes, sums[i], 1);
    // tests/planted_bugs: kernel_sums_of_two_blocks_alone
    sums[i] += __shfl_xor_sync(kAllLanes, sums[i], 2);
    if (t == 0) warp_sums[PlaceOfSum(i % 2 * kPartOutputs + group + i / 2 * 8)] = sums[i];
  }
}

// sums += the weights of tiles [tile, end) of output g and of output g + 8 times two rows. `x` points
// to this lane's columns of the first tile in row g % 2. kDepth: tiles that a warp has loaded ahead.
// `wait` is called when the first loads of weights are under way, which do not depend on the kernel
// before, and before `x` is read.
template <CudaElement kElement, int kDepth, class Wait>
__device__ __forceinline__ void MultiplyTwoRows(const QuantisedRow (&rows)[2], int tile, int end,
                                                const uint8_t* x, const Wait& wait,
                                                float (&sums)[4]) {
  using Block = InvariantBlock<kElement>;
  using Weights = TileWeights<kElement>;
  const int own = static_cast<int>(threadIdx.x) % 32 / 4 / kTwoRows;
  const int t = static_cast<int>(threadIdx.x) % 4;
  Weights weights[kDepth][2];
  const auto load = [&](int next, Weights(&to)[2]) {
    if (next >= end) return;
    to[0].Load(rows[0], next, t);
    to[1].Load(rows[1], next, t);
  };
#pragma unroll
  for (int d = 0; d < kDepth; ++d) load(tile + d, weights[d]);
  wait();
  TileInput<Block> input;
  for (; tile < end; tile += kDepth) {
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      if (tile + d < end) {
        input.Load(x + 2 * d * kTileColumns, own, t);
        MultiplyTile<Block>(weights[d], input, sums);
      }
      load(tile + d + kDepth, weights[d]);
    }
    x += 2 * kDepth * kTileColumns;
  }
}

// kOccupancy: thread blocks on a multiprocessor.
template <CudaElement kElement, int kDepth, int kOccupancy>
static __global__ void __launch_bounds__(kInvariantThreads, kOccupancy)
    TwoRowKernel(const __grid_constant__ InvariantArgs args) {
  using Block = InvariantBlock<kElement>;
  extern __shared__ __align__(16) uint8_t shared_memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int unit = static_cast<int>(blockIdx.x);
  const InvariantArgs::Matrix& matrix = MatrixOfUnit(args, unit);
  const int first_output = (unit - matrix.first_unit) * kPartOutputs;

  LetNextKernelStart();
  const QuantisedRow rows[2] = {
      KeptRowAt<kElement>(WeightRow(args, matrix, first_output + group), args.columns),
      KeptRowAt<kElement>(WeightRow(args, matrix, first_output + group + 8), args.columns)};
  const int tile = warp * args.part_tiles;
  const int end = min(args.tiles, (warp + 1) * args.part_tiles);
  // A second row that there is not is the first; its sum is not stored.
  const uint8_t* const x = args.terms + min(group % kTwoRows, args.rows - 1) * args.term_row_bytes +
                           2 * (tile * kTileColumns + PairColumn<Block>(0, t));
  float sums[4] = {};
  MultiplyTwoRows<kElement, kDepth>(rows, tile, end, x, WaitForPreviousKernel, sums);
  auto* const all = reinterpret_cast<float*>(shared_memory);
  KeepBlockSums(sums, all + warp * kTwoRows * kPartOutputs);
  __syncthreads();
  StoreParts<kTwoRows>(args, matrix, first_output, /*first_row=*/0, all);
}

}  // namespace baton
