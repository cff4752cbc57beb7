// The kernels for quantised weights, in a file of their own because they take long to compile.
#include "common/backend/cuda/experts/expert_product_kernel.h"

namespace baton {

void LaunchQuantisedExpertProduct(const ExpertProductInput& in,
                                  std::span<const ExpertOutput> outputs, const ExpertPairs& pairs,
                                  int tile_pairs, cudaStream_t stream) {
  switch (outputs[0].weights[0].element) {
    case CudaElement::kQ8_0:
      return LaunchExpertElement<CudaElement::kQ8_0>(in, outputs, pairs, tile_pairs, stream);
    case CudaElement::kQ4_0:
      return LaunchExpertElement<CudaElement::kQ4_0>(in, outputs, pairs, tile_pairs, stream);
    case CudaElement::kQ4_1:
      return LaunchExpertElement<CudaElement::kQ4_1>(in, outputs, pairs, tile_pairs, stream);
    case CudaElement::kQ4_K:
      return LaunchExpertElement<CudaElement::kQ4_K>(in, outputs, pairs, tile_pairs, stream);
    case CudaElement::kQ6_K:
      return LaunchExpertElement<CudaElement::kQ6_K>(in, outputs, pairs, tile_pairs, stream);
    case CudaElement::kMxfp4:
      return LaunchExpertElement<CudaElement::kMxfp4>(in, outputs, pairs, tile_pairs, stream);
    default:
      BATON_CHECK(false, "the weight must be quantised");
  }
}

}  // namespace baton
