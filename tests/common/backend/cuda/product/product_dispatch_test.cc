#include "common/backend/cuda/product/product_dispatch.h"

#include <gtest/gtest.h>

#include "common/backend/cuda/product/vector_product.h"

namespace baton {
namespace {

constexpr CudaElement kElements[] = {CudaElement::kF32,  CudaElement::kF16,  CudaElement::kBf16,
                                     CudaElement::kQ8_0, CudaElement::kQ4_0, CudaElement::kQ4_1,
                                     CudaElement::kQ4_K, CudaElement::kQ6_K, CudaElement::kMxfp4};

TEST(ProductDispatch, GoesFromTheVectorKernelThroughTheTensorCoresToTheLibrary) {
  for (const CudaElement element : kElements) {
    EXPECT_EQ(ProductKernelOf(element, 1), ProductKernel::kVector);
    EXPECT_EQ(ProductKernelOf(element, 65), ProductKernel::kLibrary);
    for (int rows = 2; rows <= 65; ++rows) {
      EXPECT_GE(ProductKernelOf(element, rows), ProductKernelOf(element, rows - 1)) << rows;
    }
  }
}

TEST(ProductDispatch, GivesTheVectorKernelNoMoreRowsThanItTakes) {
  for (const CudaElement element : kElements) {
    EXPECT_LE(ProductRowsOf(element).vector, kMaxVectorRows);
  }
}

}  // namespace
}  // namespace baton
