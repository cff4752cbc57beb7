// How well the launches of InvariantPartsKernel fill an H200: computed from the arguments that a
// launch has, without running it.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/backend/cuda/product/invariant_product_launch.h"
#include "tests/common/backend/cuda/product/product_shapes.h"

namespace baton {
namespace {

// The bytes of weights that the blocks of a launch for up to eight rows ask for as it begins, for
// each multiprocessor.
template <CudaElement kElement>
double BytesInFlight(const Product& product) {
  using Block = InvariantBlock<kElement>;
  std::vector<VectorOutput> outputs;
  for (const int count : product.outputs) {
    outputs.push_back({.weight = {nullptr, kElement, count, product.columns}, .out = {}});
  }
  unsigned blocks = 0;
  const InvariantArgs args =
      InvariantArgsFor<Block>({.rows = 8, .columns = product.columns}, outputs, kPartOutputs,
                              /*tile_rows=*/8, &blocks);
  const int running = std::min(static_cast<int>(blocks),
                               PartsShape<Block, 1, 1>::kOccupancy * kH200.multiprocessors);
  // Eight warps, of which each has a part of the columns.
  const int warps = (args.tiles + args.part_tiles - 1) / args.part_tiles;
  const int loads = std::min(PartsShape<Block, 1, 1>::kDepth, args.part_tiles * Block::kOfTile);
  return 16.0 * 32 * 2 * Block::kChunks * loads * warps * running / kH200.multiprocessors;
}

template <CudaElement kElement>
Names ReadTooLittle() {
  return ThoseOf(
      [](const Product& product) { return BytesInFlight<kElement>(product) < kBytesInFlight; });
}

// Launches that are known to be too small. The list may become shorter, never longer.
const Names kSmall = {"1B qkv", "1B output", "1B down"};

TEST(InvariantProductShape, EnoughBytesOfFewRowsWeightsAreInFlight) {
  EXPECT_EQ(ReadTooLittle<CudaElement::kQ4_0>(), kSmall);
  EXPECT_EQ(ReadTooLittle<CudaElement::kQ4_K>(), kSmall);
  EXPECT_EQ(ReadTooLittle<CudaElement::kQ8_0>(), kSmall);
  EXPECT_EQ(ReadTooLittle<CudaElement::kBf16>(), Names());
}

}  // namespace
}  // namespace baton
