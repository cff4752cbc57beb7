// The beginning of the kernel of vector_product.h: it brings activations into shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/product/quads.h"
#include "common/backend/cuda/product/vector/vector_product_tile.h"

namespace baton {

// Puts the sums of the squares of each row's quads into shared.squares, one for each warp. Thread t
// sums the quads that are t mod kVectorThreads, in ascending order; lanes are added by the tree. A
// barrier makes the sums valid.
template <class Tile>
__device__ void SumSquares(const VectorArgs& args, const VectorShared<Tile>& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  float sums[Tile::kRows] = {};
  for (int column = 4 * thread; column < args.columns; column += 4 * kVectorThreads) {
#pragma unroll
    for (int row = 0; row < Tile::kRows; ++row) {
      const float* in = args.in + static_cast<int64_t>(row) * args.columns;
      const float4 x = LoadQuad(in, column, args.columns);
      sums[row] = FmaQuad(x, x, sums[row]);
    }
  }
#pragma unroll
  for (int row = 0; row < Tile::kRows; ++row) {
    const float sum = WarpSum(sums[row]);
    if (thread % 32 == 0) shared.squares[row * kVectorWarps + thread / 32] = sum;
  }
}

// The factor of a row's norm. Warps are added in ascending order.
template <class Tile>
__device__ __forceinline__ float NormScaleOf(const VectorArgs& args,
                                             const VectorShared<Tile>& shared, int row) {
  const auto* const squares = reinterpret_cast<const float4*>(shared.squares + row * kVectorWarps);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kVectorWarps / 4; ++i) {
    const float4 four = squares[i];
    sum = sum + four.x + four.y + four.z + four.w;
  }
  return 1.0f / sqrtf(sum / static_cast<float>(args.columns) + args.epsilon);
}

// Computes the factor of each row's norm. All threads see them when this returns.
template <class Tile>
__device__ void ComputeNormScales(const VectorArgs& args, const VectorShared<Tile>& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  SumSquares(args, shared);
  __syncthreads();
  if (thread < Tile::kRows) shared.norm_scales[thread] = NormScaleOf(args, shared, thread);
  // tests/planted_bugs: kernel_norm_scale_before_the_barrier
  __syncthreads();
}

__device__ __forceinline__ float4 NormQuad(const float4& x, float scale, const float4& gain) {
  return make_float4(x.x * scale * gain.x, x.y * scale * gain.y, x.z * scale * gain.z,
                     x.w * scale * gain.w);
}

// Columns `column` to `column + 3` of row `row` of the product's input, normalised or gated.
__device__ __forceinline__ float4 InputQuad(const VectorArgs& args, int row, int column,
                                            const float* norm_scales) {
  const int64_t first = static_cast<int64_t>(row) * args.columns;
  const float4 x = LoadQuad(args.in + first, column, args.columns);
  if (args.kind == VectorInput::Kind::kPlain) return x;
  if (args.kind == VectorInput::Kind::kNorm) {
    const float4 gain = LoadQuad(args.other, column, args.columns);
    return NormQuad(x, norm_scales[row], gain);
  }
  const float4 up = LoadQuad(args.other + first, column, args.columns);
  return GatedQuad(args.function, x, up);
}

// Whether a block normalises one row and holds all of it. Then the gain waits in the row's place:
// it comes before the wait for the previous kernel, and each thread normalises those quads whose
// squares it has summed, after a single barrier.
template <class Tile>
__device__ __forceinline__ bool NormalisesWholeRow(const VectorArgs& args) {
  return Tile::kRows == 1 && args.whole_norm;
}

// Calls visit(column, at) for this thread's quads of the only row: each one's first column and its
// place in shared memory.
template <class Tile, class Visit>
__device__ __forceinline__ void ForEachQuad(const VectorArgs& args,
                                            const VectorShared<Tile>& shared, const Visit& visit) {
  const int quads = args.tile_chunks * Tile::kQuads;
#pragma unroll 2
  for (int quad = static_cast<int>(threadIdx.x); quad < quads; quad += kVectorThreads) {
    visit(4 * quad, shared.activations[SharedQuad<Tile>(quad / Tile::kQuads, quad % Tile::kQuads)]);
  }
}

template <class Tile>
__device__ void PutGain(const VectorArgs& args, const VectorShared<Tile>& shared) {
  ForEachQuad(args, shared,
              [&](int column, float4& at) { at = LoadQuad(args.other, column, args.columns); });
}

template <class Tile>
__device__ void NormaliseWholeRow(const VectorArgs& args, const VectorShared<Tile>& shared) {
  SumSquares(args, shared);
  __syncthreads();
  const float scale = NormScaleOf(args, shared, 0);
  ForEachQuad(args, shared, [&](int column, float4& at) {
    const float4 gain = at;
    at = NormQuad(LoadQuad(args.in, column, args.columns), scale, gain);
  });
}

// Brings the tile that begins with chunk `first_chunk` into shared memory.
template <class Tile>
__device__ void FillTile(const VectorArgs& args, int first_chunk,
                         const VectorShared<Tile>& shared) {
  const int quads = args.tile_chunks * Tile::kQuads;
#pragma unroll 1
  for (int row = 0; row < Tile::kRows; ++row) {
#pragma unroll 4
    for (int quad = static_cast<int>(threadIdx.x); quad < quads; quad += kVectorThreads) {
      const int column = (first_chunk * Tile::kQuads + quad) * 4;
      shared.activations[row * quads + SharedQuad<Tile>(quad / Tile::kQuads, quad % Tile::kQuads)] =
          InputQuad(args, row, column, shared.norm_scales);
    }
  }
}

}  // namespace baton
