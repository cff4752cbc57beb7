// How well the launches of vector_product.h fill an H200, for the products of models of 1, 8 and 70
// billion weights: computed from the arguments that a launch has, without running it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "common/backend/cuda/product/vector/vector_product_launch.h"
#include "tests/common/backend/cuda/product/product_shapes.h"

namespace baton {
namespace {

constexpr double kIdleShare = 0.3;

struct LaunchShape {
  int64_t units;
  int blocks;
  int64_t teams;  // on the whole device
  int rounds;
  double bytes_in_flight;  // weights asked for as the launch begins, for each multiprocessor

  double IdleShare() const {  // rounds of teams that have no unit, as a share of all
    return 1 - static_cast<double>(units) / static_cast<double>(teams * rounds);
  }
};

template <CudaElement kElement>
LaunchShape ShapeOf(const Product& product, int rows) {
  const VectorInput input = {.in = {nullptr, rows, product.columns}};
  std::vector<VectorOutput> outputs;
  for (const int count : product.outputs) {
    outputs.push_back(
        {.weight = {nullptr, kElement, count, product.columns}, .out = {nullptr, rows, count}});
  }
  LaunchShape shape = {};
  WithVectorTile<kElement>(rows, [&](auto tile) {
    using Tile = decltype(tile);
    const VectorArgs args = ArgsFor<Tile>(input, outputs, kH200);
    shape.units = args.units;
    shape.blocks = VectorBlocks<Tile>(args, kH200);
    shape.teams = int64_t{shape.blocks} * (kVectorWarps / args.team_warps);
    shape.rounds = args.rounds;
    const double unit_bytes = 16.0 * Tile::kUnitRows * std::min(args.step_chunks, args.chunks);
    shape.bytes_in_flight = unit_bytes * static_cast<double>(std::min(shape.units, shape.teams)) /
                            kH200.multiprocessors;
  });
  return shape;
}

template <CudaElement kElement, class Fails>
Names Failing(int rows, const Fails& fails) {
  return ThoseOf([&](const Product& product) { return fails(ShapeOf<kElement>(product, rows)); });
}

template <CudaElement kElement>
Names ReadTooLittle(int rows) {
  return ThoseOf([&](const Product& product) {
    return ShapeOf<kElement>(product, rows).bytes_in_flight < product.BytesWanted(kElement);
  });
}
template <CudaElement kElement>
Names IdleMuch(int rows) {
  return Failing<kElement>(rows,
                           [](const LaunchShape& shape) { return shape.IdleShare() > kIdleShare; });
}

TEST(VectorProductShape, EnoughBytesOfBf16WeightsAreInFlight) {
  for (int rows = 1; rows <= MaxVectorRows(CudaElement::kBf16); ++rows) {
    EXPECT_EQ(ReadTooLittle<CudaElement::kBf16>(rows), Names()) << rows;
  }
}

TEST(VectorProductShape, FewTeamsIdle) {
  for (int rows = 1; rows <= MaxVectorRows(CudaElement::kBf16); ++rows) {
    EXPECT_EQ(IdleMuch<CudaElement::kBf16>(rows), Names()) << rows;
  }
}

TEST(VectorProductShape, EveryUnitHasATeamInSomeRound) {
  for (int rows = 1; rows <= MaxVectorRows(CudaElement::kBf16); ++rows) {
    EXPECT_THAT(Failing<CudaElement::kBf16>(
                    rows, [](const LaunchShape& shape) { return shape.IdleShare() < 0; }),
                testing::IsEmpty());
  }
}

// With 512 threads of 64 registers, two blocks fill a multiprocessor.
TEST(VectorProductShape, BlocksOfASmallModelLeaveRoomForThoseOfTheNextKernel) {
  const Product layer[] = {{"qkv", {576, 192, 192}, 576},
                           {"output", {576}, 576},
                           {"gate up", {1536, 1536}, 576},
                           {"down", {576}, 1536}};
  for (size_t i = 0; i < std::size(layer); ++i) {
    const LaunchShape shape = ShapeOf<CudaElement::kBf16>(layer[i], 1);
    const Product& next = layer[(i + 1) % std::size(layer)];
    EXPECT_EQ(shape.rounds, 1);
    EXPECT_LE(shape.blocks + ShapeOf<CudaElement::kBf16>(next, 1).blocks, 2 * kH200.multiprocessors)
        << layer[i].name << ", " << next.name;
  }
}

}  // namespace
}  // namespace baton
