// From the description of a product of many rows to the launch of its kernel.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>

#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/product/invariant/invariant_product_launch.h"
#include "common/backend/cuda/product/tiles/tile_product_kernel.h"

namespace baton {

// The thread blocks that a launch should have for each multiprocessor. A third one is left for the next
// kernel, whose weights come while this one ends.
inline constexpr int kTileBlocksWanted = 2;
// A block that has fewer column tiles would wait for its first ones most of the time.
inline constexpr int kLeastPartTiles = 2;

// Calls visit(std::integral_constant<int, rows of a tile>) with those that a product of `rows` takes.
template <class Visit>
auto WithTileRows(int rows, const Visit& visit) {
  if (rows <= 32) return visit(std::integral_constant<int, 32>());
  return visit(std::integral_constant<int, 64>());
}

// The launch's arguments. `blocks` becomes the number of thread blocks, 0 if there is no such weight.
template <CudaElement kElement, int kRows>
InvariantArgs TileProductArgsFor(const ProductTerms& in, std::span<const VectorOutput> outputs,
                                 const DeviceLimits& limits, const SplitScratch& scratch,
                                 unsigned* blocks) {
  using Shape = TileProductShape<kElement, kRows>;
  InvariantArgs args =
      InvariantArgsFor<typename Shape::Block>(in, outputs, Shape::kOutputs, kRows, blocks);
  args.part_tiles = args.tiles;
  if (*blocks == 0 || scratch.data == nullptr) return args;
  const int64_t wanted = int64_t{limits.multiprocessors} * kTileBlocksWanted / *blocks;
  const auto parts = static_cast<int>(std::min<int64_t>(wanted, args.tiles / kLeastPartTiles));
  if (parts < 2) return args;
  args.part_tiles = (args.tiles + parts - 1) / parts;
  DivideColumns(limits, scratch, args, blocks);
  return args;
}

// Multiplies with the weights of this element type, if there are any. False, and nothing is done, where
// another kernel is better (tile_product.h).
template <CudaElement kElement, int kRows>
bool LaunchTiles(const ProductTerms& in, std::span<const VectorOutput> outputs,
                 const DeviceLimits& limits, const SplitScratch& scratch, cudaStream_t stream) {
  using Shape = TileProductShape<kElement, kRows>;
  unsigned blocks = 0;
  const InvariantArgs args =
      TileProductArgsFor<kElement, kRows>(in, outputs, limits, scratch, &blocks);
  if (blocks == 0) return true;
  if (limits.shared_bytes < Shape::kSharedBytes || !EnoughTiles(blocks, limits.multiprocessors)) {
    return false;
  }
  Launch(TileProductKernel<kElement, kRows>,
         {.grid = blocks,
          .block = Shape::kThreads,
          .shared_bytes = Shape::kSharedBytes,
          .stream = stream,
          .may_start_early = true},
         args);
  return true;
}

}  // namespace baton
