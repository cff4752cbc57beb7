#include "common/backend/cuda/experts/expert_product.h"
#include "common/backend/cuda/experts/expert_product_kernel.h"
#include "common/base/check.h"

namespace baton {

void LaunchExpertProduct(const ExpertProductInput& in, std::span<const ExpertOutput> outputs,
                         const ExpertPairs& pairs, int tile_pairs, cudaStream_t stream) {
  BATON_CHECK(outputs.size() == 1 || outputs.size() == 2, "outputs of one input");
  BATON_CHECK(
      tile_pairs == kTwoTilePairs || tile_pairs == kFewTilePairs || tile_pairs == kManyTilePairs,
      "pairs of a tile");
  const CudaMatrix& first = outputs[0].weights[0];
  for (const ExpertOutput& output : outputs) {
    BATON_CHECK(output.weights.size() <= kMaxExperts, "at most 512 experts on a CUDA device");
    for (const CudaMatrix& weight : output.weights) {
      BATON_CHECK(weight.element == first.element && weight.rows == first.rows &&
                      weight.columns == in.terms.columns,
                  "weights of one type and shape");
    }
  }
  switch (first.element) {
    case CudaElement::kF32:
      return LaunchExpertElement<CudaElement::kF32>(in, outputs, pairs, tile_pairs, stream);
    case CudaElement::kF16:
      return LaunchExpertElement<CudaElement::kF16>(in, outputs, pairs, tile_pairs, stream);
    case CudaElement::kBf16:
      return LaunchExpertElement<CudaElement::kBf16>(in, outputs, pairs, tile_pairs, stream);
    default:
      return LaunchQuantisedExpertProduct(in, outputs, pairs, tile_pairs, stream);
  }
}

}  // namespace baton
