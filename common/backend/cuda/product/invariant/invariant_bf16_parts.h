// The kernel for BF16 weights and 17 to 64 rows, or more in several blocks: a block has 64 outputs
// and 32 or 64 rows, and each of its warps a part of the columns, for which it has stages of its
// own. So the whole device reads, and an output's weights are read once.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "common/backend/cuda/product/invariant/invariant_bf16_stage.h"
#include "common/backend/cuda/product/invariant/invariant_product_kernels.h"
#include "ptx.h"

namespace baton {

template <int kRowTiles, int kTerms>
struct Bf16PartsShape {
  static constexpr int kRows = 8 * kRowTiles;
  static constexpr int kTermBytes = kRows * kLineBytes;
  static constexpr int kStageBytes = kWarpOutputs * kLineBytes + kTerms * kTermBytes;
  static constexpr int kStages = std::min(4, 24 * 1024 / kStageBytes);
  static constexpr int kWarpBytes = kStages * kStageBytes;
  // The sums of the parts, [part][row][output], in place of the stages. Rows are so far apart that
  // the lanes of a warp write to different banks.
  // tests/planted_bugs: kernel_sums_in_the_same_banks
  static constexpr int kSumStride = kWarpOutputs + 4;
  static constexpr int kPartSums = kRows * kSumStride;
  static constexpr int kSharedBytes =
      kInvariantWarps * std::max(kWarpBytes, kPartSums* static_cast<int>(sizeof(float)));
};

// A lane's part in the copies of a warp's stages: the same 16 bytes of every eighth line.
template <int kRowTiles, int kTerms>
struct PartsCopier {
  using Shape = Bf16PartsShape<kRowTiles, kTerms>;
  const InvariantArgs& args;
  const InvariantArgs::Matrix& matrix;
  int first_output;
  int first_row;
  int line;
  int t;

  __device__ __forceinline__ void CopyOutputs(int stage, uint8_t* buffer) const {
#pragma unroll
    for (int i = 0; i < kWarpOutputs; i += 8) {
      CopyWeights(args, WeightRow(args, matrix, first_output + line + i) + t * 16, stage, t,
                  buffer + (line + i) * kLineBytes + t * 16);
    }
  }
  // Rows behind the last one are the last one; none of their sums is stored.
  __device__ __forceinline__ void CopyInput(int stage, uint8_t* buffer) const {
    const uint8_t* const from = args.terms + static_cast<int64_t>(stage) * kLineBytes + t * 16;
    uint8_t* const to = buffer + (kWarpOutputs + line) * kLineBytes + t * 16;
#pragma unroll
    for (int term = 0; term < kTerms; ++term) {
#pragma unroll
      for (int i = 0; i < Shape::kRows; i += 8) {
        const int row = min(first_row + line + i, args.rows - 1);
        CopyAsync16(to + term * Shape::kTermBytes + i * kLineBytes,
                    from + term * args.term_bytes + row * args.term_row_bytes);
      }
    }
  }
};

// Adds the sums of the parts in ascending order and stores the results. What is there is read
// eight elements at a time, because a read waits for the writes before it.
template <int kRowTiles, int kTerms>
__device__ void StoreWideParts(const InvariantArgs& args, const InvariantArgs::Matrix& matrix,
                               int first_output, int first_row, const float* sums) {
  using Shape = Bf16PartsShape<kRowTiles, kTerms>;
  constexpr int kTogether = 8;
  constexpr int kRowStep = kInvariantThreads / kWarpOutputs;
  const int parts = (args.tiles + args.part_tiles - 1) / args.part_tiles;
  const int column = static_cast<int>(threadIdx.x) % kWarpOutputs;
  const int output = first_output + column;
  if (output >= matrix.rows) return;
  for (int first = static_cast<int>(threadIdx.x) / kWarpOutputs; first < Shape::kRows;
       first += kTogether * kRowStep) {
    float old[kTogether] = {};
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int row = first_row + first + i * kRowStep;
      if (matrix.accumulate && row < args.rows) {
        old[i] = matrix.out[static_cast<int64_t>(row) * matrix.rows + output];
      }
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const float* const from = sums + (first + i * kRowStep) * Shape::kSumStride + column;
      float sum = *from;
      for (int part = 1; part < parts; ++part) sum += from[part * Shape::kPartSums];
      const int row = first_row + first + i * kRowStep;
      if (row < args.rows) {
        matrix.out[static_cast<int64_t>(row) * matrix.rows + output] =
            OutputOf(sum, matrix.accumulate, matrix.scale, old[i]);
      }
    }
  }
}

template <int kRowTiles, int kTerms>
static __global__ void __launch_bounds__(kInvariantThreads, 1)
    Bf16PartsKernel(const __grid_constant__ InvariantArgs args) {
  using Shape = Bf16PartsShape<kRowTiles, kTerms>;
  static_assert(Shape::kRows % (8 * kInvariantThreads / kWarpOutputs) == 0, "rows stored together");
  extern __shared__ __align__(16) uint8_t shared_memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int unit = static_cast<int>(blockIdx.x) / args.row_tiles;
  const int first_row = static_cast<int>(blockIdx.x) % args.row_tiles * Shape::kRows;
  const InvariantArgs::Matrix& matrix = MatrixOfUnit(args, unit);
  const int first_output = (unit - matrix.first_unit) * kWarpOutputs;

  LetNextKernelStart();
  const PartsCopier<kRowTiles, kTerms> copier = {args, matrix, first_output, first_row, group, t};
  const int first = warp * args.part_tiles * kTileStages;
  const int end = min(args.tiles, (warp + 1) * args.part_tiles) * kTileStages;
  uint8_t* const stages = shared_memory + warp * Shape::kWarpBytes;
  // The weights do not depend on the kernel before, so they are loaded before the wait for it.
#pragma unroll
  for (int i = 0; i < Shape::kStages - 1; ++i) {
    if (first + i < end) copier.CopyOutputs(first + i, stages + i * Shape::kStageBytes);
  }
  WaitForPreviousKernel();
#pragma unroll
  for (int i = 0; i < Shape::kStages - 1; ++i) {
    if (first + i < end) copier.CopyInput(first + i, stages + i * Shape::kStageBytes);
    CommitCopies();
  }
  const uint32_t zero = UnknownZero(args);
  float sums[kWarpOutputTiles][kRowTiles][4] = {};
  int read = 0;
  int write = (Shape::kStages - 1) * Shape::kStageBytes;
  for (int stage = first; stage < end; ++stage) {
    // tests/planted_bugs: kernel_stage_before_it_is_copied
    WaitForCopies<Shape::kStages - 2>();
    __syncwarp();  // all lanes have copied, and none reads the last stage any more
    if (const int next = stage + Shape::kStages - 1; next < end) {
      copier.CopyOutputs(next, stages + write);
      copier.CopyInput(next, stages + write);
    }
    CommitCopies();
    const uint8_t* const lane = stages + read + group * kLineBytes + t * 16;
    StageOutputs outputs;
    outputs.Load(lane, zero);
    MultiplyStage<kRowTiles, kTerms, Shape::kTermBytes>(outputs, lane + kWarpOutputs * kLineBytes,
                                                        sums);
    write = read;
    read = read + Shape::kStageBytes == Shape::kWarpBytes ? 0 : read + Shape::kStageBytes;
  }
  // tests/planted_bugs: kernel_sums_over_the_stages
  __syncthreads();  // the sums take the place of the stages of all warps
  auto* const all = reinterpret_cast<float*>(shared_memory);
  float* const own = all + warp * Shape::kPartSums;
#pragma unroll
  for (int m = 0; m < kWarpOutputTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        own[(n * 8 + t * 2 + i % 2) * Shape::kSumStride + m * 16 + group + i / 2 * 8] =
            sums[m][n][i];
      }
    }
  }
  __syncthreads();
  StoreWideParts<kRowTiles, kTerms>(args, matrix, first_output, first_row, all);
}

}  // namespace baton
