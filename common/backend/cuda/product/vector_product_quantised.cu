// The kernels for quantised weights, in a file of their own because they take long to compile.
#include "common/backend/cuda/product/vector_product_launch.h"

namespace baton {

void LaunchQuantisedVectorProduct(const VectorInput& input, std::span<const VectorOutput> outputs,
                                  const DeviceLimits& limits, cudaStream_t stream) {
  LaunchElement<CudaElement::kQ8_0>(input, outputs, limits, stream);
  LaunchElement<CudaElement::kQ6_K>(input, outputs, limits, stream);
}

}  // namespace baton
