// From the description of an invariant product to the launch of its kernel. Several sources include
// this and instantiate invariant_product_kernels.h, each for some element types.
#pragma once

#include <limits>
#include <span>

#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/product/invariant_product_kernels.h"
#include "common/backend/cuda/product/weight_layout.h"
#include "common/base/check.h"

namespace baton {

// InvariantTileKernel multiplies about 2.5 times as fast as InvariantPartsKernel if its tiles keep
// every multiprocessor busy: from so many rows on, and if there are enough tiles.
inline constexpr int kInvariantTilesFrom = 65;
inline bool EnoughTiles(unsigned tiles, int multiprocessors) {
  return static_cast<int64_t>(tiles) * 5 >= int64_t{multiprocessors} * 2;
}

// The arguments of a kernel whose thread blocks have `unit_outputs` outputs and `tile_rows` rows
// each. `blocks` becomes the number of thread blocks.
template <class Block>
InvariantArgs InvariantArgsFor(const ProductTerms& in, std::span<const VectorOutput> outputs,
                               int unit_outputs, int tile_rows, unsigned* blocks) {
  const int stride = ProductTermStride(in.columns);
  InvariantArgs args = {
      .terms = static_cast<const uint8_t*>(in.data),
      .term_count = in.terms,
      .term_bytes = int64_t{2} * stride * in.rows,
      .term_row_bytes = int64_t{2} * stride,
      .rows = in.rows,
      .row_tiles = (in.rows + tile_rows - 1) / tile_rows,
      .columns = in.columns,
      .tiles = ColumnTiles(in.columns),
      .part_tiles = InvariantPartTiles(in.columns),
      .row_bytes = static_cast<int64_t>(CudaRowBytes(Block::kElement, in.columns)),
      .matrix_count = 0,
      .matrices = {}};
  int units = 0;
  for (const VectorOutput& output : outputs) {
    const CudaMatrix& weight = output.weight;
    if (weight.element != Block::kElement) continue;
    args.matrices[args.matrix_count++] = {static_cast<const uint8_t*>(weight.data),
                                          output.out.data,
                                          weight.rows,
                                          units,
                                          output.accumulate,
                                          output.scale};
    units += (weight.rows + unit_outputs - 1) / unit_outputs;
  }
  const int64_t all = int64_t{units} * args.row_tiles;
  BATON_CHECK(all <= std::numeric_limits<int>::max(), "blocks of a launch");
  *blocks = static_cast<unsigned>(all);
  return args;
}

template <class Block, int kRowTiles, int kDepth, int kOccupancy>
void LaunchParts(const ProductTerms& in, std::span<const VectorOutput> outputs,
                 cudaStream_t stream) {
  unsigned blocks = 0;
  const InvariantArgs args =
      InvariantArgsFor<Block>(in, outputs, kPartOutputs, kRowTiles * 8, &blocks);
  if (blocks == 0) return;
  Launch(InvariantPartsKernel<Block, kRowTiles, kDepth, kOccupancy>,
         {.grid = blocks,
          .block = kInvariantThreads,
          .shared_bytes = sizeof(float) * kInvariantWarps * kRowTiles * 8 * kPartOutputs,
          .stream = stream,
          .may_start_early = true},
         args);
}

template <CudaElement kElement>
void LaunchInvariantElement(const ProductTerms& in, std::span<const VectorOutput> outputs,
                            const DeviceLimits& limits, cudaStream_t stream) {
  using Block = InvariantBlock<kElement>;
  // A warp then has 2 to 4 KB of weights in flight.
  constexpr int kDepth = Block::kLaneColumns == 8 && Block::kChunks == 1 ? 4 : 2;
  // The other types need more than the 80 registers that three blocks on a multiprocessor leave.
  constexpr bool kThreeBlocks =
      Block::kTerms == 1 && kElement != CudaElement::kQ4_K && kElement != CudaElement::kQ6_K;
  constexpr int kOccupancy = kThreeBlocks ? 3 : 2;
  if (in.rows <= 8) return LaunchParts<Block, 1, kDepth, kOccupancy>(in, outputs, stream);
  unsigned blocks = 0;
  const InvariantArgs args = InvariantArgsFor<Block>(in, outputs, kTileOutputs, kTileRows, &blocks);
  if (in.rows < kInvariantTilesFrom || !EnoughTiles(blocks, limits.multiprocessors)) {
    return LaunchParts<Block, 4, kDepth, 2>(in, outputs, stream);
  }
  Launch(InvariantTileKernel<Block>,
         {.grid = blocks,
          .block = kInvariantThreads,
          .shared_bytes = static_cast<size_t>(TileSharedBytes(in.terms)),
          .stream = stream,
          .may_start_early = true},
         args);
}

// Multiplies with those outputs' weights that are quantised (invariant_product_quantised.cu).
void LaunchQuantisedInvariantProduct(const ProductTerms& in, std::span<const VectorOutput> outputs,
                                     const DeviceLimits& limits, cudaStream_t stream);

}  // namespace baton
