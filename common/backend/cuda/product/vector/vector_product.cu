#include "common/backend/cuda/product/vector/vector_product.h"
#include "common/backend/cuda/product/vector/vector_product_launch.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "common/base/check.h"

namespace baton {
int VectorTeamWarps(CudaElement element, int64_t outputs, int columns) {
  // About as many warps as a large device holds; with more, each would have too little to read.
  constexpr int64_t kWarpsWanted = 4096;
  const int chunk_columns = ChunkColumns(element);
  const int chunks = CeilDiv(columns, chunk_columns);
  int warps = 1;
  // At most 512 columns in a sweep, unless one warp has more: this bounds the shared memory of a
  // step.
  while (warps * chunk_columns < 16 && outputs * warps * 2 <= kWarpsWanted &&
         chunks >= 64 * warps) {
    warps *= 2;
  }
  return warps;
}

bool MakeGatesFirst(int rows, int columns) {
  constexpr int64_t kMostGates = 16384;  // gates made on one multiprocessor
  const int blocks = rows == 1 ? 2 : 1;  // blocks on a multiprocessor (WithVectorTile)
  return int64_t{rows} * columns * blocks > kMostGates;
}

void LaunchVectorProduct(const VectorInput& input, std::span<const VectorOutput> outputs,
                         const DeviceLimits& limits, cudaStream_t stream) {
  BATON_CHECK(!outputs.empty() && outputs.size() <= kMaxVectorOutputs, "outputs of one input");
  for (const VectorOutput& output : outputs) {
    BATON_CHECK(input.in.rows >= 1 && input.in.rows <= MaxVectorRows(output.weight.element),
                "rows of a vector product");
    BATON_CHECK(output.weight.columns == input.in.columns && output.out.rows == input.in.rows &&
                    output.out.columns == output.weight.rows,
                "shapes of a vector product");
  }
  LaunchElement<CudaElement::kF32>(input, outputs, limits, stream);
  LaunchElement<CudaElement::kF16>(input, outputs, limits, stream);
  LaunchElement<CudaElement::kBf16>(input, outputs, limits, stream);
}

}  // namespace baton
