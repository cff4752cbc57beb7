#include "common/backend/cuda/product/two_rows/two_row_product.h"
#include "common/backend/cuda/product/two_rows/two_row_product_launch.h"
#include "common/base/check.h"

namespace baton {

void LaunchTwoRowProduct(const ProductTerms& in, std::span<const VectorOutput> outputs,
                         cudaStream_t stream) {
  BATON_CHECK(in.terms == 1 && in.rows <= kTwoRows, "one or two rows of one term");
  for (const VectorOutput& output : outputs) {
    BATON_CHECK(IsQuantised(output.weight.element), "the weights must be quantised");
  }
  LaunchTwoRows<CudaElement::kQ8_0>(in, outputs, stream);
  LaunchTwoRows<CudaElement::kQ4_0>(in, outputs, stream);
  LaunchTwoRows<CudaElement::kQ4_1>(in, outputs, stream);
  LaunchTwoRows<CudaElement::kQ4_K>(in, outputs, stream);
  LaunchTwoRows<CudaElement::kQ6_K>(in, outputs, stream);
  LaunchTwoRows<CudaElement::kMxfp4>(in, outputs, stream);
}

}  // namespace baton
