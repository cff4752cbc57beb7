#include "common/backend/cuda/product/library/weight_product.h"

#include <algorithm>

#include "common/backend/cuda/product/library/dequantise.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace baton {

absl::Status MultiplyWeight(Gemm& gemm, const Gemm::Product& product, CudaElement in_element,
                            const DequantisedScratch& scratch, cudaStream_t stream) {
  const CudaMatrix& weight = product.weight;
  if (!IsQuantised(weight.element)) {
    BATON_CHECK(in_element == weight.element, "input and weight of one element type");
    return gemm.Multiply(product, stream);
  }
  const size_t row_bytes = CudaRowBytes(in_element, weight.columns);
  BATON_CHECK(scratch.bytes >= row_bytes, "scratch for a row of the weight");
  // If there is room for one, the tile is a whole number of the library's own tiles.
  constexpr int kTileRows = 256;
  const size_t room = std::min(scratch.bytes / row_bytes, static_cast<size_t>(weight.rows));
  const int most = static_cast<int>(room);
  const int tile = most > kTileRows ? most / kTileRows * kTileRows : most;
  for (int first = 0; first < weight.rows; first += tile) {
    const int count = std::min(tile, weight.rows - first);
    LaunchDequantise(weight, first, count, in_element, scratch.data, stream);
    Gemm::Product part = product;
    part.weight = {
        .data = scratch.data, .element = in_element, .rows = count, .columns = weight.columns};
    part.out += first;
    BATON_RETURN_IF_ERROR(gemm.Multiply(part, stream));
  }
  return absl::OkStatus();
}

}  // namespace baton
