// The kernel of tile_product.h. A block has a tile of 128 outputs and 32 or 64 rows, and each of its warps 32
// outputs: so a weight is made by one lane alone, and a row's columns are read once for 32 outputs. Both
// come through shared memory, the input a column tile ahead, weights one or two.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "common/backend/cuda/product/formats/rounded_format.h"
#include "common/backend/cuda/product/formats/weight_ring.h"
#include "common/backend/cuda/product/invariant/divided_tile.h"
#include "common/backend/cuda/product/invariant/invariant_product_kernels.h"
#include "ptx.h"

namespace baton {

template <CudaElement kElement, int kRows>
struct TileProductShape {
  using Block = InvariantBlock<kElement>;
  using Rows = TileRows<Block, 1, kRows>;
  static constexpr int kThreads = 128;
  static constexpr int kWarpOutputs = 32;
  static constexpr int kOutputs = kThreads / 32 * kWarpOutputs;
  static constexpr int kTurns = kWarpOutputs / 8;  // outputs of a lane
  // Thread blocks on a multiprocessor: as many as leave the registers for the sums.
  static constexpr int kOccupancy = kRows == 32 ? 4 : 3;
  // The scales of all outputs' blocks in a column tile.
  static constexpr int kScaleBytes = kOutputs * (kTileColumns / 32) * 4;
  template <int kStages>
  using Ring = WeightRing<kElement, kThreads, kWarpOutputs, kStages>;
  static constexpr int kMostBytes = 228 * 1024 / kOccupancy - 1024;
  static constexpr int kStages =
      std::min(3, (kMostBytes - Rows::kSharedBytes - kScaleBytes) / Ring<1>::kStageBytes);
  static constexpr int kRingAt = Rows::kSharedBytes;
  static constexpr int kScalesAt = kRingAt + Ring<kStages>::kBytes;
  static constexpr int kSharedBytes = kScalesAt + kScaleBytes;
  // Two mma's sums of a row tile.
  static constexpr int kSums = Rows::kRowTiles * 2;
};

template <CudaElement kElement, int kRows>
static __global__ void __launch_bounds__(TileProductShape<kElement, kRows>::kThreads,
                                         TileProductShape<kElement, kRows>::kOccupancy)
    TileProductKernel(const __grid_constant__ InvariantArgs args) {
  using Shape = TileProductShape<kElement, kRows>;
  using Rows = typename Shape::Rows;
  using Format = RoundedFormat<kElement>;
  constexpr int kStages = Shape::kStages;
  constexpr int kTurns = Shape::kTurns;
  extern __shared__ __align__(16) uint8_t shared_memory[];
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread % 32 / 4;
  const int t = thread % 4;
  const TilePlace place = TilePlaceOf<Shape::kOutputs, kRows>(args);
  const InvariantArgs::Matrix& matrix = place.matrix;
  const int begin = place.part * args.part_tiles;
  // Not computed anew for each tile.
  const int end = AsItIs(min(args.tiles, begin + args.part_tiles));

  LetNextKernelStart();
  typename Shape::template Ring<kStages> ring(matrix.weight + place.first_output * args.row_bytes,
                                              matrix.rows - 1 - place.first_output, args.row_bytes,
                                              args.columns, end, shared_memory + Shape::kRingAt);
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) ring.Copy(begin + i);
  const RowCopies<Rows, Shape::kThreads> input(args, place.first_row);
  WaitForPreviousKernel();
  input.Copy(args, begin, shared_memory);
  WaitForCopies<0>();
  // The scales [turn][thread]: those of the lane's output and block t.
  auto* const scales = reinterpret_cast<uint32_t*>(shared_memory + Shape::kScalesAt) + thread;
  float sums[Shape::kSums][4] = {};
  int buffer = 0;
  for (int tile = begin; tile < end; ++tile) {
    // tests/planted_bugs: kernel_rows_after_the_input_moved_on
    __syncthreads();  // all threads have copied, and none reads what is copied over now
    const uint8_t* x = shared_memory + buffer + thread % 32 * 16;
    buffer = Rows::kBufferBytes - buffer;
    if (tile + 1 < end) input.Copy(args, tile + 1, shared_memory + buffer);
    ring.Copy(tile + kStages - 1);
    CommitCopies();
    const auto weights = ring.Take(tile);
    typename Format::Words words[kTurns];
    // Each of a row's four lanes makes the scales of one block for all.
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      scales[turn * Shape::kThreads] = Format::LoadScales(weights.Row(turn), t);
    }
    // tests/planted_bugs: kernel_scales_read_before_they_are_made
    __syncwarp();
#pragma unroll
    for (int pair = 0; pair < kTileColumns / 32; ++pair) {
      uint32_t a[kTurns / 2][2][4];  // A operands [16 outputs][step]
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        if (pair % Format::kWordPairs == 0) {
          words[turn] = Format::LoadWords(weights.Row(turn), pair);
        }
        const uint32_t scale = scales[turn * Shape::kThreads + Format::BlockOfPair(pair, t) - t];
        uint32_t values[4];
        Format::Values(words[turn], pair, scale, values);
#pragma unroll
        for (int i = 0; i < 4; ++i) a[turn / 2][i / 2][i % 2 * 2 + turn % 2] = values[i];
      }
      // Keeps the loads of the input here. The compiler would bring those of all pairs forward, for
      // which there are not enough registers.
      __syncwarp();
#pragma unroll
      for (int n = 0; n < Rows::kRowTiles; ++n) {
        const uint4 columns = *reinterpret_cast<const uint4*>(x + n * 8 * 64);
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          const uint32_t b[2] = {step == 0 ? columns.x : columns.z,
                                 step == 0 ? columns.y : columns.w};
          MultiplyBf16(sums[2 * n], a[0][step], b);
          MultiplyBf16(sums[2 * n + 1], a[1][step], b);
        }
      }
      x += Rows::kPairBytes;
    }
    // The rows of the next tile, and its weights: only the last copy of weights may be under way.
    WaitForCopies<(kStages > 2 ? 1 : 0)>();
  }
  if (args.splits > 1) {
    const auto get = [&](int i) {
      return make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    };
    const auto set = [&](int i, float4 sum) {
      sums[i][0] = sum.x;
      sums[i][1] = sum.y;
      sums[i][2] = sum.z;
      sums[i][3] = sum.w;
    };
    if (!JoinParts<Shape::kSums, Shape::kThreads>(
            args, place.tile, place.part, reinterpret_cast<int32_t*>(shared_memory), get, set)) {
      return;
    }
  }
  const int output = place.first_output + thread / 32 * Shape::kWarpOutputs + group;
#pragma unroll
  for (int i = 0; i < Shape::kSums; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      StoreOutput(args, matrix, place.first_row + i / 2 * 8 + t * 2 + j % 2,
                  output + i % 2 * 16 + j / 2 * 8, sums[i][j]);
    }
  }
}

}  // namespace baton
