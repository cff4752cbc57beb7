// Products of rows with the weights of the experts that they chose: for each pair of a tile
// (expert_pairs.h), out = in x weight^T + bias, with the weight and bias of the tile's expert.
//
// The sum of an element is that of invariant_product.h, in its order: the bits of a pair depend
// neither on the other pairs nor on the size of the tiles. But in tiles of kTwoTilePairs, the order is
// that of two_row_product.h. A thread block has 16 outputs of one tile, so a tile's weights are read
// once.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "common/backend/cuda/device/operands.h"
#include "common/backend/cuda/experts/expert_choice.h"
#include "common/backend/cuda/experts/expert_pairs.h"
#include "common/backend/cuda/product/product_terms.h"

namespace baton {

// The sizes that tiles may have. kTwoTilePairs is for quantised weights.
inline constexpr int kTwoTilePairs = 2;
inline constexpr int kFewTilePairs = 8;
inline constexpr int kManyTilePairs = 32;

struct ExpertProductInput {
  ProductTerms terms;
  int pairs_of_row = 1;  // pair p reads row p / pairs_of_row of the terms
};

struct ExpertOutput {
  std::span<const CudaMatrix> weights;  // [experts] of [outputs, columns], of one element type
  const float* bias = nullptr;          // [experts, outputs], or null
  float* out = nullptr;                 // [pairs, outputs]
};

// Computes all outputs, whose weights have one shape, for all pairs. `tile_pairs` is that of the
// tiles. REQUIRES: one term of input for quantised weights; one or two outputs, of at most
// kMaxExperts experts; device memory.
void LaunchExpertProduct(const ExpertProductInput& in, std::span<const ExpertOutput> outputs,
                         const ExpertPairs& pairs, int tile_pairs, cudaStream_t stream);

}  // namespace baton
