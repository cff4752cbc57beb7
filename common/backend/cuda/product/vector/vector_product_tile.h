// The template parameters of the kernel of vector_product.h, its arguments and its shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "common/backend/cuda/product/formats/weight_format.h"
#include "common/backend/cuda/product/vector/vector_product.h"

namespace baton {

inline constexpr int kVectorThreads = 512;
inline constexpr int kVectorWarps = kVectorThreads / 32;

// The parameters that a kernel is compiled for.
template <CudaElement kElement_, int kRows_, int kUnitRows_, int kSweeps_, int kBlocks_>
struct VectorTile {
  using Format = WeightFormat<kElement_>;
  static constexpr CudaElement kElement = kElement_;
  static constexpr int kRows = kRows_;          // rows of the input
  static constexpr int kUnitRows = kUnitRows_;  // rows of the weight that a team sums at a time
  static constexpr int kSweeps = kSweeps_;      // sweeps of a step
  static constexpr int kBlocks = kBlocks_;      // thread blocks on a multiprocessor
  static constexpr int kQuads = Format::kColumns / 4;
  static constexpr int kUnitSums = kUnitRows * kRows;
};

struct VectorArgs {
  struct Matrix {
    const uint8_t* weight;  // [rows, row_bytes]
    float* out;             // [input rows, rows]
    int rows;
    int first_unit;  // index of the matrix's first unit among those of all matrices
    bool accumulate;
    float scale;
  };
  VectorInput::Kind kind;
  GateFunction function;
  const float* in;     // [rows, columns]
  const float* other;  // VectorInput::other
  float epsilon;
  int columns;
  int matrix_count;
  Matrix matrices[kMaxVectorOutputs];
  int64_t row_bytes;     // bytes of a weight's row
  int units;             // units of all matrices
  int rounds;            // rounds of a block
  int team_warps;        // warps of a team, 1 to 4
  int chunks;            // chunks of a weight's row
  int step_chunks;       // chunks of a step: kSweeps times the lanes of a team
  int row_step_chunks;   // chunks of all steps of a row: `chunks` or more
  int tile_step_chunks;  // chunks of the steps whose columns are in shared memory at a time
  int tile_chunks;       // chunks that a tile has room for: fewer where a row ends within a step
  bool accumulates;      // whether any of the matrices does
  bool whole_norm;       // whether rows are normalised and a tile has all their columns
};

// The shared memory of a block, in this order.
template <class Tile>
struct VectorShared {
  float4* activations;  // [rows, tile_chunks * kQuads], permuted by SharedQuad
  float* squares;       // [kRows, kVectorWarps]
  float* norm_scales;   // [kRows]
  float* team_sums;     // [2, kVectorWarps, kUnitSums]
  float* before;        // [kVectorWarps, kUnitSums]: what accumulating outputs were

  // The floats of everything but the activations.
  static constexpr int kSumFloats =
      kVectorWarps * Tile::kRows + Tile::kRows + 3 * kVectorWarps * Tile::kUnitSums;
  static size_t Bytes(const VectorArgs& args) {
    return static_cast<size_t>(Tile::kRows) * static_cast<size_t>(args.tile_chunks) * Tile::kQuads *
               sizeof(float4) +
           kSumFloats * sizeof(float);
  }
  __device__ VectorShared(uint8_t* memory, const VectorArgs& args) {
    activations = reinterpret_cast<float4*>(memory);
    squares = reinterpret_cast<float*>(activations + Tile::kRows * args.tile_chunks * Tile::kQuads);
    norm_scales = squares + kVectorWarps * Tile::kRows;
    team_sums = norm_scales + Tile::kRows;
    before = team_sums + 2 * kVectorWarps * Tile::kUnitSums;
  }
};

// The index of quad `quad` of chunk `chunk` of a tile. Lanes that read the same quad of consecutive
// chunks read different banks.
template <class Tile>
__device__ __forceinline__ int SharedQuad(int chunk, int quad) {
  // tests/planted_bugs: kernel_quads_in_the_same_banks
  return chunk * Tile::kQuads + (quad ^ (chunk * Tile::kQuads / 8 & (Tile::kQuads - 1)));
}

__device__ __forceinline__ float FmaQuad(const float4& a, const float4& b, float sum) {
  sum = __fmaf_rn(a.x, b.x, sum);
  sum = __fmaf_rn(a.y, b.y, sum);
  sum = __fmaf_rn(a.z, b.z, sum);
  return __fmaf_rn(a.w, b.w, sum);
}

}  // namespace baton
