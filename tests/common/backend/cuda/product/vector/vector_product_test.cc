#include "common/backend/cuda/product/vector/vector_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/backend/cuda/weight/weight_layout.h"
#include "tests/common/backend/cuda/product/gate_in_double.h"
#include "tests/common/backend/cuda/product/test_matrix.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {
namespace {

using Kind = VectorInput::Kind;
constexpr DeviceLimits kLimits = {.multiprocessors = 2, .shared_bytes = 227 * 1024};
constexpr float kEpsilon = 0.125f;

// An input and its weights.
struct Problem {
  struct Weight {
    TestElement element;
    int rows;
  };

  Problem(Kind kind_, int rows_, int columns_, const std::vector<Weight>& shapes, uint32_t seed)
      : kind(kind_),
        function(kGateFunctions[seed % std::size(kGateFunctions)]),
        rows(rows_),
        columns(columns_),
        random(seed),
        in(Normal(rows * columns)),
        other(Normal(kind == Kind::kNorm ? columns : rows * columns)) {
    for (const Weight& shape : shapes) {
      weights.emplace_back(shape.element, shape.rows, columns, random);
    }
  }

  std::vector<float> Normal(int count) {
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random);
    return values;
  }

  // The product's outputs for rows [first, first + count). Where it accumulates, output i is added to
  // `start` + i.
  std::vector<std::vector<float>> Run(int first, int count, const DeviceLimits& limits = kLimits,
                                      const float* start = nullptr, float scale = 1) const {
    const auto rows_of = [&](const std::vector<float>& values) {
      return std::vector<float>(values.begin() + first * columns,
                                values.begin() + (first + count) * columns);
    };
    const DeviceArray<float> device_in(rows_of(in));
    const DeviceArray<float> device_other(kind == Kind::kNorm ? other : rows_of(other));
    std::deque<DeviceArray<float>> outs;
    std::vector<VectorOutput> outputs;
    for (const TestMatrix& weight : weights) {
      std::vector<float> before(
          static_cast<size_t>(count * weight.rows()),
          start != nullptr ? *start : std::numeric_limits<float>::quiet_NaN());
      for (size_t i = 0; i < before.size(); ++i) before[i] += static_cast<float>(i);
      outs.emplace_back(before);
      outputs.push_back({.weight = weight.Matrix(),
                         .out = {outs.back().data(), count, weight.rows()},
                         .accumulate = start != nullptr,
                         .scale = scale});
    }
    LaunchVectorProduct({.kind = kind,
                         .in = {device_in.data(), count, columns},
                         .other = kind == Kind::kPlain ? nullptr : device_other.data(),
                         .epsilon = kEpsilon,
                         .function = function},
                        outputs, limits, nullptr);
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

  void ExpectTheProduct(const std::vector<std::vector<float>>& results) const {
    for (int row = 0; row < rows; ++row) {
      const std::vector<double> x = Activations(row);
      for (size_t w = 0; w < weights.size(); ++w) {
        for (int n = 0; n < weights[w].rows(); ++n) {
          double expected = 0;
          double size = 0;
          for (int k = 0; k < columns; ++k) {
            const double product = x[static_cast<size_t>(k)] * weights[w].Value(n, k);
            expected += product;
            size += std::fabs(product);
          }
          ASSERT_NEAR(results[w][static_cast<size_t>(row * weights[w].rows() + n)], expected,
                      size * 2e-6)
              << "weight " << w << ", row " << row << ", output " << n;
        }
      }
    }
  }

  Kind kind;
  GateFunction function;
  int rows;
  int columns;
  std::mt19937 random;
  std::vector<float> in;     // [rows, columns]
  std::vector<float> other;  // VectorInput::other
  std::deque<TestMatrix> weights;
};

bool SameBits(const std::vector<float>& a, const float* b) {
  return std::memcmp(a.data(), b, a.size() * sizeof(float)) == 0;
}

using VectorProduct = EveryFiberOrder;
INSTANTIATE_TEST_SUITE_P(Orders, VectorProduct, testing::ValuesIn(cuda_shim::kAllFiberOrders));

TEST_P(VectorProduct, IsTheProductOfTheInputThatItsKindMakes) {
  std::mt19937 random(1);
  const std::vector<TestElement> elements = kFloatElements;
  // Numbers of columns: less than a chunk, odd, a model's, more than a sweep, more than a step.
  constexpr int kColumns[] = {1, 5, 37, 64, 200, 576, 1031, 1536, 2304};
  for (int i = 0; i < 27; ++i) {
    const Kind kind = static_cast<Kind>(i % 3);
    int rows = 1 + (i * 7 + static_cast<int>(random() % 2)) % kMaxVectorRows;
    int columns = kColumns[i / 3 % 9];
    std::vector<Problem::Weight> shapes(1 + random() % kMaxVectorOutputs);
    bool quantised = false;
    for (Problem::Weight& shape : shapes) {
      shape = {elements[random() % elements.size()], 1 + static_cast<int>(random() % 21)};
      quantised |= IsQuantised(shape.element.element);
      rows = std::min(rows, MaxVectorRows(shape.element.element));
    }
    if (quantised) columns = (columns + 255) / 256 * 256;
    SCOPED_TRACE("kind " + std::to_string(i % 3) + ", " + std::to_string(rows) + " rows, " +
                 std::to_string(columns) + " columns");
    const Problem problem(kind, rows, columns, shapes, random());
    problem.ExpectTheProduct(problem.Run(0, rows));
    if (HasFatalFailure()) return;
  }
}

TEST_P(VectorProduct, GivesARowTheSameBitsAloneAndInAnyBatch) {
  int kinds = static_cast<int>(GetParam());  // so that each element type meets each kind of input
  for (const TestElement& element : kFloatElements) {
    const Kind kind = static_cast<Kind>(kinds++ % 3);
    // All threads sum a norm's squares: there is more than one quad for each.
    const int columns = WholeBlocks(element, kind == Kind::kNorm ? 2176 : 640);
    const int rows = MaxVectorRows(element.element);
    const int outputs = element.type == GgmlType::kF32 ? 5 : 9;
    Problem problem(kind, rows, columns, {{element, outputs}}, 2);
    constexpr int kNan = 1;  // a row
    problem.in[static_cast<size_t>(kNan * columns)] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> all = problem.Run(0, rows)[0];
    for (int batch = 1; batch < rows; ++batch) {
      for (const int first : {0, (rows - batch) / 2, rows - batch}) {
        const std::vector<float> some = problem.Run(first, batch)[0];
        for (int row = 0; row < batch; ++row) {
          if (first + row == kNan) continue;  // NaN, which no other row may see
          const auto begin = some.begin() + row * outputs;
          ASSERT_TRUE(SameBits(std::vector<float>(begin, begin + outputs),
                               &all[static_cast<size_t>((first + row) * outputs)]))
              << GgmlTypeName(element.type) << ", row " << first + row << " in a batch of "
              << batch;
        }
      }
    }
  }
}

// With one multiprocessor and little shared memory every loop of the kernel goes round several
// times.
TEST_P(VectorProduct, GivesTheSameBitsOnEveryDevice) {
  constexpr DeviceLimits kLarge = {.multiprocessors = 2, .shared_bytes = 227 * 1024};
  struct Case {
    int rows;
    int columns;
    DeviceLimits small;
  };
  constexpr Case kCases[] = {{1, 1536, {1, 8 * 1024}},
                             {2, 1280, {1, 16 * 1024}},
                             {3, 768, {1, 16 * 1024}},
                             {4, 1024, {1, 24 * 1024}}};
  for (const TestElement& element : kFloatElements) {
    for (const Case& one : kCases) {
      if (one.rows > MaxVectorRows(element.element)) continue;
      const Problem problem(Kind::kNorm, one.rows, one.columns, {{element, 26}, {element, 13}}, 3);
      const auto expected = problem.Run(0, one.rows, kLarge);
      const auto results = problem.Run(0, one.rows, one.small);
      for (size_t w = 0; w < results.size(); ++w) {
        ASSERT_TRUE(SameBits(results[w], expected[w].data()))
            << GgmlTypeName(element.type) << ", " << one.rows << " rows";
      }
    }
  }
}

TEST_P(VectorProduct, IsScaledAndAddedToTheOutputInOneRounding) {
  // One row in several rounds, and several rows.
  const DeviceLimits small = {.multiprocessors = 1, .shared_bytes = kLimits.shared_bytes};
  for (const int rows : {1, 3}) {
    const Problem problem(Kind::kPlain, rows, 256,
                          {{kTestElements[2], rows == 1 ? 75 : 19}, {kTestElements[1], 4}}, 4);
    const auto plain = problem.Run(0, rows, small);
    const float start = 0.75f;
    for (const float scale : {1.0f, -1.3f}) {
      const auto added = problem.Run(0, rows, small, &start, scale);
      for (size_t w = 0; w < plain.size(); ++w) {
        for (size_t i = 0; i < plain[w].size(); ++i) {
          const float before = start + static_cast<float>(i);
          ASSERT_EQ(added[w][i], std::fma(scale, plain[w][i], before)) << rows << " rows";
        }
      }
    }
  }
}

TEST(VectorTeams, AreLargeOnlyWhereFewRowsLeaveADeviceIdle) {
  EXPECT_EQ(VectorTeamWarps(CudaElement::kBf16, 4096, 4096), 1);
  EXPECT_EQ(VectorTeamWarps(CudaElement::kBf16, 2048, 8192), 2);
  EXPECT_EQ(VectorTeamWarps(CudaElement::kBf16, 576, 1536), 2);
  EXPECT_EQ(VectorTeamWarps(CudaElement::kF32, 576, 1536), 4);
  EXPECT_EQ(VectorTeamWarps(CudaElement::kQ4_K, 64, 8192), 1);
  // Each lane of a team's warp has at least one chunk.
  EXPECT_EQ(VectorTeamWarps(CudaElement::kBf16, 64, 504), 1);
  EXPECT_EQ(VectorTeamWarps(CudaElement::kBf16, 64, 512), 2);
}

}  // namespace
}  // namespace baton
