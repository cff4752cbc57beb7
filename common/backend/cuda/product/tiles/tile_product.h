// Products of many rows with quantised weights: out = in x weight^T, or out += scale * in x weight^T.
// Weights are rounded to BF16 (rounded_format.h), unlike in invariant_product.h, so the tensor cores add
// all columns of a sum one after the other and nothing is scaled between. Input of one BF16 term.
//
// A thread block has a tile of 128 outputs and 32 or 64 rows. If there are few tiles, several
// blocks have a part of a tile's columns each, and the last one adds their sums in the columns' order
// (SplitScratch). How many depends on the device, and so do a row's last bits. The sums take 35 MB
// of device memory on an H200.
//
// Weights come through shared memory, one or two column tiles ahead. A thread block uses 45 to 75 KB
// of it, so three or four blocks fit on a multiprocessor of an H100.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "common/backend/cuda/product/invariant/invariant_product.h"
#include "common/backend/cuda/product/product_operands.h"
#include "common/backend/cuda/product/product_terms.h"

namespace baton {

// Multiplies `in` with the weights of all outputs, with one kernel for each element type among them:
// LaunchInvariantProduct's if a device has too little shared memory, or a product too few tiles to
// occupy it. REQUIRES: one term, quantised weights, 1 to kMaxVectorOutputs outputs, none of which overlaps
// another.
void LaunchTileProduct(const ProductTerms& in, std::span<const VectorOutput> outputs,
                       const DeviceLimits& limits, const SplitScratch& scratch,
                       cudaStream_t stream);

}  // namespace baton
