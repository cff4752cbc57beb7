// Shared parts of the kernels of invariant_product.h for BF16 weights and more than 16 rows
// (invariant_bf16_parts.h, invariant_bf16_tile.h). A thread block needs 128 to 224 KB of shared
// memory: an H100 runs all of these kernels, an A100 only those with 128 KB. An element of `out`
// has the bits that the kernels of invariant_product_kernels.h give it: the same mma in the same
// order.
//
// With so many rows those kernels wait for the L2 cache, because a block of 16 outputs reads all of
// its rows' input. Here weights and input come into shared memory by asynchronous copies, and a
// warp multiplies 64 outputs by up to 64 rows, so that an operand is read once for 64 others.
//
// Shared memory has stages of 32 columns, a pair of mma steps: [line][lane of four], 16 bytes each.
// A line is an output or a row of the input. The eight lanes that are served together read two
// neighbouring lines, which are side by side, and write two such lines.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/product/invariant/invariant_product_lane.h"
#include "ptx.h"

namespace baton {

inline constexpr int kStageColumns = 32;
inline constexpr int kLineBytes = 2 * kStageColumns;
inline constexpr int kTileStages = kTileColumns / kStageColumns;
inline constexpr int kWarpOutputs = 64;
inline constexpr int kWarpOutputTiles = kWarpOutputs / 16;

// The A operands of a warp's outputs for the two mma steps of a stage.
struct StageOutputs {
  uint32_t a[kWarpOutputTiles][2][4];

  // `lane` points to this lane's 16 bytes of the first output's line. `zero` is 0 without the
  // compiler's knowledge: it would take a plain copy to its place anew for each mma, because loads
  // and operands both want four registers in a row.
  __device__ __forceinline__ void Load(const uint8_t* lane, uint32_t zero) {
#pragma unroll
    for (int m = 0; m < kWarpOutputTiles; ++m) {
      const uint4 upper = *reinterpret_cast<const uint4*>(lane + m * 16 * kLineBytes);
      const uint4 lower = *reinterpret_cast<const uint4*>(lane + (m * 16 + 8) * kLineBytes);
      a[m][0][0] = upper.x | zero;
      a[m][0][1] = lower.x | zero;
      a[m][0][2] = upper.y | zero;
      a[m][0][3] = lower.y | zero;
      a[m][1][0] = upper.z | zero;
      a[m][1][1] = lower.z | zero;
      a[m][1][2] = upper.w | zero;
      a[m][1][3] = lower.w | zero;
    }
  }
};

__device__ __forceinline__ uint32_t UnknownZero(const InvariantArgs& args) {
  return static_cast<uint32_t>(args.rows) >> 31;
}

// sums [tile of 16 outputs][tile of 8 rows] of the warp += a stage's outputs times its rows. `lane`
// points to this lane's 16 bytes of the first row's line. The next term of all rows is kTermBytes
// further. The arrays' types are spelled out: nvcc 12.4 ends with an internal error at an alias.
template <int kRowTiles, int kTerms, int kTermBytes>
__device__ __forceinline__ void MultiplyStage(const StageOutputs& outputs, const uint8_t* lane,
                                              float (&sums)[kWarpOutputTiles][kRowTiles][4]) {
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    uint4 x[kTerms];
#pragma unroll
    for (int term = 0; term < kTerms; ++term) {
      x[term] = *reinterpret_cast<const uint4*>(lane + term * kTermBytes + n * 8 * kLineBytes);
    }
    // For each sum: the first step's terms, then the second's.
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int term = 0; term < kTerms; ++term) {
        const uint32_t b[2] = {step == 0 ? x[term].x : x[term].z,
                               step == 0 ? x[term].y : x[term].w};
#pragma unroll
        for (int m = 0; m < kWarpOutputTiles; ++m) {
          MultiplyBf16(sums[m][n], outputs.a[m][step], b);
        }
      }
    }
  }
}

// Copies this lane's 16 bytes of an output's line, zeros behind the weights' last column.
__device__ __forceinline__ void CopyWeights(const InvariantArgs& args, const uint8_t* from,
                                            int stage, int t, uint8_t* to) {
  const bool valid = stage * kStageColumns + t * 8 < args.columns;
  CopyAsyncOfLine16(to, from + static_cast<int64_t>(stage) * kLineBytes, valid ? 16 : 0);
}

}  // namespace baton
