#include "common/backend/cuda/product/invariant/invariant_product.h"
#include "common/backend/cuda/product/invariant/invariant_product_launch.h"
#include "common/base/check.h"

namespace baton {

void LaunchInvariantProduct(const ProductTerms& in, std::span<const VectorOutput> outputs,
                            const DeviceLimits& limits, const SplitScratch& scratch,
                            cudaStream_t stream) {
  BATON_CHECK(in.rows > 0 && !outputs.empty() && outputs.size() <= kMaxVectorOutputs,
              "rows and outputs of a product");
  for (const VectorOutput& output : outputs) {
    BATON_CHECK(output.weight.columns == in.columns && output.out.rows == in.rows &&
                    output.out.columns == output.weight.rows,
                "shapes of a product");
  }
  LaunchInvariantElement<CudaElement::kF32>(in, outputs, limits, scratch, stream);
  LaunchInvariantElement<CudaElement::kF16>(in, outputs, limits, scratch, stream);
  LaunchBf16InvariantProduct(in, outputs, limits, stream);
  LaunchQuantisedInvariantProduct(in, outputs, limits, scratch, stream);
}

}  // namespace baton
