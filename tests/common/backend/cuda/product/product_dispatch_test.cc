#include "common/backend/cuda/product/product_dispatch.h"

#include <gtest/gtest.h>

#include "common/backend/cuda/product/vector/vector_product.h"

namespace baton {
namespace {

constexpr CudaElement kElements[] = {CudaElement::kF32,  CudaElement::kF16,  CudaElement::kBf16,
                                     CudaElement::kQ8_0, CudaElement::kQ4_0, CudaElement::kQ4_1,
                                     CudaElement::kQ4_K, CudaElement::kQ6_K, CudaElement::kMxfp4};

TEST(ProductDispatch, GoesFromTheVectorKernelThroughTheTensorCoresToTheLibrary) {
  for (const CudaElement element : kElements) {
    EXPECT_EQ(ProductKernelOf(element, 65), ProductKernel::kLibrary);
    for (int rows = 2; rows <= 65; ++rows) {
      EXPECT_GE(ProductKernelOf(element, rows), ProductKernelOf(element, rows - 1)) << rows;
    }
  }
}

TEST(ProductDispatch, TakesSeveralRowsOfQuantisedWeightsToTheTensorCores) {
  for (const CudaElement element : kElements) {
    if (!IsQuantised(element)) continue;
    EXPECT_EQ(ProductKernelOf(element, 1), ProductKernel::kTwoRows);
    EXPECT_EQ(ProductKernelOf(element, 2), ProductKernel::kTwoRows);
    for (const int rows : {3, 8, 16}) {
      EXPECT_EQ(ProductKernelOf(element, rows), ProductKernel::kParts) << rows;
    }
    EXPECT_EQ(ProductKernelOf(element, 17), ProductKernel::kTiles);
    EXPECT_EQ(ProductKernelOf(element, 64), ProductKernel::kTiles);
    EXPECT_EQ(KernelWithoutLibrary(element), ProductKernel::kTiles);
  }
}

TEST(ProductDispatch, TakesFloatWeightsFromTheVectorKernelAtFourRows) {
  for (const CudaElement element : {CudaElement::kF16, CudaElement::kBf16}) {
    EXPECT_EQ(ProductKernelOf(element, 3), ProductKernel::kVector);
    EXPECT_EQ(ProductKernelOf(element, 4), ProductKernel::kParts);
    EXPECT_EQ(ProductKernelOf(element, 16), ProductKernel::kParts);
    EXPECT_EQ(ProductKernelOf(element, 17), ProductKernel::kLibrary);
    EXPECT_EQ(KernelWithoutLibrary(element), ProductKernel::kParts);
  }
  // The tensor cores would round it.
  EXPECT_EQ(ProductKernelOf(CudaElement::kF32, 4), ProductKernel::kVector);
  EXPECT_EQ(ProductKernelOf(CudaElement::kF32, 5), ProductKernel::kLibrary);
}

TEST(ProductDispatch, GivesTheVectorKernelNoMoreRowsThanItTakes) {
  for (const CudaElement element : kElements) {
    EXPECT_LE(ProductRowsOf(element).vector, MaxVectorRows(element));
  }
}

}  // namespace
}  // namespace baton
