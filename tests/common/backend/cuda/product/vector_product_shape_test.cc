// How well the launches of vector_product.h fill an H200, for the products of models of 1, 8 and 70
// billion weights: computed from the arguments that a launch has, without running it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/backend/cuda/product/vector_product_launch.h"

namespace baton {
namespace {

constexpr DeviceLimits kH200 = {.multiprocessors = 132, .shared_bytes = 227 * 1024};
// vector_product.h says that 33 KB must be in flight on each multiprocessor. Units are whole, so that
// some launches have a little less.
constexpr double kBytesInFlight = 31e3;
constexpr double kIdleShare = 0.3;

struct Product {
  std::string name;
  std::vector<int> outputs;  // rows of each weight
  int columns;
};

struct Model {
  std::string name;
  int hidden;
  int feed_forward;
  int kv_columns;
  int vocabulary;

  std::vector<Product> Products() const {
    return {{"qkv", {hidden, kv_columns, kv_columns}, hidden},
            {"output", {hidden}, hidden},
            {"gate up", {feed_forward, feed_forward}, hidden},
            {"down", {hidden}, feed_forward},
            {"logits", {vocabulary}, hidden}};
  }
};

const std::vector<Model>& Models() {
  static const auto& models = *new std::vector<Model>{{"1B", 2048, 8192, 512, 128256},
                                                      {"8B", 4096, 14336, 1024, 128256},
                                                      {"70B", 8192, 28672, 1024, 128256}};
  return models;
}

struct LaunchShape {
  int64_t units;
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
    shape.teams = int64_t{VectorBlocks<Tile>(args, kH200)} * (kVectorWarps / args.team_warps);
    shape.rounds = args.rounds;
    const double unit_bytes = 16.0 * Tile::kUnitRows * std::min(args.step_chunks, args.chunks);
    shape.bytes_in_flight = unit_bytes * static_cast<double>(std::min(shape.units, shape.teams)) /
                            kH200.multiprocessors;
  });
  return shape;
}

// The products of which `fails` is true, "8B down" for instance.
template <CudaElement kElement, class Fails>
std::vector<std::string> Failing(int rows, const Fails& fails) {
  std::vector<std::string> names;
  for (const Model& model : Models()) {
    for (const Product& product : model.Products()) {
      if (fails(ShapeOf<kElement>(product, rows))) names.push_back(model.name + " " + product.name);
    }
  }
  return names;
}

template <CudaElement kElement>
std::vector<std::string> ReadTooLittle(int rows) {
  return Failing<kElement>(
      rows, [](const LaunchShape& shape) { return shape.bytes_in_flight < kBytesInFlight; });
}
template <CudaElement kElement>
std::vector<std::string> IdleMuch(int rows) {
  return Failing<kElement>(rows,
                           [](const LaunchShape& shape) { return shape.IdleShare() > kIdleShare; });
}

// The lists below are launches that are known to be too small. They may become shorter, never
// longer.
using Names = std::vector<std::string>;
Names AllProducts() {
  Names names;
  for (const Model& model : Models()) {
    for (const Product& product : model.Products()) {
      names.push_back(model.name + " " + product.name);
    }
  }
  return names;
}

TEST(VectorProductShape, EnoughBytesOfBf16WeightsAreInFlight) {
  for (int rows = 1; rows <= 8; ++rows) {
    EXPECT_EQ(ReadTooLittle<CudaElement::kBf16>(rows), Names()) << rows;
  }
  for (int rows = 9; rows <= kMaxVectorRows; ++rows) {
    EXPECT_EQ(ReadTooLittle<CudaElement::kBf16>(rows),
              (Names{"1B qkv", "1B output", "1B down", "8B qkv", "8B output", "8B down"}))
        << rows;
  }
}

TEST(VectorProductShape, EnoughBytesOfQ4WeightsAreInFlight) {
  const Names small = {"1B qkv", "1B output", "1B down", "8B qkv", "8B output", "8B down"};
  EXPECT_EQ(ReadTooLittle<CudaElement::kQ4_0>(1), small);
  EXPECT_EQ(ReadTooLittle<CudaElement::kQ4_0>(4), (Names{"1B qkv", "1B output", "1B down"}));
  EXPECT_EQ(ReadTooLittle<CudaElement::kQ4_0>(8), small);
  EXPECT_EQ(ReadTooLittle<CudaElement::kQ4_0>(kMaxVectorRows), AllProducts());
}

TEST(VectorProductShape, FewTeamsIdle) {
  for (int rows = 1; rows <= 8; ++rows) {
    EXPECT_EQ(IdleMuch<CudaElement::kBf16>(rows), Names()) << rows;
  }
  const Names small = {"1B qkv", "1B output", "1B down", "8B output", "8B down", "70B qkv"};
  EXPECT_EQ(IdleMuch<CudaElement::kBf16>(kMaxVectorRows), small);
  EXPECT_EQ(IdleMuch<CudaElement::kQ4_0>(1), small);
  EXPECT_EQ(IdleMuch<CudaElement::kQ4_0>(4), (Names{"1B output", "1B down"}));
  EXPECT_EQ(IdleMuch<CudaElement::kQ4_0>(8), small);
  EXPECT_EQ(IdleMuch<CudaElement::kQ4_0>(kMaxVectorRows), (Names{"1B output", "1B down"}));
}

TEST(VectorProductShape, EveryUnitHasATeamInSomeRound) {
  for (int rows = 1; rows <= kMaxVectorRows; ++rows) {
    EXPECT_THAT(Failing<CudaElement::kBf16>(
                    rows, [](const LaunchShape& shape) { return shape.IdleShare() < 0; }),
                testing::IsEmpty());
  }
}

}  // namespace
}  // namespace baton
