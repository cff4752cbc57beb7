// From the description of a product of one or two rows to the launch of its kernel.
#pragma once

#include <span>

#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/product/invariant/invariant_product_launch.h"
#include "common/backend/cuda/product/two_rows/two_row_product_kernel.h"

namespace baton {

// How TwoRowKernel is compiled.
template <CudaElement kElement>
struct TwoRowShape {
  // Thread blocks on a multiprocessor: as many as leave the registers that the kernel needs, 80
  // beside two others, 128 beside one.
  static constexpr int kOccupancy =
      BlockColumns(kElement) > 32 || kElement == CudaElement::kQ8_0 ? 2 : 3;
  // Tiles that a warp has loaded ahead, each of 1 KB of codes, or 2 of Q8_0: as many as registers are
  // left for.
  static constexpr int kDepth = kElement == CudaElement::kQ4_K   ? 4
                                : kElement == CudaElement::kQ6_K ? 3
                                                                 : 2;
};

// The launch's arguments. `blocks` becomes the number of thread blocks.
template <CudaElement kElement>
InvariantArgs TwoRowArgsFor(const ProductTerms& in, std::span<const VectorOutput> outputs,
                            unsigned* blocks) {
  return InvariantArgsFor<InvariantBlock<kElement>>(in, outputs, kPartOutputs, kTwoRows, blocks);
}

template <CudaElement kElement>
void LaunchTwoRows(const ProductTerms& in, std::span<const VectorOutput> outputs,
                   cudaStream_t stream) {
  using Shape = TwoRowShape<kElement>;
  unsigned blocks = 0;
  const InvariantArgs args = TwoRowArgsFor<kElement>(in, outputs, &blocks);
  if (blocks == 0) return;
  Launch(TwoRowKernel<kElement, Shape::kDepth, Shape::kOccupancy>,
         {.grid = blocks,
          .block = kInvariantThreads,
          .shared_bytes = sizeof(float) * kInvariantWarps * kTwoRows * kPartOutputs,
          .stream = stream,
          .may_start_early = true},
         args);
}

}  // namespace baton
