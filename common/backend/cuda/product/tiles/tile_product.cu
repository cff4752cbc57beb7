#include <type_traits>
#include <vector>

#include "common/backend/cuda/product/tiles/tile_product.h"
#include "common/backend/cuda/product/tiles/tile_product_launch.h"
#include "common/base/check.h"

namespace baton {

void LaunchTileProduct(const ProductTerms& in, std::span<const VectorOutput> outputs,
                       const DeviceLimits& limits, const SplitScratch& scratch,
                       cudaStream_t stream) {
  BATON_CHECK(in.terms == 1, "the input must have one term", in.terms);
  for (const VectorOutput& output : outputs) {
    BATON_CHECK(IsQuantised(output.weight.element), "the weights must be quantised");
  }
  std::vector<VectorOutput> others;
  const auto launch = [&](auto element) {
    const bool launched = WithTileRows(in.rows, [&](auto tile_rows) {
      return LaunchTiles<element, tile_rows>(in, outputs, limits, scratch, stream);
    });
    if (launched) return;
    for (const VectorOutput& output : outputs) {
      if (output.weight.element == element) others.push_back(output);
    }
  };
  launch(std::integral_constant<CudaElement, CudaElement::kQ8_0>());
  launch(std::integral_constant<CudaElement, CudaElement::kQ4_0>());
  launch(std::integral_constant<CudaElement, CudaElement::kQ4_1>());
  launch(std::integral_constant<CudaElement, CudaElement::kQ4_K>());
  launch(std::integral_constant<CudaElement, CudaElement::kQ6_K>());
  launch(std::integral_constant<CudaElement, CudaElement::kMxfp4>());
  if (!others.empty()) LaunchInvariantProduct(in, others, limits, scratch, stream);
}

}  // namespace baton
