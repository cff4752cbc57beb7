#include "common/backend/cpu/product/product_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "common/backend/cpu/kernels/kernels.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/random_values.h"
#include "tests/support/same_bytes.h"

namespace baton {
namespace {

constexpr int kInputColumns = 96;

TEST(ProductInput, NormalisesAndGatesAsItsHeaderSays) {
  ThreadPool pool(2, {});
  std::vector<float> in = NormalValues(3 * kInputColumns, 7);
  const std::vector<float> other = NormalValues(3 * kInputColumns, 8);
  for (const CpuIsa isa : InstructionSets()) {
    ProductInput norm, gated;
    norm.Prepare(KernelsFor(isa), pool,
                 {.kind = ProductInputArgs::Kind::kNorm,
                  .in = {in.data(), 3, kInputColumns},
                  .other = other.data(),
                  .epsilon = 0.5f},
                 true, true);
    gated.Prepare(KernelsFor(isa), pool,
                  {.kind = ProductInputArgs::Kind::kGated,
                   .in = {in.data(), 3, kInputColumns},
                   .other = other.data()},
                  false, true);
    for (int row = 0; row < 3; ++row) {
      double squares = 0;
      for (int k = 0; k < kInputColumns; ++k) squares += std::pow(in[row * kInputColumns + k], 2.0);
      for (int k = 0; k < kInputColumns; ++k) {
        const int i = row * kInputColumns + k;
        const double x = in[i];
        EXPECT_NEAR(norm.floats()[i], x / std::sqrt(squares / kInputColumns + 0.5) * other[k],
                    1e-5);
        EXPECT_NEAR(gated.floats()[i], x / (1 + std::exp(-x)) * other[i], 1e-5);
      }
    }
  }
}

// The gates by their definitions in backend.h, in double.
double GateOf(GateFunction function, double g, double u) {
  switch (function) {
    case GateFunction::kSilu:
      return g / (1 + std::exp(-g)) * u;
    case GateFunction::kGeluTanh:
      return g / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))) * u;
    case GateFunction::kClampedSilu: {
      const double least = std::min(g, 7.0);
      return (std::clamp(u, -7.0, 7.0) + 1) * least / (1 + std::exp(-1.702 * least));
    }
  }
  return 0;
}

TEST(ProductInput, EveryGateIsItsDefinitionForSmallAndLargeValues) {
  ThreadPool pool(2, {});
  constexpr int kGateColumns = 37;  // no multiple of a vector's size
  std::vector<float> gate;
  std::vector<float> up;
  for (int i = 0; i < 40 * kGateColumns; ++i) {
    gate.push_back(static_cast<float>(i - 20 * kGateColumns) * 0.027f);
    up.push_back(static_cast<float>(i * 7919 % 2001 - 1000) * 0.011f);
  }
  const float extremes[] = {0.0f, -1e30f, 1e30f, -200.0f, 200.0f, 1e-30f};
  for (size_t i = 0; i < std::size(extremes); ++i) gate[i * 50] = extremes[i];
  const int rows = static_cast<int>(gate.size()) / kGateColumns;
  for (const GateFunction function :
       {GateFunction::kSilu, GateFunction::kGeluTanh, GateFunction::kClampedSilu}) {
    for (const CpuIsa isa : InstructionSets()) {
      ProductInput input;
      input.Prepare(KernelsFor(isa), pool,
                    {.kind = ProductInputArgs::Kind::kGated,
                     .function = function,
                     .in = {gate.data(), rows, kGateColumns},
                     .other = up.data()},
                    false, true);
      for (size_t i = 0; i < gate.size(); ++i) {
        const double expected = GateOf(function, gate[i], up[i]);
        EXPECT_NEAR(input.floats()[i], expected, 1e-6 * std::max(1.0, std::fabs(expected)))
            << CpuIsaName(isa) << ", function " << static_cast<int>(function) << " of " << gate[i]
            << ", " << up[i];
      }
    }
  }
}

TEST(ProductInput, RoundsToNearestEvenWithinABlocksMaximum) {
  ThreadPool pool(1, {});
  std::vector<float> in(64, 0.0f);
  in[0] = -127.0f;
  in[1] = 0.5f;
  in[2] = 1.5f;
  in[3] = -2.5f;
  in[4] = 126.6f;
  for (const CpuIsa isa : InstructionSets()) {
    ProductInput input;
    input.Prepare(KernelsFor(isa), pool, {.in = {in.data(), 1, 64}}, true, false);
    const QuantizedBlock& block = input.blocks()[0];
    EXPECT_THAT(std::vector<int>(block.values, block.values + 6),
                testing::ElementsAre(-127, 0, 2, -2, 127, 0));
    EXPECT_EQ(block.scale, 1.0f);
    EXPECT_EQ(block.negative_sum, 0);
    EXPECT_EQ(input.blocks()[1].scale, 0.0f);  // a block of zeros
  }
}

TEST(ProductInput, StaysInRangeWhateverTheMagnitude) {
  ThreadPool pool(1, {});
  std::mt19937 random(1);
  for (int exponent = -140; exponent < 127; ++exponent) {
    std::vector<float> in(32);
    for (float& x : in) {
      x = std::ldexp(static_cast<float>(random() % 20001) / 10000.0f - 1.0f, exponent);
    }
    ProductInput input;
    input.Prepare(KernelsFor(CpuIsa::kPortable), pool, {.in = {in.data(), 1, 32}}, true, false);
    const QuantizedBlock& block = input.blocks()[0];
    for (size_t k = 0; k < 32; ++k) {
      EXPECT_LE(std::abs(block.values[k]), 127);
      EXPECT_NEAR(block.scale * static_cast<float>(block.values[k]), in[k],
                  std::max(block.scale * 0.51f, 1e-30f));
    }
  }
}

TEST(ProductInput, PlainFloatsAreTheInputItself) {
  ThreadPool pool(1, {});
  std::vector<float> in = NormalValues(2 * kInputColumns, 3);
  ProductInput input;
  input.Prepare(KernelsFor(CpuIsa::kPortable), pool, {.in = {in.data(), 2, kInputColumns}}, false,
                true);
  EXPECT_EQ(input.floats(), in.data());
  EXPECT_EQ(input.rows(), 2);
  EXPECT_EQ(input.columns(), kInputColumns);
}

TEST(ProductInput, RowsOfWholePagesAreStoredACacheLineApart) {
  constexpr int kPage = 1024;  // floats of 4 KiB
  ThreadPool pool(1, {});
  std::vector<float> in = NormalValues(3 * kPage, 4);
  for (const CpuIsa isa : InstructionSets()) {
    for (const bool quantised : {false, true}) {
      ProductInput input;
      input.Prepare(KernelsFor(isa), pool, {.in = {in.data(), 3, kPage}}, quantised, true);
      EXPECT_EQ(input.float_stride(), kPage + kLanes);
      for (int row = 0; row < 3; ++row) {
        const ProductRows rows = input.Rows(row, 1);
        EXPECT_EQ(rows.floats, input.floats() + row * (kPage + kLanes));
        EXPECT_TRUE(SameBytes(rows.floats, in.data() + row * kPage, kPage));
      }
      // A single row has no other to keep away from.
      input.Prepare(KernelsFor(isa), pool, {.in = {in.data(), 1, kPage}}, quantised, true);
      EXPECT_EQ(input.floats(), in.data());
      EXPECT_EQ(input.float_stride(), kPage);
    }
  }
}

TEST(ProductInput, RowsOfBlocksThatAreWholePagesAreStoredACacheLineApart) {
  constexpr int kPage = 2048;  // columns of 64 blocks, which are 4 KiB
  constexpr int kStride = kPage / kQuantBlock + 1;
  ThreadPool pool(2, {});
  std::vector<float> in = NormalValues(3 * kPage, 4);
  for (const CpuIsa isa : InstructionSets()) {
    for (const int terms : {1, 2}) {
      ProductInput input;
      input.Prepare(KernelsFor(isa), pool, {.in = {in.data(), 3, kPage}, .terms = terms}, true,
                    false);
      EXPECT_EQ(input.block_stride(), kStride);
      for (int row = 0; row < 3; ++row) {
        ProductInput alone;
        alone.Prepare(KernelsFor(isa), pool,
                      {.in = {in.data() + row * kPage, 1, kPage}, .terms = terms}, true, false);
        const ProductRows rows = input.Rows(row, 1);
        EXPECT_EQ(rows.blocks, input.blocks() + row * terms * kStride);
        EXPECT_EQ(rows.block_stride, kStride);
        for (int term = 0; term < terms; ++term) {
          EXPECT_TRUE(SameBytes(rows.blocks + term * kStride, alone.blocks() + term * kStride,
                                kPage / kQuantBlock));
        }
      }
    }
  }
}

TEST(ProductInput, StartsOfHalfBlocksTakeOutTheOffsetOfQ6_K) {
  ThreadPool pool(1, {});
  std::vector<float> in = NormalValues(kInputColumns, 9);
  for (const CpuIsa isa : InstructionSets()) {
    ProductInput input;
    input.Prepare(KernelsFor(isa), pool, {.in = {in.data(), 1, kInputColumns}}, true, false);
    for (int b = 0; b < kInputColumns / kQuantBlock; ++b) {
      const QuantizedBlock& block = input.blocks()[b];
      int sums[2] = {};
      for (int k = 0; k < kQuantBlock; ++k) sums[k / 16] += block.values[k];
      EXPECT_EQ(block.half_starts[0], -32 * sums[0]);
      EXPECT_EQ(block.half_starts[1], -32 * sums[1]);
      EXPECT_EQ(block.negative_sum, -sums[0] - sums[1]);
    }
  }
}

// The second term is what the first left over, so that both together are nearer.
TEST(ProductInput, TheSecondTermQuantisesTheRestOfTheFirst) {
  ThreadPool pool(2, {});
  std::vector<float> in = NormalValues(5 * kInputColumns, 4);
  for (const CpuIsa isa : InstructionSets()) {
    ProductInput input;
    input.Prepare(KernelsFor(isa), pool, {.in = {in.data(), 5, kInputColumns}, .terms = 2}, true,
                  false);
    EXPECT_EQ(input.terms(), 2);
    constexpr int kBlocks = kInputColumns / 32;
    for (int row = 0; row < 5; ++row) {
      for (int k = 0; k < kInputColumns; ++k) {
        const QuantizedBlock* first = input.blocks() + row * 2 * kBlocks + k / 32;
        const QuantizedBlock* second = first + kBlocks;
        const float x = in.data()[row * kInputColumns + k];
        const float rest = std::fma(-static_cast<float>(first->values[k % 32]), first->scale, x);
        EXPECT_LE(std::fabs(rest), first->scale * 0.51f);
        EXPECT_NEAR(second->scale * static_cast<float>(second->values[k % 32]), rest,
                    second->scale * 0.51f);
        EXPECT_LE(second->scale, first->scale / 100);
      }
    }
  }
}

// The storage of a larger product serves a smaller one.
TEST(ProductInput, IsUsedAgainForAnotherSize) {
  ThreadPool pool(1, {});
  std::vector<float> large = NormalValues(6 * kInputColumns, 5);
  std::vector<float> small = NormalValues(1 * kInputColumns, 6);
  ProductInput reused, fresh;
  const auto prepare = [&](ProductInput& input, std::vector<float>& in) {
    const int rows = static_cast<int>(in.size()) / kInputColumns;
    input.Prepare(KernelsFor(CpuIsa::kPortable), pool, {.in = {in.data(), rows, kInputColumns}},
                  true, false);
  };
  prepare(reused, large);
  prepare(reused, small);
  prepare(fresh, small);
  EXPECT_EQ(reused.rows(), 1);
  EXPECT_TRUE(SameBytes(reused.blocks(), fresh.blocks(), kInputColumns / 32));
}

}  // namespace
}  // namespace baton
