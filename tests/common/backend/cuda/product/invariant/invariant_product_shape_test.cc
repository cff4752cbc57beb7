// How well the launches of invariant_product.h, two_row_product.h and tile_product.h fill an H200 where
// ProductKernelOf names them: computed from the arguments that a launch has, without running it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "common/backend/cuda/product/invariant/invariant_product_launch.h"
#include "common/backend/cuda/product/product_dispatch.h"
#include "common/backend/cuda/product/tiles/tile_product_launch.h"
#include "common/backend/cuda/product/two_rows/two_row_product_launch.h"
#include "tests/common/backend/cuda/product/product_shapes.h"

namespace baton {
namespace {

struct InvariantShape {
  bool tiles;            // TileKernel, or that of tile_product.h
  double columns_share;  // share of a block's possible columns that exist
  Waves waves;
};

template <CudaElement kElement, int kTerms>
InvariantShape ShapeOfTerms(const Product& product, int rows) {
  using Block = InvariantBlock<kElement>;
  std::vector<VectorOutput> outputs;
  for (const int count : product.outputs) {
    outputs.push_back({.weight = {nullptr, kElement, count, product.columns}, .out = {}});
  }
  const ProductTerms in = {.terms = kTerms, .rows = rows, .columns = product.columns};
  // Bytes that a warp loads for a column block of its 16 outputs.
  constexpr double kWarpBytes = 16.0 * 32 * 2 * Block::kChunks;
  InvariantShape shape = {};
  const auto set = [&](const InvariantArgs& args, unsigned blocks, int on_multiprocessor,
                       int loads) {
    shape.columns_share =
        static_cast<double>(args.tiles) / (kInvariantWarps * InvariantPartTiles(args.columns));
    shape.waves = {.blocks = static_cast<int>(blocks),
                   .places = on_multiprocessor * kH200.multiprocessors,
                   .block_bytes = kWarpBytes * loads * kInvariantWarps};
  };
  if constexpr (IsQuantised(kElement)) {
    if (ProductKernelOf(kElement, rows) == ProductKernel::kTwoRows) {
      using Shape = TwoRowShape<kElement>;
      unsigned blocks = 0;
      const InvariantArgs args = TwoRowArgsFor<kElement>(in, outputs, &blocks);
      set(args, blocks, Shape::kOccupancy,
          std::min(Shape::kDepth, args.part_tiles) * Block::kOfTile);
      return shape;
    }
    if (ProductKernelOf(kElement, rows) == ProductKernel::kTiles) {
      WithTileRows(rows, [&](auto tile_rows) {
        using Shape = TileProductShape<kElement, tile_rows>;
        unsigned blocks = 0;
        const InvariantArgs args =
            TileProductArgsFor<kElement, tile_rows>(in, outputs, kH200, {&shape}, &blocks);
        shape.tiles = EnoughTiles(blocks, kH200.multiprocessors);
        set(args, blocks, Shape::kOccupancy, Shape::kStages - 1);
      });
      if (shape.tiles) return shape;
    }
  }
  WithInvariantKernel<Block, kTerms>(
      in, outputs, kH200, {&shape},  // not used
      [&](const InvariantArgs& args, unsigned blocks, auto row_tiles) {
        using Parts = PartsShape<Block, row_tiles, kTerms>;
        set(args, blocks, Parts::kOccupancy,
            std::min(Parts::kDepth, args.part_tiles * Block::kOfTile));
      },
      [&](const InvariantArgs& args, unsigned blocks) {
        shape.tiles = true;
        set(args, blocks, TileKernel<Block, kTerms>::kBlocks, 1);
      });
  return shape;
}

template <CudaElement kElement>
InvariantShape ShapeOf(const Product& product, int rows) {
  return PartsTermsOf(kElement) == 2 ? ShapeOfTerms<kElement, 2>(product, rows)
                                     : ShapeOfTerms<kElement, 1>(product, rows);
}

template <CudaElement kElement>
using Of = std::integral_constant<CudaElement, kElement>;

// Calls visit(type, element, rows) for each launch that ProductKernelOf gives to these kernels.
template <class Visit>
void ForEachLaunch(const Visit& visit) {
  const auto of = [&](const char* type, auto element) {
    for (const int rows : kStepRows) {
      const ProductKernel kernel = ProductKernelOf(element, rows);
      if (kernel == ProductKernel::kTwoRows || kernel == ProductKernel::kParts ||
          kernel == ProductKernel::kTiles) {
        visit(type, element, rows);
      }
    }
  };
  of("BF16", Of<CudaElement::kBf16>());
  of("F16", Of<CudaElement::kF16>());
  of("Q8_0", Of<CudaElement::kQ8_0>());
  of("Q4_0", Of<CudaElement::kQ4_0>());
  of("Q4_1", Of<CudaElement::kQ4_1>());
  of("Q4_K", Of<CudaElement::kQ4_K>());
  of("Q6_K", Of<CudaElement::kQ6_K>());
  of("MXFP4", Of<CudaElement::kMxfp4>());
}

// "Q4_0 1, 2 rows: 1B qkv, 1B down", a line for each type and those of its row counts of which the
// same products fail.
template <class Fails>
std::string Failing(const Fails& fails) {
  std::string text, type_before;
  Names names_before;
  ForEachLaunch([&](const std::string& type, auto element, int rows) {
    const Names names = ThoseOf([&](const Product& product) {
      return fails(ShapeOf<element>(product, rows), product.BytesWanted(element));
    });
    if (!names.empty() && type == type_before && names == names_before) {
      text.insert(text.rfind(" rows:"), ", " + std::to_string(rows));
    } else if (!names.empty()) {
      text += type + " " + std::to_string(rows) + " rows:";
      for (const std::string& name : names) text += " " + name + ",";
      text.back() = '\n';
    }
    type_before = type;
    names_before = names;
  });
  return text;
}

// The list may become shorter, never longer. All of it are a model's of 1 billion weights:
//   - 2048 outputs are 128 blocks, one for a multiprocessor, that have two column blocks of each warp
//     in flight; three times as many blocks would have enough;
//   - with codes in groups and many rows a block needs so many registers that there is no second
//     one, and two tiles of 2048 columns are all that a warp has.
TEST(InvariantProductShape, WeightsComeAtSevenTenthsOfTheMemorysRateOrAllAtOnce) {
  EXPECT_EQ(Failing([](const InvariantShape& shape, double wanted) {
              const Waves& waves = shape.waves;
              const bool at_once = waves.blocks <= waves.places && waves.BytesInFlight() >= wanted;
              return !shape.tiles && !at_once && waves.MemoryShare() < 0.7;
            }),
            "Q8_0 4, 8, 16 rows: 1B output, 1B down\n"
            "Q4_0 1, 2, 4, 8, 16 rows: 1B down\n"
            "Q4_1 1, 2, 4, 8 rows: 1B down\n"
            "Q4_1 16 rows: 1B qkv, 1B gate up, 1B logits\n"
            "Q4_K 4, 8 rows: 1B down\n"
            "Q4_K 16 rows: 1B qkv, 1B gate up, 1B logits\n"
            "Q6_K 4, 8 rows: 1B down\n"
            "Q6_K 16 rows: 1B qkv, 1B gate up, 1B logits\n"
            "MXFP4 1, 2, 4, 8, 16 rows: 1B down\n");
}

// They multiply many rows with each weight: what counts is that all multiprocessors do, and as much as the
// others. The weights of a block come while those before them are multiplied.
TEST(InvariantProductShape, TilesAreForMoreThan16RowsAndOccupyTheDevice) {
  ForEachLaunch([](const char* type, auto element, int rows) {
    const Names names = ThoseOf([&](const Product& product) {
      const InvariantShape shape = ShapeOf<element>(product, rows);
      const Waves evenly = {
          .blocks = shape.waves.blocks, .places = kH200.multiprocessors, .block_bytes = 0};
      return shape.tiles && (rows <= 16 || evenly.BusyShare() < 0.7);
    });
    EXPECT_EQ(names, Names()) << type << " " << rows;
  });
}

TEST(InvariantProductShape, EveryWarpHasColumns) {
  EXPECT_EQ(Failing([](const InvariantShape& shape, double) { return shape.columns_share < 0.95; }),
            "");
}

}  // namespace
}  // namespace baton
