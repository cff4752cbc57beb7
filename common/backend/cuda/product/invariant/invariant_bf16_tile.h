// The kernel for BF16 weights and many rows, of one term: a block has a tile of 128 outputs and 128
// or 256 rows. Each of its 2 x 4 warps has 64 outputs and a quarter of the rows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/product/invariant/invariant_bf16_stage.h"
#include "common/backend/cuda/product/invariant/invariant_product_kernels.h"
#include "ptx.h"

namespace baton {

template <int kRows_>
struct Bf16TileShape {
  static constexpr int kRows = kRows_;
  static constexpr int kWarpRows = kRows / 4;
  static constexpr int kRowTiles = kWarpRows / 8;
  static constexpr int kLines = kTileOutputs + kRows;
  static constexpr int kStageBytes = kLines * kLineBytes;
  static constexpr int kStages = 4;
  static_assert(kStages == kTileStages, "a stage's place follows from its place in the tile");
  // A total for each sum, of the parts so far: there are not enough registers for it.
  static constexpr int kTotalBytes = kTileOutputs * kRows * static_cast<int>(sizeof(float));
  static constexpr int kSharedBytes = kStages * kStageBytes + kTotalBytes;
};

// A thread's part in the copies of a block's stages: the same 16 bytes of every 64th line.
template <class Shape>
struct TileCopier {
  static constexpr int kLineStep = kInvariantThreads / 4;
  static constexpr int kOutputLines = kTileOutputs / kLineStep;
  static constexpr int kRowLines = Shape::kRows / kLineStep;
  const uint8_t* outputs[kOutputLines];
  const uint8_t* rows[kRowLines];
  uint8_t* to;
  int t;

  __device__ __forceinline__ TileCopier(const InvariantArgs& args,
                                        const InvariantArgs::Matrix& matrix, int first_output,
                                        int first_row, uint8_t* stages) {
    const int line = static_cast<int>(threadIdx.x) / 4;
    t = static_cast<int>(threadIdx.x) % 4;
    to = stages + line * kLineBytes + t * 16;
#pragma unroll
    for (int i = 0; i < kOutputLines; ++i) {
      outputs[i] = WeightRow(args, matrix, first_output + line + i * kLineStep) + t * 16;
    }
    // Rows behind the last one are the last one; none of their sums is stored.
#pragma unroll
    for (int i = 0; i < kRowLines; ++i) {
      const int row = min(first_row + line + i * kLineStep, args.rows - 1);
      rows[i] = args.terms + row * args.term_row_bytes + t * 16;
    }
  }

  __device__ __forceinline__ void CopyOutputs(const InvariantArgs& args, int stage) const {
    uint8_t* const buffer = to + stage % Shape::kStages * Shape::kStageBytes;
#pragma unroll
    for (int i = 0; i < kOutputLines; ++i) {
      CopyWeights(args, outputs[i], stage, t, buffer + i * kLineStep * kLineBytes);
    }
  }
  __device__ __forceinline__ void CopyInput(int stage) const {
    uint8_t* const buffer = to + stage % Shape::kStages * Shape::kStageBytes;
#pragma unroll
    for (int i = 0; i < kRowLines; ++i) {
      CopyAsync16(buffer + (kTileOutputs + i * kLineStep) * kLineBytes,
                  rows[i] + static_cast<int64_t>(stage) * kLineBytes);
    }
  }
};

// What is at these places of `out` if it is needed; 0 otherwise, and outside of the matrix.
template <int kRowTiles>
__device__ __forceinline__ void LoadOld(const InvariantArgs::Matrix& matrix, int rows, int output,
                                        int row, float (&old)[kRowTiles][4]) {
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) old[n][i] = 0;
  }
  if (!matrix.accumulate) return;
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at_row = row + n * 8 + i % 2;
      const int at_output = output + i / 2 * 8;
      if (at_row < rows && at_output < matrix.rows) {
        old[n][i] = matrix.out[static_cast<int64_t>(at_row) * matrix.rows + at_output];
      }
    }
  }
}

// Adds the last part to the totals, if there are any, and stores the results of a warp. What is
// there is read for many elements at a time, because a read waits for the writes before it.
template <int kRowTiles>
__device__ __forceinline__ void StoreTile(const InvariantArgs& args,
                                          const InvariantArgs::Matrix& matrix, int output, int row,
                                          const float (&sums)[kWarpOutputTiles][kRowTiles][4],
                                          const float4* totals) {
  const bool only_part = args.tiles <= args.part_tiles;
  const bool accumulate = matrix.accumulate;
  const float scale = matrix.scale;
#pragma unroll
  for (int m = 0; m < kWarpOutputTiles; ++m) {
    float old[kRowTiles][4];
    LoadOld<kRowTiles>(matrix, args.rows, output + m * 16, row, old);
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
      float4 total = {0, 0, 0, 0};
      if (!only_part) total = totals[(m * kRowTiles + n) * kInvariantThreads];
      const float before[4] = {total.x, total.y, total.z, total.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float sum = only_part ? sums[m][n][i] : before[i] + sums[m][n][i];
        const int at_row = row + n * 8 + i % 2;
        const int at_output = output + m * 16 + i / 2 * 8;
        if (at_row < args.rows && at_output < matrix.rows) {
          matrix.out[static_cast<int64_t>(at_row) * matrix.rows + at_output] =
              OutputOf(sum, accumulate, scale, old[n][i]);
        }
      }
    }
  }
}

template <int kRows>
static __global__ void __launch_bounds__(kInvariantThreads, 1)
    Bf16TileKernel(const __grid_constant__ InvariantArgs args) {
  using Shape = Bf16TileShape<kRows>;
  constexpr int kRowTiles = Shape::kRowTiles;
  extern __shared__ __align__(16) uint8_t shared_memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int unit = static_cast<int>(blockIdx.x) / args.row_tiles;
  const int first_row = static_cast<int>(blockIdx.x) % args.row_tiles * kRows;
  const InvariantArgs::Matrix& matrix = MatrixOfUnit(args, unit);
  const int first_output = (unit - matrix.first_unit) * kTileOutputs;
  const int warp_output = warp % 2 * kWarpOutputs;  // counted from the tile's first
  const int warp_row = warp / 2 * Shape::kWarpRows;

  LetNextKernelStart();
  const TileCopier<Shape> copier(args, matrix, first_output, first_row, shared_memory);
  // The weights do not depend on the kernel before, so they are loaded before the wait for it.
#pragma unroll
  for (int i = 0; i < Shape::kStages - 1; ++i) copier.CopyOutputs(args, i);
  WaitForPreviousKernel();
#pragma unroll
  for (int i = 0; i < Shape::kStages - 1; ++i) {
    copier.CopyInput(i);
    CommitCopies();
  }
  auto* const totals =
      reinterpret_cast<float4*>(shared_memory + Shape::kStages * Shape::kStageBytes) + threadIdx.x;
  const uint8_t* const outputs_lane = shared_memory + (warp_output + group) * kLineBytes + t * 16;
  const uint8_t* const rows_lane =
      shared_memory + (kTileOutputs + warp_row + group) * kLineBytes + t * 16;
  const uint32_t zero = UnknownZero(args);
  float sums[kWarpOutputTiles][kRowTiles][4] = {};
  StageOutputs outputs[2];
  WaitForCopies<Shape::kStages - 2>();
  __syncthreads();
  outputs[0].Load(outputs_lane, zero);
  for (int tile = 0; tile < args.tiles; ++tile) {
#pragma unroll
    for (int i = 0; i < kTileStages; ++i) {
      // The outputs of a stage are loaded during the stage before, so that the tensor cores have
      // work right behind the barrier.
      WaitForCopies<Shape::kStages - 3>();
      __syncthreads();  // all have copied the next stage, and none reads the last any more
      const int next = tile * kTileStages + i + Shape::kStages - 1;
      if (next < args.tiles * kTileStages) {
        copier.CopyOutputs(args, next);
        copier.CopyInput(next);
      }
      CommitCopies();
      outputs[(i + 1) % 2].Load(outputs_lane + (i + 1) % Shape::kStages * Shape::kStageBytes, zero);
      MultiplyStage<kRowTiles, 1, 0>(outputs[i % 2], rows_lane + i * Shape::kStageBytes, sums);
    }
    if ((tile + 1) % args.part_tiles == 0 && tile + 1 < args.tiles) {
#pragma unroll
      for (int m = 0; m < kWarpOutputTiles; ++m) {
        KeepPart<kRowTiles>(tile < args.part_tiles, sums[m],
                            totals + m * kRowTiles * kInvariantThreads);
      }
    }
  }
  StoreTile<kRowTiles>(args, matrix, first_output + warp_output + group,
                       first_row + warp_row + t * 2, sums, totals);
}

}  // namespace baton
