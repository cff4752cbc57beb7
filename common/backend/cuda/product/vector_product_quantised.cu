// The kernels for quantised weights, in a file of their own because they take long to compile.
#include "common/backend/cuda/product/vector_product_launch.h"

namespace baton {
namespace {

// A chunk is 32 columns (Q8_0: 16), so fewer chunks put as many bytes in flight.
template <CudaElement kElement>
void LaunchElement(const VectorInput& input, std::span<const VectorOutput> outputs,
                   const DeviceLimits& limits, cudaStream_t stream) {
  if (input.in.rows == 1) {
    LaunchTile<kElement, 1, 2, 1, 2>(input, outputs, limits, stream);
  } else if (input.in.rows <= 4) {
    LaunchTile<kElement, 4, 2, 2, 1>(input, outputs, limits, stream);
  } else if (input.in.rows <= 8) {
    LaunchTile<kElement, 8, 4, 1, 1>(input, outputs, limits, stream);
  } else {
    LaunchTile<kElement, kMaxVectorRows, 2, 1, 1>(input, outputs, limits, stream);
  }
}

}  // namespace

void LaunchQuantisedVectorProduct(const VectorInput& input, std::span<const VectorOutput> outputs,
                                  const DeviceLimits& limits, cudaStream_t stream) {
  LaunchElement<CudaElement::kQ8_0>(input, outputs, limits, stream);
  LaunchElement<CudaElement::kQ4_0>(input, outputs, limits, stream);
  LaunchElement<CudaElement::kQ4_1>(input, outputs, limits, stream);
  LaunchElement<CudaElement::kMxfp4>(input, outputs, limits, stream);
  LaunchElement<CudaElement::kQ4_K>(input, outputs, limits, stream);
  LaunchElement<CudaElement::kQ6_K>(input, outputs, limits, stream);
}

}  // namespace baton
