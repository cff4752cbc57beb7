// The kernel of two_row_product.h. A thread block has 16 outputs, and each of its warps a part of
// the columns, as in InvariantPartsKernel. Of an mma's operands a lane holds what
// invariant_product_lane.h says: with g = lane / 4 and t = lane % 4, column g of B, which is row g % 2
// and block g / 2 of a group, and columns 2t and 2t + 1 of D, which are both rows and block t.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/product/invariant_product_kernels.h"
#include "ptx.h"

namespace baton {

inline constexpr int kTwoRows = 2;
inline constexpr int kGroupBlocks = kGroupColumns / 32;
inline constexpr int kBlockInputBytes = 32 * 2;  // of a row of input

// The weights of a group that one lane holds, for one output: its columns' codes of all blocks, and
// what else the block has whose sums the lane scales.
template <class Format>
struct GroupWeights {
  typename Format::Words words;
  typename Format::Part part;

  __device__ __forceinline__ void Load(const GroupRow& row, int group, int t) {
    words = Format::LoadWords(row, group * 4 + t);
    part = Format::LoadPart(row, group * kGroupBlocks + t);
  }
};

// As LoadColumns, for the two mma steps of a block, into what there is and only if `valid`.
template <class Block>
__device__ __forceinline__ void LoadColumnsIf(bool valid, const uint8_t* at, uint2 (&steps)[2]) {
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

// sums += a group's weights, of output g and of output g + 8, times the rows. `x` is where the
// lane's row has its columns of the group's first block, and `own` the block that the lane's column
// of B is. `input` is kept from one group to the next: it has zeros for all blocks but `own`.
template <class Block>
__device__ __forceinline__ void MultiplyGroup(
    const GroupWeights<typename Block::Format> (&weights)[2], const uint8_t* x, int own,
    uint2 (&input)[kGroupBlocks][2], float (&sums)[4]) {
  using Format = typename Block::Format;
  constexpr int kScales = Block::kHalfScales ? 2 : 1;
  constexpr uint32_t kOnes[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
  // Of the block, or of its halves.
  float products[kScales][4] = {};
  float inputs[kScales][4] =
      {};  // the sums of the input alone, which make up for what codes have added
  if constexpr (Format::kAdded > 0) {
    const uint4 columns = LoadColumns<Block>(x + own * kBlockInputBytes);
    MultiplyBf16(inputs[0], kOnes, {columns.x, columns.y});
    MultiplyBf16(inputs[kScales - 1], kOnes, {columns.z, columns.w});
  }
#pragma unroll
  for (int block = 0; block < kGroupBlocks; ++block) {
    LoadColumnsIf<Block>(own == block, x + block * kBlockInputBytes, input[block]);
  }
#pragma unroll
  for (int block = 0; block < kGroupBlocks; ++block) {
    uint32_t upper[4];
    uint32_t lower[4];
    Format::Codes(weights[0].words, block, upper);
    Format::Codes(weights[1].words, block, lower);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const uint32_t a[4] = {upper[2 * step], lower[2 * step], upper[2 * step + 1],
                             lower[2 * step + 1]};
      MultiplyBf16(products[step % kScales], a, {input[block][step].x, input[block][step].y});
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
        if constexpr (Format::kAdded > 0) sums[i] = __fmaf_rn(min, inputs[half][i], sums[i]);
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
    sums[i] += __shfl_xor_sync(kAllLanes, sums[i], 2);
    if (t == 0) warp_sums[PlaceOfSum(i % 2 * kPartOutputs + group + i / 2 * 8)] = sums[i];
  }
}

// kDepth: groups that a warp has loaded ahead. kOccupancy: thread blocks on a multiprocessor.
template <CudaElement kElement, int kDepth, int kOccupancy>
static __global__ void __launch_bounds__(kInvariantThreads, kOccupancy)
    TwoRowKernel(const __grid_constant__ InvariantArgs args) {
  using Block = InvariantBlock<kElement>;
  using Weights = GroupWeights<typename Block::Format>;
  extern __shared__ __align__(16) uint8_t shared_memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane_group = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int unit = static_cast<int>(blockIdx.x);
  const InvariantArgs::Matrix& matrix = MatrixOfUnit(args, unit);
  const int first_output = (unit - matrix.first_unit) * kPartOutputs;

  LetNextKernelStart();
  // The weights do not depend on the kernel before, so they are loaded before the wait for it.
  const GroupRow rows[2] = {
      RowAt<Block>(WeightRow(args, matrix, first_output + lane_group), args.columns),
      RowAt<Block>(WeightRow(args, matrix, first_output + lane_group + 8), args.columns)};
  const int end = min(args.tiles, (warp + 1) * args.part_tiles);
  int group = warp * args.part_tiles;
  Weights weights[kDepth][2];
  const auto load = [&](int next, Weights(&to)[2]) {
    if (next >= end) return;
    to[0].Load(rows[0], next, t);
    to[1].Load(rows[1], next, t);
  };
#pragma unroll
  for (int d = 0; d < kDepth; ++d) load(group + d, weights[d]);
  WaitForPreviousKernel();
  // A second row that there is not is the first; its sum is not stored.
  const uint8_t* x = args.terms + min(lane_group % kTwoRows, args.rows - 1) * args.term_row_bytes +
                     2 * (group * kGroupColumns + PairColumn<Block>(0, t));
  const int own = lane_group / kTwoRows;
  uint2 input[kGroupBlocks][2] = {};
  float sums[4] = {};
  for (; group < end; group += kDepth) {
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      if (group + d < end) {
        MultiplyGroup<Block>(weights[d], x + 2 * d * kGroupColumns, own, input, sums);
      }
      load(group + d + kDepth, weights[d]);
    }
    x += 2 * kDepth * kGroupColumns;
  }
  auto* const all = reinterpret_cast<float*>(shared_memory);
  KeepBlockSums(sums, all + warp * kTwoRows * kPartOutputs);
  __syncthreads();
  StoreParts<kTwoRows>(args, matrix, first_output, /*first_row=*/0, all);
}

}  // namespace baton
