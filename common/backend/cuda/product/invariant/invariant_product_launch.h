// From the description of an invariant product to the launch of its kernel. Several sources include
// this and instantiate invariant_product_kernels.h, each for some element types.
#pragma once

#include <limits>
#include <span>
#include <type_traits>

#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/product/invariant/invariant_product_kernels.h"
#include "common/backend/cuda/product/invariant/quantised_tile_kernel.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "common/base/check.h"

namespace baton {

// Tiles multiply about 2.5 times as fast as InvariantPartsKernel if they keep every multiprocessor
// busy: from this many rows on, and if there are enough tiles.
inline constexpr int kInvariantTilesFrom = 65;
// For tiles of 64 rows the limit is where InvariantPartsKernel takes a second block of rows. That
// one reads the rows' input once for 16 outputs, a tile once for 128. At 64 rows of a
// model of 8 billion weights it reads 60 GB a step, more than the L2 cache gives in 10 ms.
inline constexpr int kInvariantSmallTilesFrom = 33;
template <class Block, int kTerms>
inline constexpr int kTilesFrom =
    kTerms == 1 && TileShape<Block, kTerms>::kRows == 64 ? kInvariantSmallTilesFrom
                                                         : kInvariantTilesFrom;
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
      .term_bytes = int64_t{2} * stride * in.rows,
      .term_row_bytes = int64_t{2} * stride,
      .rows = in.rows,
      .row_tiles = (in.rows + tile_rows - 1) / tile_rows,
      .columns = in.columns,
      .tiles = ColumnTiles(in.columns),
      .part_tiles = InvariantPartTiles(in.columns),
      .row_bytes = static_cast<int64_t>(CudaRowBytes(Block::kElement, in.columns)),
      .splits = 1,
      .split_sums = nullptr,
      .split_arrivals = nullptr,
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

// How InvariantPartsKernel is compiled.
template <class Block, int kRowTiles, int kTerms>
struct PartsShape {
  static constexpr CudaElement kElement = Block::kElement;
  // Thread blocks on a multiprocessor: as many as leave the registers that the kernel needs, 80
  // beside two others, 128 beside one.
  static constexpr int kOccupancy = [] {
    if (Block::kGroups && !Block::kTwoScales && kRowTiles == 2 && kTerms == 1) return 2;
    if (kRowTiles > 1) return IsQuantised(kElement) && (kTerms == 2 || Block::kGroups) ? 1 : 2;
    if (Block::kTwoScales) return kTerms == 2 ? 1 : 2;
    return Block::kTerms == 2 || kTerms == 2 ? 2 : 3;
  }();
  // Column blocks that a warp has loaded ahead, 2 to 4 KB of weights.
  static constexpr int kDepth =
      kOccupancy == 1 || (Block::kLaneColumns == 8 && Block::kChunks == 1) ? 4 : 2;
};

template <class Block, int kRowTiles, int kTerms>
void LaunchParts(const InvariantArgs& args, unsigned blocks, cudaStream_t stream) {
  using Shape = PartsShape<Block, kRowTiles, kTerms>;
  if (blocks == 0) return;
  Launch(InvariantPartsKernel<Block, kRowTiles, Shape::kDepth, Shape::kOccupancy, kTerms>,
         {.grid = blocks,
          .block = kInvariantThreads,
          .shared_bytes = sizeof(float) * kInvariantWarps * kRowTiles * 8 * kPartOutputs,
          .stream = stream,
          .may_start_early = true},
         args);
}

// The kernel for many rows, its shared memory, and its thread blocks on a multiprocessor.
template <class Block, int kTerms, bool kQuantised = IsQuantised(Block::kElement)>
struct TileKernel {
  static constexpr auto* kKernel = InvariantTileKernel<Block, kTerms>;
  static constexpr size_t kSharedBytes = TileShape<Block, kTerms>::kSharedBytes;
  static constexpr int kBlocks = 1;
};
template <class Block, int kTerms>
struct TileKernel<Block, kTerms, true> {
  static constexpr auto* kKernel = QuantisedTileKernel<Block, kTerms>;
  static constexpr size_t kSharedBytes = QuantisedTileShape<Block, kTerms>::kSharedBytes;
  static constexpr int kBlocks = QuantisedTileShape<Block, kTerms>::kOccupancy;
};

// Gives each of `tiles` tiles as many thread blocks as the columns have parts of args.part_tiles, and
// makes as many of `tiles`. REQUIRES: at most one tile for each multiprocessor, if there are more parts
// than one.
inline void DivideColumns(const DeviceLimits& limits, const SplitScratch& scratch,
                          InvariantArgs& args, unsigned* tiles) {
  args.splits = (args.tiles + args.part_tiles - 1) / args.part_tiles;
  auto* const data = static_cast<uint8_t*>(scratch.data);
  args.split_arrivals = reinterpret_cast<int32_t*>(data);
  args.split_sums = data + SplitArrivalBytes(limits.multiprocessors);
  *tiles *= static_cast<unsigned>(args.splits);
}

// Divides the columns of quantised weights if that leaves no tile waiting for another.
template <class Block, int kTerms>
void DivideFewTiles(const DeviceLimits& limits, const SplitScratch& scratch, InvariantArgs& args,
                    unsigned* tiles) {
  if constexpr (IsQuantised(Block::kElement)) {
    constexpr int kBlocks = TileKernel<Block, kTerms>::kBlocks;
    static_assert(kBlocks <= 2, "at most one tile for each multiprocessor");
    const int places = limits.multiprocessors * kBlocks;
    if (scratch.data == nullptr || static_cast<int64_t>(*tiles) * 2 > places) return;
    DivideColumns(limits, scratch, args, tiles);
  }
}

// Calls parts(args, blocks, std::integral_constant<int, row tiles>) for InvariantPartsKernel, or
// tiles(args, blocks) for the TileKernel: whichever `in` takes. `blocks` are the launch's.
template <class Block, int kTerms, class Parts, class Tiles>
void WithInvariantKernel(const ProductTerms& in, std::span<const VectorOutput> outputs,
                         const DeviceLimits& limits, const SplitScratch& scratch,
                         const Parts& parts, const Tiles& tiles) {
  unsigned blocks = 0;
  const auto with_row_tiles = [&](auto row_tiles) {
    const InvariantArgs args =
        InvariantArgsFor<Block>(in, outputs, kPartOutputs, row_tiles * 8, &blocks);
    parts(args, blocks, row_tiles);
  };
  if (in.rows <= 8) return with_row_tiles(std::integral_constant<int, 1>());
  if (in.rows <= 16) return with_row_tiles(std::integral_constant<int, 2>());
  // Four tiles of two terms of rows would not leave codes in groups enough registers.
  constexpr int kMostRowTiles = Block::kGroups && kTerms == 2 ? 2 : 4;
  if (in.rows >= kTilesFrom<Block, kTerms> &&
      limits.shared_bytes >= TileKernel<Block, kTerms>::kSharedBytes) {
    InvariantArgs args = InvariantArgsFor<Block>(in, outputs, kTileOutputs,
                                                 TileShape<Block, kTerms>::kRows, &blocks);
    DivideFewTiles<Block, kTerms>(limits, scratch, args, &blocks);
    if (EnoughTiles(blocks, limits.multiprocessors)) return tiles(args, blocks);
  }
  with_row_tiles(std::integral_constant<int, kMostRowTiles>());
}

template <CudaElement kElement, int kTerms>
void LaunchInvariantTerms(const ProductTerms& in, std::span<const VectorOutput> outputs,
                          const DeviceLimits& limits, const SplitScratch& scratch,
                          cudaStream_t stream) {
  using Block = InvariantBlock<kElement>;
  WithInvariantKernel<Block, kTerms>(
      in, outputs, limits, scratch,
      [&](const InvariantArgs& args, unsigned blocks, auto row_tiles) {
        LaunchParts<Block, row_tiles, kTerms>(args, blocks, stream);
      },
      [&](const InvariantArgs& args, unsigned blocks) {
        Launch(TileKernel<Block, kTerms>::kKernel,
               {.grid = blocks,
                .block = kInvariantThreads,
                .shared_bytes = TileKernel<Block, kTerms>::kSharedBytes,
                .stream = stream,
                .may_start_early = true},
               args);
      });
}

template <CudaElement kElement>
void LaunchInvariantElement(const ProductTerms& in, std::span<const VectorOutput> outputs,
                            const DeviceLimits& limits, const SplitScratch& scratch,
                            cudaStream_t stream) {
  if (in.terms == 2) return LaunchInvariantTerms<kElement, 2>(in, outputs, limits, scratch, stream);
  LaunchInvariantTerms<kElement, 1>(in, outputs, limits, scratch, stream);
}

// Multiplies with those outputs' weights that are BF16 (invariant_product_bf16.cu).
void LaunchBf16InvariantProduct(const ProductTerms& in, std::span<const VectorOutput> outputs,
                                const DeviceLimits& limits, cudaStream_t stream);

// Multiplies with those outputs' weights that are quantised (invariant_product_quantised.cu).
void LaunchQuantisedInvariantProduct(const ProductTerms& in, std::span<const VectorOutput> outputs,
                                     const DeviceLimits& limits, const SplitScratch& scratch,
                                     cudaStream_t stream);

}  // namespace baton
