#include "common/backend/cuda/product/two_rows/two_row_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/common/backend/cuda/product/test_matrix.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {
namespace {

constexpr int kBothRows = 2;
constexpr int kTwoRowOutputs = 19;  // not all of the second unit

struct TwoRowProblem {
  TwoRowProblem(const std::vector<TestElement>& elements, int columns_, uint32_t seed)
      : columns(columns_), random(seed), in(static_cast<size_t>(kBothRows * columns)) {
    std::normal_distribution<float> normal(0, 1);
    for (float& value : in) value = Bf16ToF32(F32ToBf16(normal(random)));
    for (const TestElement& element : elements) {
      weights.emplace_back(element, kTwoRowOutputs, columns, random);
    }
  }

  // The outputs of each weight for rows [first, first + count), [row, output]. Where they are added to
  // something, it is `start`.
  std::vector<std::vector<float>> Run(int first, int count, const float* start = nullptr,
                                      float scale = 1) const {
    const DeviceArray<float> device_in(
        std::vector<float>(in.begin() + first * columns, in.begin() + (first + count) * columns));
    const DeviceArray<uint8_t> memory(ProductTermBytes(1, count, columns));
    const ProductTerms terms =
        LaunchProductTerms({.in = {device_in.data(), count, columns}}, 1, memory.data(), nullptr);
    std::deque<DeviceArray<float>> outs;
    std::vector<VectorOutput> outputs;
    for (const TestMatrix& weight : weights) {
      const float before = start != nullptr ? *start : std::numeric_limits<float>::quiet_NaN();
      outs.emplace_back(std::vector<float>(static_cast<size_t>(count * kTwoRowOutputs), before));
      outputs.push_back({.weight = weight.Matrix(),
                         .out = {outs.back().data(), count, kTwoRowOutputs},
                         .accumulate = start != nullptr,
                         .scale = scale});
    }
    LaunchTwoRowProduct(terms, outputs, nullptr);
    std::vector<std::vector<float>> results;
    for (const DeviceArray<float>& out : outs) results.push_back(out.Download());
    return results;
  }

  void ExpectTheProduct(const std::vector<std::vector<float>>& results, int first,
                        int count) const {
    for (size_t w = 0; w < weights.size(); ++w) {
      for (int i = 0; i < count * kTwoRowOutputs; ++i) {
        const float* const x = &in[static_cast<size_t>((first + i / kTwoRowOutputs) * columns)];
        double expected = 0;
        double size = 0;
        for (int k = 0; k < columns; ++k) {
          const double product = double{x[k]} * weights[w].Value(i % kTwoRowOutputs, k);
          expected += product;
          size += std::fabs(product);
        }
        // Input and codes are exact; what is added to the codes costs some bits.
        ASSERT_NEAR(results[w][static_cast<size_t>(i)], expected, size * 0x1p-16)
            << "weight " << w << ", row " << first + i / kTwoRowOutputs << ", output "
            << i % kTwoRowOutputs;
      }
    }
  }

  int columns;
  std::mt19937 random;
  std::vector<float> in;  // [kBothRows, columns], values that BF16 has
  std::deque<TestMatrix> weights;
};

using TwoRowProduct = EveryFiberOrder;
INSTANTIATE_TEST_SUITE_P(Orders, TwoRowProduct, testing::ValuesIn(cuda_shim::kAllFiberOrders));

TEST_P(TwoRowProduct, IsThatOfOneRowAndOfTwo) {
  uint32_t seed = 1;
  for (const TestElement& element : kQuantisedElements) {
    // A part of a tile, a tile and a part, one of more tiles than warps.
    for (const int least : {32, 160, 1100}) {
      const int columns = WholeBlocks(element, least);
      SCOPED_TRACE(std::string(GgmlTypeName(element.type)) + ", " + std::to_string(columns));
      const TwoRowProblem problem({element}, columns, seed++);
      problem.ExpectTheProduct(problem.Run(0, 2), 0, 2);
      problem.ExpectTheProduct(problem.Run(1, 1), 1, 1);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(TwoRowProduct, IsThatOfAllTypesAtOnce) {
  const TwoRowProblem problem(kQuantisedElements, 512, 20);
  problem.ExpectTheProduct(problem.Run(0, 2), 0, 2);
}

TEST_P(TwoRowProduct, GivesARowTheSameBitsAloneAndBesideAnother) {
  for (const TestElement& element : kQuantisedElements) {
    TwoRowProblem problem({element}, WholeBlocks(element, 300), 30);
    const std::vector<float> both = problem.Run(0, 2)[0];
    EXPECT_EQ(problem.Run(0, 1)[0],
              std::vector<float>(both.begin(), both.begin() + kTwoRowOutputs));
    EXPECT_EQ(problem.Run(1, 1)[0], std::vector<float>(both.begin() + kTwoRowOutputs, both.end()));
    problem.in[0] = std::numeric_limits<float>::quiet_NaN();  // must not affect the other row
    const std::vector<float> beside = problem.Run(0, 2)[0];
    EXPECT_TRUE(std::isnan(beside[0]));
    EXPECT_TRUE(
        std::equal(both.begin() + kTwoRowOutputs, both.end(), beside.begin() + kTwoRowOutputs))
        << GgmlTypeName(element.type);
  }
}

TEST_P(TwoRowProduct, IsScaledAndAddedToTheOutputInOneRounding) {
  const TwoRowProblem problem(kQuantisedElements, 256, 40);
  const float start = 0.75f;
  const auto plain = problem.Run(0, 2);
  for (const float scale : {1.0f, -1.3f}) {
    const auto added = problem.Run(0, 2, &start, scale);
    for (size_t w = 0; w < plain.size(); ++w) {
      for (size_t i = 0; i < plain[w].size(); ++i) {
        ASSERT_EQ(added[w][i], std::fma(scale, plain[w][i], start));
      }
    }
  }
}

}  // namespace
}  // namespace baton
