#include "common/backend/cuda/product/invariant/invariant_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/backend/cuda/device/launch.h"
#include "tests/common/backend/cuda/product/gate_in_double.h"
#include "tests/common/backend/cuda/product/test_matrix.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {
namespace {

using Kind = VectorInput::Kind;
constexpr float kEpsilon = 0.125f;
// Row counts that are the first to use another kernel or tile, and the last ones before them.
constexpr int kRows = 70;

struct Problem {
  Problem(Kind kind_, int columns_, const std::vector<TestElement>& elements, int outputs,
          uint32_t seed, int rows = kRows)
      : kind(kind_),
        function(kGateFunctions[seed % std::size(kGateFunctions)]),
        columns(columns_),
        random(seed) {
    in = Normal(rows * columns);
    other = Normal(kind == Kind::kNorm ? columns : rows * columns);
    for (const TestElement& element : elements) {
      weights.emplace_back(element, outputs, columns, random);
    }
  }

  std::vector<float> Normal(int count) {
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random);
    return values;
  }

  // The outputs of all weights for rows [first, first + count), [weight][row, output].
  std::vector<std::vector<float>> Run(int first, int count, int terms, const float* start = nullptr,
                                      int multiprocessors = 2, float scale = 1,
                                      int shared_bytes = MostSharedBytes(),
                                      bool split = true) const {
    const auto rows_of = [&](const std::vector<float>& values) {
      return std::vector<float>(values.begin() + first * columns,
                                values.begin() + (first + count) * columns);
    };
    const DeviceArray<float> device_in(rows_of(in));
    const DeviceArray<float> device_other(kind == Kind::kNorm ? other : rows_of(other));
    const DeviceArray<uint8_t> memory(ProductTermBytes(terms, count, columns));
    const ProductTerms prepared =
        LaunchProductTerms({.kind = kind,
                            .in = {device_in.data(), count, columns},
                            .other = kind == Kind::kPlain ? nullptr : device_other.data(),
                            .epsilon = kEpsilon,
                            .function = function},
                           terms, memory.data(), nullptr);
    std::deque<DeviceArray<float>> outs;
    std::vector<VectorOutput> outputs;
    for (const TestMatrix& weight : weights) {
      const float before = start != nullptr ? *start : std::numeric_limits<float>::quiet_NaN();
      outs.emplace_back(std::vector<float>(static_cast<size_t>(count * weight.rows()), before));
      outputs.push_back({.weight = weight.Matrix(),
                         .out = {outs.back().data(), count, weight.rows()},
                         .accumulate = start != nullptr,
                         .scale = scale});
    }
    const DeviceLimits limits = {.multiprocessors = multiprocessors,
                                 .shared_bytes = static_cast<size_t>(shared_bytes)};
    const DeviceArray<uint8_t> scratch(std::vector<uint8_t>(SplitScratchBytes(limits)));
    LaunchInvariantProduct(prepared, outputs, limits, {split ? scratch.data() : nullptr}, nullptr);
    std::vector<std::vector<float>> results;
    for (const DeviceArray<float>& out : outs) results.push_back(out.Download());
    return results;
  }

  // The product's input in double precision.
  std::vector<double> Activations(int row) const {
    const float* x = &in[static_cast<size_t>(row * columns)];
    const float* y = &other[static_cast<size_t>(kind == Kind::kNorm ? 0 : row * columns)];
    std::vector<double> activations(x, x + columns);
    double squares = 0;
    for (const double value : activations) squares += value * value;
    for (int k = 0; k < columns; ++k) {
      double& value = activations[static_cast<size_t>(k)];
      if (kind == Kind::kNorm) value *= y[k] / std::sqrt(squares / columns + kEpsilon);
      if (kind == Kind::kGated) value = GatedInDouble(function, value, y[k]);
    }
    return activations;
  }

  // `results` has the first `count` rows.
  void ExpectTheProduct(const std::vector<std::vector<float>>& results, int count,
                        int terms) const {
    for (size_t w = 0; w < weights.size(); ++w) {
      const TestMatrix& weight = weights[w];
      const CudaElement element = weight.Matrix().element;
      const bool groups = HasCodeGroups(element);
      const bool rounded = terms == 1 || (IsQuantised(element) && !groups);
      const double tolerance = rounded ? 0x1p-8 : groups ? 0x1p-13 : 0x1p-15;
      for (int row = 0; row < count; row += 1 + count / 8) {
        const std::vector<double> x = Activations(row);
        for (int n = 0; n < weight.rows(); ++n) {
          double expected = 0;
          double size = 0;
          for (int k = 0; k < columns; ++k) {
            const double product = x[static_cast<size_t>(k)] * weight.Value(n, k);
            expected += product;
            size += std::fabs(product);
          }
          ASSERT_NEAR(results[w][static_cast<size_t>(row * weight.rows() + n)], expected,
                      size * tolerance)
              << "weight " << w << ", row " << row << ", output " << n;
        }
      }
    }
  }

  Kind kind;
  GateFunction function;
  int columns;
  std::mt19937 random;
  std::vector<float> in;     // [rows, columns]
  std::vector<float> other;  // VectorInput::other
  std::deque<TestMatrix> weights;
};

using InvariantProduct = EveryFiberOrder;
INSTANTIATE_TEST_SUITE_P(Orders, InvariantProduct, testing::ValuesIn(cuda_shim::kAllFiberOrders));

TEST_P(InvariantProduct, IsTheProductOfTheInputThatItsKindMakes) {
  std::mt19937 random(1);
  // Numbers of columns: less than eight, odd, a model's, two tiles in a part.
  constexpr int kColumns[] = {5, 131, 576, 1284};
  for (const int rows : {1, 11, 20, kRows}) {
    for (const int columns : kColumns) {
      const Kind kind = static_cast<Kind>(random() % 3);
      const int terms = 1 + static_cast<int>(random() % 2);
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(columns) + " columns");
      const Problem problem(kind, columns, kFloatElements, 19, random());
      problem.ExpectTheProduct(problem.Run(0, rows, terms), rows, terms);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(InvariantProduct, IsThatOfAnyQuantisedWeights) {
  std::mt19937 random(2);
  for (const TestElement& element : kQuantisedElements) {
    for (const int rows : {3, 12, 20, kRows}) {
      const int terms = 1 + static_cast<int>(random() % 2);
      const Problem problem(Kind::kNorm, WholeBlocks(element, 160), {element, kTestElements[2]}, 18,
                            random());
      problem.ExpectTheProduct(problem.Run(0, rows, terms), rows, terms);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(InvariantProduct, GivesARowTheSameBitsAloneAndInAnyBatch) {
  struct Range {
    int first;
    int batch;
  };
  int turn = static_cast<int>(GetParam());  // so that each element type meets each kind of input
  for (const TestElement& element : kTestElements) {
    const Kind kind = static_cast<Kind>(turn++ % 3);
    const int terms = 1 + turn % 2;
    const int columns = WholeBlocks(element, 1284);
    constexpr int kOutputs = 17;
    Problem problem(kind, columns, {element}, kOutputs, 2);
    problem.in[static_cast<size_t>(3 * columns)] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> all = problem.Run(0, kRows, terms)[0];
    for (const auto& [first, batch] :
         {Range{0, 1}, {kRows - 1, 1}, {1, 9}, {40, 17}, {2, 64}, {4, 65}}) {
      const std::vector<float> some = problem.Run(first, batch, terms)[0];
      for (int row = 0; row < batch; ++row) {
        if (first + row == 3) continue;  // NaN, which no other row may see
        ASSERT_EQ(std::memcmp(&some[static_cast<size_t>(row * kOutputs)],
                              &all[static_cast<size_t>((first + row) * kOutputs)],
                              kOutputs * sizeof(float)),
                  0)
            << GgmlTypeName(element.type) << ", row " << first + row << " in a batch of " << batch;
      }
    }
  }
}

// A large device has too little work for tiles, unless their columns are divided.
TEST_P(InvariantProduct, GivesTheSameBitsOnEveryDevice) {
  const Problem problem(Kind::kPlain, 1284, {kTestElements[2]}, 19, 5);
  EXPECT_EQ(problem.Run(0, kRows, 1, nullptr, 132), problem.Run(0, kRows, 1));
  const auto expect_alike = [](const TestElement& element, int columns, int outputs, int rows) {
    const Problem quantised(Kind::kPlain, WholeBlocks(element, columns), {element}, outputs, 7);
    const float start = 0.75f;
    const auto run = [&](int multiprocessors, bool split) {
      return quantised.Run(0, rows, rows > 64 ? 2 : 1, &start, multiprocessors, 1,
                           MostSharedBytes(), split);
    };
    const auto parts = run(132, false);
    const std::string name =
        absl::StrCat(GgmlTypeName(element.type), ", ", rows, " rows, ", columns, " columns");
    EXPECT_EQ(run(2, false), parts) << name << ": whole tiles";
    EXPECT_EQ(run(6, true), parts) << name << ": divided tiles";
  };
  for (const TestElement& element : kQuantisedElements) {
    for (const int rows : {33, kRows}) expect_alike(element, 300, 19, rows);
  }
  // Seven parts of two tiles, and two tiles of outputs.
  expect_alike(TestElementOf(GgmlType::kQ4_0), 1700, 131, 64);
}

// Without much shared memory a device has other kernels for more than 16 rows.
TEST_P(InvariantProduct, GivesTheSameBitsWithLittleSharedMemory) {
  struct Shape {
    int rows;     // in tiles of 32, 64, 128 and 256; some are missing in the last one
    int columns;  // in one to six parts, of one or two tiles
    int terms;
  };
  for (const auto& [rows, columns, terms] : {Shape{30, 1284, 1},
                                             {30, 300, 2},
                                             {64, 300, 1},
                                             {70, 131, 2},
                                             {70, 1284, 1},
                                             {300, 300, 1},
                                             {300, 5, 1}}) {
    // More outputs than a unit of 64 has, and one of 128.
    const Problem problem(Kind::kPlain, columns, {kTestElements[2]}, 131, 6, rows);
    const float start = 0.75f;
    ASSERT_EQ(problem.Run(0, rows, terms, &start, 2, -1.3f),
              problem.Run(0, rows, terms, &start, 2, -1.3f, /*shared_bytes=*/0))
        << rows << " rows, " << columns << " columns, " << terms << " terms";
  }
}

TEST_P(InvariantProduct, IsScaledAndAddedToTheOutputInOneRounding) {
  const Problem problem(Kind::kPlain, 640, {kTestElements[2], kTestElements[1]}, 19, 4);
  const float start = 0.75f;
  for (const int rows : {6, 12, 40, kRows}) {
    const auto plain = problem.Run(0, rows, 1);
    for (const float scale : {1.0f, -1.3f}) {
      const auto added = problem.Run(0, rows, 1, &start, 2, scale);
      for (size_t w = 0; w < plain.size(); ++w) {
        for (size_t i = 0; i < plain[w].size(); ++i) {
          ASSERT_EQ(added[w][i], std::fma(scale, plain[w][i], start));
        }
      }
    }
  }
}

TEST(InvariantParts, AreAtMostEightOfWholeTiles) {
  for (int columns = 1; columns < 20000; columns += 37) {
    EXPECT_LE(ColumnTiles(columns), 8 * InvariantPartTiles(columns));
    EXPECT_GT(ColumnTiles(columns), 7 * (InvariantPartTiles(columns) - 1));
  }
  EXPECT_EQ(InvariantPartTiles(4096), 4);
  EXPECT_EQ(InvariantPartTiles(576), 1);
}

// An infinity stays what it is in two terms: the second term would be NaN.
TEST(ProductTerms, KeepInfinities) {
  const DeviceArray<float> in(std::vector<float>{INFINITY, -INFINITY, 1.0f + 0x1p-10f, 0});
  const DeviceArray<uint16_t> out(ProductTermBytes(2, 1, 4) / 2);
  LaunchProductTerms({.in = {in.data(), 1, 4}}, 2, out.data(), nullptr);
  const std::vector<uint16_t> bits = out.Download();
  const size_t low = static_cast<size_t>(ProductTermStride(4));
  EXPECT_EQ(Bf16ToF32(bits[0]), INFINITY);
  EXPECT_EQ(Bf16ToF32(bits[1]), -INFINITY);
  EXPECT_EQ(bits[low], 0);
  EXPECT_EQ(bits[low + 1], 0);
  EXPECT_EQ(Bf16ToF32(bits[2]) + Bf16ToF32(bits[low + 2]), 1.0f + 0x1p-10f);
  EXPECT_EQ(bits[4], 0);
  EXPECT_EQ(bits[2 * low - 1], 0);
}

}  // namespace
}  // namespace baton
