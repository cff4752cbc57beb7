#include "common/backend/cuda/product/tiles/tile_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/backend/cuda/device/launch.h"
#include "tests/common/backend/cuda/product/test_matrix.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {
namespace {

struct Device {
  int multiprocessors = 2;
  bool scratch = true;
  size_t shared_bytes = static_cast<size_t>(MostSharedBytes());
};

struct TileProblem {
  TileProblem(const std::vector<TestElement>& elements, int columns_, int outputs_, uint32_t seed)
      : columns(columns_), outputs(outputs_), random(seed) {
    for (const TestElement& element : elements) {
      weights.push_back(std::make_shared<TestMatrix>(element, outputs, columns, random));
    }
  }

  // [rows, columns], values that BF16 has.
  std::vector<float> Input(int rows) {
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> in(static_cast<size_t>(rows * columns));
    for (float& value : in) value = Bf16ToF32(F32ToBf16(normal(random)));
    return in;
  }

  // The outputs of each weight, [row, output]. Where they are added to something, it is `start`.
  std::vector<std::vector<float>> Run(const std::vector<float>& in, const Device& device,
                                      const float* start = nullptr, float scale = 1) const {
    const int rows = static_cast<int>(in.size()) / columns;
    const DeviceArray<float> device_in(in);
    const DeviceArray<uint8_t> memory(ProductTermBytes(1, rows, columns));
    const ProductTerms terms =
        LaunchProductTerms({.in = {device_in.data(), rows, columns}}, 1, memory.data(), nullptr);
    std::deque<DeviceArray<float>> outs;
    std::vector<VectorOutput> all;
    for (const auto& weight : weights) {
      const float before = start != nullptr ? *start : std::numeric_limits<float>::quiet_NaN();
      outs.emplace_back(std::vector<float>(static_cast<size_t>(rows * outputs), before));
      all.push_back({.weight = weight->Matrix(),
                     .out = {outs.back().data(), rows, outputs},
                     .accumulate = start != nullptr,
                     .scale = scale});
    }
    const DeviceLimits limits = {.multiprocessors = device.multiprocessors,
                                 .shared_bytes = device.shared_bytes};
    const DeviceArray<uint8_t> scratch(std::vector<uint8_t>(SplitScratchBytes(limits)));
    LaunchTileProduct(terms, all, limits, {device.scratch ? scratch.data() : nullptr}, nullptr);
    const std::vector<uint8_t> after = scratch.Download();
    EXPECT_TRUE(std::all_of(
        after.begin(),
        after.begin() + static_cast<std::ptrdiff_t>(SplitArrivalBytes(limits.multiprocessors)),
        [](uint8_t byte) { return byte == 0; }))
        << "the counters are not as the next product needs them";
    std::vector<std::vector<float>> results;
    for (const DeviceArray<float>& out : outs) results.push_back(out.Download());
    return results;
  }

  // The first weight as the kernel rounds it, [output, column]: its products with unit vectors.
  std::vector<float> RoundedWeights() const {
    constexpr int kVectors = 64;
    std::vector<float> rounded(static_cast<size_t>(outputs * columns));
    for (int first = 0; first < columns; first += kVectors) {
      std::vector<float> in(static_cast<size_t>(kVectors * columns));
      const int count = std::min(kVectors, columns - first);
      for (int i = 0; i < count; ++i) in[static_cast<size_t>(i * columns + first + i)] = 1;
      const std::vector<float> out = Run(in, {})[0];
      for (int i = 0; i < count; ++i) {
        for (int n = 0; n < outputs; ++n) {
          rounded[static_cast<size_t>(n * columns + first + i)] =
              out[static_cast<size_t>(i * outputs + n)];
        }
      }
    }
    return rounded;
  }

  int columns;
  int outputs;
  std::mt19937 random;
  std::vector<std::shared_ptr<const TestMatrix>> weights;
};

std::string NameOf(const TestElement& element, int columns) {
  return std::string(GgmlTypeName(element.type)) + ", " + std::to_string(columns) + " columns";
}

using TileProduct = EveryFiberOrder;
INSTANTIATE_TEST_SUITE_P(Orders, TileProduct, testing::ValuesIn(cuda_shim::kAllFiberOrders));

TEST_P(TileProduct, HasWeightsInBf16) {
  for (const TestElement& element : kQuantisedElements) {
    const int columns = WholeBlocks(element, 160);
    SCOPED_TRACE(NameOf(element, columns));
    const TileProblem problem({element}, columns, 35, 1);
    const std::vector<float> rounded = problem.RoundedWeights();
    const CudaElement type = problem.weights[0]->Matrix().element;
    for (int n = 0; n < problem.outputs; ++n) {
      for (int k = 0; k < columns; ++k) {
        const float value = rounded[static_cast<size_t>(n * columns + k)];
        const float exact = problem.weights[0]->Value(n, k);
        ASSERT_EQ(value, Bf16ToF32(F32ToBf16(value))) << n << ", " << k;
        // Scale and product are rounded; with a min, that too, and it may be as large as anything in
        // its block.
        float size = std::fabs(exact);
        for (int i = k / 32 * 32; HasMin(type) && i < k / 32 * 32 + 32; ++i) {
          size = std::max(size, 2 * std::fabs(problem.weights[0]->Value(n, i)));
        }
        const float most = type == CudaElement::kMxfp4 ? 0 : size * 0x1.01p-7f;
        ASSERT_NEAR(value, exact, most) << n << ", " << k;
      }
    }
  }
}

// The columns divided among thread blocks, and not.
void ExpectTheProduct(const TestElement& element, int rows, int columns, int outputs,
                      int multiprocessors) {
  SCOPED_TRACE(NameOf(element, columns));
  TileProblem problem({element}, columns, outputs, static_cast<uint32_t>(rows));
  const std::vector<float> weight = problem.RoundedWeights();
  const std::vector<float> in = problem.Input(rows);
  for (const bool scratch : {true, false}) {
    const Device device = {.multiprocessors = multiprocessors, .scratch = scratch};
    const std::vector<float> out = problem.Run(in, device)[0];
    for (int i = 0; i < rows * outputs; i += 1 + outputs / 19) {
      const float* const x = &in[static_cast<size_t>(i / outputs * columns)];
      const float* const w = &weight[static_cast<size_t>(i % outputs * columns)];
      double expected = 0;
      double size = 0;
      for (int k = 0; k < columns; ++k) {
        expected += double{x[k]} * w[k];
        size += std::fabs(double{x[k]} * w[k]);
      }
      ASSERT_NEAR(out[static_cast<size_t>(i)], expected, size * 0x1p-15)
          << "row " << i / outputs << ", output " << i % outputs;
    }
  }
}

TEST_P(TileProduct, IsThatOfTheRoundedWeights) {
  for (const TestElement& element : kQuantisedElements) {
    ExpectTheProduct(element, 17, WholeBlocks(element, 300), 19, 2);
    ExpectTheProduct(element, 33, WholeBlocks(element, 32), 19, 2);  // a part of a column tile
    ExpectTheProduct(element, 64, WholeBlocks(element, 400), 19, 2);
    if (HasFatalFailure()) return;
  }
  // Two tiles of rows and two of outputs.
  ExpectTheProduct(TestElementOf(GgmlType::kQ4_K), 70, 512, 131, 4);
}

TEST_P(TileProduct, IsThatOfAllTypesAtOnce) {
  TileProblem together(kQuantisedElements, 512, 19, 30);
  const std::vector<float> in = together.Input(40);
  const Device device = {.scratch = false};
  const auto all = together.Run(in, device);
  for (size_t i = 0; i < kQuantisedElements.size(); ++i) {
    TileProblem alone({}, 512, 19, 0);
    alone.weights.push_back(together.weights[i]);
    EXPECT_EQ(alone.Run(in, device)[0], all[i]) << GgmlTypeName(kQuantisedElements[i].type);
  }
}

TEST_P(TileProduct, ShowsARowNothingOfTheOthers) {
  for (const TestElement& element : kQuantisedElements) {
    TileProblem problem({element}, WholeBlocks(element, 300), 19, 40);
    std::vector<float> in = problem.Input(element.type == GgmlType::kQ4_0 ? 30 : 66);
    const std::vector<float> before = problem.Run(in, {})[0];
    in[static_cast<size_t>(3 * problem.columns)] = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> beside = problem.Run(in, {})[0];
    for (int n = 0; n < problem.outputs; ++n) {
      const auto at = static_cast<size_t>(3 * problem.outputs + n);
      EXPECT_TRUE(std::isnan(beside[at]));
      beside[at] = before[at];
    }
    EXPECT_EQ(beside, before) << GgmlTypeName(element.type);
  }
}

TEST_P(TileProduct, IsScaledAndAddedToTheOutputInOneRounding) {
  TileProblem problem(kQuantisedElements, 512, 19, 50);
  const std::vector<float> in = problem.Input(34);
  const float start = 0.75f;
  for (const bool scratch : {false, true}) {
    const Device device = {.scratch = scratch};
    const auto plain = problem.Run(in, device);
    for (const float scale : {1.0f, -1.3f}) {
      const auto added = problem.Run(in, device, &start, scale);
      for (size_t w = 0; w < plain.size(); ++w) {
        for (size_t i = 0; i < plain[w].size(); ++i) {
          ASSERT_EQ(added[w][i], std::fma(scale, plain[w][i], start));
        }
      }
    }
  }
}

// Their codes are exact, so the results are others.
TEST_P(TileProduct, LeavesSmallProductsAndDevicesToOtherKernels) {
  TileProblem problem({TestElementOf(GgmlType::kQ4_0)}, 256, 19, 60);
  const std::vector<float> in = problem.Input(40);
  const Device large = {.multiprocessors = 132};
  const Device little = {.shared_bytes = 48 * 1024};
  const auto exact = problem.Run(in, large);
  EXPECT_EQ(problem.Run(in, little), exact);
  EXPECT_NE(problem.Run(in, {}), exact);
}

}  // namespace
}  // namespace baton
