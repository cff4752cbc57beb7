// Which kernel multiplies with a weight, by its element type and the rows of the input: the one
// table of the products without --deterministic, which uses the kernels of invariant_product.h for
// any number of rows.
#pragma once

#include "common/backend/cuda/device/operands.h"

namespace baton {

enum class ProductKernel {
  kVector,   // vector_product.h: the input in float32
  kTwoRows,  // two_row_product.h: tensor cores, the input in BF16
  kParts,    // invariant_product.h: tensor cores, the input in BF16 terms
  kTiles,    // tile_product.h: tensor cores, the input and the weights in BF16
  // weight_product.h: cuBLASLt, the input rounded to the weights' type. Without it, kTiles for quantised
  // weights and kParts for others.
  kLibrary,
};

// The most rows that the kernels take. The library takes more.
struct ProductRows {
  int vector = 0;
  int two = 0;
  int parts = 0;
  int tiles = 0;
};
// scripts/sass/model.py reads these three lines.
inline constexpr ProductRows kF32Rows = {.vector = 4, .two = 0, .parts = 4, .tiles = 4};
inline constexpr ProductRows kHalfRows = {.vector = 3, .two = 0, .parts = 16, .tiles = 16};
inline constexpr ProductRows kQuantisedRows = {.vector = 0, .two = 2, .parts = 16, .tiles = 64};

constexpr ProductRows ProductRowsOf(CudaElement element) {
  if (IsQuantised(element)) return kQuantisedRows;
  return element == CudaElement::kF32 ? kF32Rows : kHalfRows;
}

// What multiplies in place of the library.
constexpr ProductKernel KernelWithoutLibrary(CudaElement element) {
  return IsQuantised(element) ? ProductKernel::kTiles : ProductKernel::kParts;
}

constexpr ProductKernel ProductKernelOf(CudaElement element, int rows) {
  const ProductRows most = ProductRowsOf(element);
  return rows <= most.vector  ? ProductKernel::kVector
         : rows <= most.two   ? ProductKernel::kTwoRows
         : rows <= most.parts ? ProductKernel::kParts
         : rows <= most.tiles ? ProductKernel::kTiles
                              : ProductKernel::kLibrary;
}

// The BF16 terms of the input of kParts. With F16 weights it keeps 16 bits: one term has 8, and the
// library keeps the 11 of F16, whose range a term does not share. So it does with F32 weights, which
// come here if there is no library.
constexpr int PartsTermsOf(CudaElement element) {
  return element == CudaElement::kF16 || element == CudaElement::kF32 ? 2 : 1;
}

}  // namespace baton
