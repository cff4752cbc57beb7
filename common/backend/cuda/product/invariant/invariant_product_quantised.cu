// The kernels for quantised weights, in a file of their own because they take long to compile.
#include "common/backend/cuda/product/invariant/invariant_product_launch.h"

namespace baton {

void LaunchQuantisedInvariantProduct(const ProductTerms& in, std::span<const VectorOutput> outputs,
                                     const DeviceLimits& limits, const SplitScratch& scratch,
                                     cudaStream_t stream) {
  LaunchInvariantElement<CudaElement::kQ8_0>(in, outputs, limits, scratch, stream);
  LaunchInvariantElement<CudaElement::kQ4_0>(in, outputs, limits, scratch, stream);
  LaunchInvariantElement<CudaElement::kQ4_1>(in, outputs, limits, scratch, stream);
  LaunchInvariantElement<CudaElement::kMxfp4>(in, outputs, limits, scratch, stream);
  LaunchInvariantElement<CudaElement::kQ4_K>(in, outputs, limits, scratch, stream);
  LaunchInvariantElement<CudaElement::kQ6_K>(in, outputs, limits, scratch, stream);
}

}  // namespace baton
