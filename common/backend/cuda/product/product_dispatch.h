// Chooses the kernel that multiplies with a weight, by the weight's type and the number of input
// rows. --deterministic uses the kernels of invariant_product.h for every number of rows instead.
//
//   rows        F32 weights   F16, BF16   quantised
//   1, 2        kVector       kVector     kTwoRows
//   3           kVector       kVector     kParts
//   4           kVector       kParts      kParts
//   5 to 16     kLibrary      kParts      kParts
//   17 to 64    kLibrary      kLibrary    kTiles
//   more        kLibrary      kLibrary    kLibrary
//
// The last bits of a row differ between any two lines of the table.
//
// For one or two rows of quantised weights kTwoRows scales a quarter as often as kParts. From 17
// rows on, kParts would scale the sum of each block for every row, which is more work than scaling
// the weights, and would read the input anew for every 16 outputs, which is more than the L2 cache
// delivers. So kTiles and kLibrary round quantised weights to BF16.
#pragma once

#include "common/backend/cuda/device/operands.h"

namespace baton {

enum class ProductKernel {
  kVector,   // vector_product.h: the input in float32
  kTwoRows,  // two_row_product.h: tensor cores, the input in BF16
  kParts,    // invariant_product.h: tensor cores, the input in BF16 terms
  kTiles,    // tile_product.h: tensor cores, the input and the weights in BF16
  // weight_product.h: cuBLASLt, the input rounded to the weights' type. Without it, kTiles for
  // quantised weights and kParts for others.
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

// Returns the number of BF16 terms of kParts' input. With F16 weights two terms keep 16 bits: one
// term would keep 8, fewer than the 11 of the library's F16 input. F32 weights, which use kParts if
// the library is missing, have two terms as well.
constexpr int PartsTermsOf(CudaElement element) {
  return element == CudaElement::kF16 || element == CudaElement::kF32 ? 2 : 1;
}

}  // namespace baton
