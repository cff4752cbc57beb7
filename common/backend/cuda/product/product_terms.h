// The input of a product in the form for the tensor cores (invariant_product.h): x = BF16(x), or
// with a second term BF16(x) + BF16(x - BF16(x)), which keeps 16 bits of x.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "common/backend/cuda/product/product_operands.h"

namespace baton {

// Columns that a product takes at a time. Rows are padded to multiples of this.
inline constexpr int kTileColumns = 128;
constexpr int ColumnTiles(int columns) { return (columns + kTileColumns - 1) / kTileColumns; }

// A product's input, in device memory; borrowed.
struct ProductTerms {
  const void* data = nullptr;  // [terms, rows, ProductTermStride(columns)] BF16, padded with zeros
  int terms = 1;               // 1 or 2
  int rows = 0;
  int columns = 0;
};
constexpr int ProductTermStride(int columns) { return ColumnTiles(columns) * kTileColumns; }
constexpr size_t ProductTermBytes(int terms, int rows, int columns) {
  return static_cast<size_t>(terms) * static_cast<size_t>(rows) *
         static_cast<size_t>(ProductTermStride(columns)) * 2;
}

// Writes the input, normalised or gated, to `data` [ProductTermBytes], aligned to 16 bytes. The
// bits of a row depend on that row alone.
ProductTerms LaunchProductTerms(const VectorInput& input, int terms, void* data,
                                cudaStream_t stream);

}  // namespace baton
