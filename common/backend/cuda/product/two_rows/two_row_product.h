// Products of one or two rows with quantised weights: out = in x weight^T, or
// out += scale * in x weight^T. As invariant_product.h, with two thirds to nine tenths of its
// instructions for each weight, and another order of a sum. Codes of all types are exact.
//
// An mma m16n8k16 takes eight columns of B, of which a row of input would use one. Here they are the
// four blocks of 32 in a tile of 128 columns, for two rows each: column 2b + r is row r where the
// weights that are multiplied are those of block b, and zeros elsewhere. So one accumulator takes the
// sums of four blocks apart from one another, a lane scales only those of one block, and the blocks
// are added when all columns are through.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "common/backend/cuda/product/product_operands.h"
#include "common/backend/cuda/product/product_terms.h"

namespace baton {

// Multiplies `in` with the weights of all outputs, with one kernel for each element type among
// them. REQUIRES: one or two rows of one term, quantised weights, 1 to kMaxVectorOutputs outputs,
// none of which overlaps another.
void LaunchTwoRowProduct(const ProductTerms& in, std::span<const VectorOutput> outputs,
                         cudaStream_t stream);

}  // namespace baton
