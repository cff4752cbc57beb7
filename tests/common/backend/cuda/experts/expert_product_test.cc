#include "common/backend/cuda/experts/expert_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "tests/common/backend/cuda/product/test_matrix.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"
#include "tests/support/random_values.h"

namespace baton {
namespace {

constexpr int kExperts = 3;

// Rows, of which each goes to one or two experts, and these experts' weights.
struct Problem {
  Problem(const TestElement& element, int rows_, int used_, int columns_, int outputs_,
          int matrices, uint32_t seed)
      : rows(rows_), used(used_), columns(columns_), outputs(outputs_), random(seed) {
    in = NormalValues(static_cast<size_t>(rows * columns), random);
    for (int i = 0; i < matrices * kExperts; ++i) {
      weights.emplace_back(element, outputs, columns, random);
    }
    biases = NormalValues(static_cast<size_t>(matrices * kExperts * outputs), random);
    for (int row = 0; row < rows; ++row) {
      const auto left_out = static_cast<int32_t>(random() % kExperts);
      for (int32_t expert = 0; expert < kExperts; ++expert) {
        if (used == 1 ? expert == left_out : expert != left_out) pair_experts.push_back(expert);
      }
    }
  }

  int matrices() const { return static_cast<int>(weights.size()) / kExperts; }

  // The outputs of rows [first, first + count), [matrix][pair, output].
  std::vector<std::vector<float>> Run(int first, int count, int terms, int tile_pairs,
                                      bool biased) const {
    const auto begin = in.begin() + first * columns;
    const DeviceArray<float> device_in(std::vector<float>(begin, begin + count * columns));
    const DeviceArray<uint8_t> memory(ProductTermBytes(terms, count, columns));
    const ProductTerms prepared = LaunchProductTerms({.in = {device_in.data(), count, columns}},
                                                     terms, memory.data(), nullptr);
    const auto own = pair_experts.begin() + first * used;
    const int pairs = count * used;
    const DeviceArray<int32_t> device_experts(std::vector<int32_t>(own, own + pairs));
    const int most = MaxExpertTiles(pairs, kExperts, tile_pairs);
    const DeviceArray<int32_t> counts(kExperts), order(static_cast<size_t>(pairs)), tile_count(1);
    const DeviceArray<ExpertTile> tiles(static_cast<size_t>(most));
    const ExpertPairs grouped = {.counts = counts.data(),
                                 .order = order.data(),
                                 .tiles = tiles.data(),
                                 .tile_count = tile_count.data(),
                                 .max_tiles = most};
    LaunchGroupPairs(device_experts.data(), pairs, kExperts, tile_pairs, grouped, nullptr);

    const DeviceArray<float> device_biases(biases);
    std::deque<DeviceArray<float>> outs;
    std::vector<std::vector<CudaMatrix>> all(static_cast<size_t>(matrices()));
    std::vector<ExpertOutput> products;
    for (size_t m = 0; m < all.size(); ++m) {
      for (size_t e = 0; e < kExperts; ++e) all[m].push_back(weights[m * kExperts + e].Matrix());
      outs.emplace_back(static_cast<size_t>(pairs * outputs));
      const float* bias =
          device_biases.data() + m * static_cast<size_t>(kExperts) * static_cast<size_t>(outputs);
      products.push_back({all[m], biased ? bias : nullptr, outs.back().data()});
    }
    LaunchExpertProduct({.terms = prepared, .pairs_of_row = used}, products, grouped, tile_pairs,
                        nullptr);
    std::vector<std::vector<float>> results;
    for (const DeviceArray<float>& out : outs) results.push_back(out.Download());
    return results;
  }

  void ExpectTheProduct(const std::vector<std::vector<float>>& results, int terms,
                        bool biased) const {
    for (size_t m = 0; m < results.size(); ++m) {
      for (int pair = 0; pair < rows * used; ++pair) {
        const auto which =
            m * kExperts + static_cast<size_t>(pair_experts[static_cast<size_t>(pair)]);
        const TestMatrix& weight = weights[which];
        const double tolerance = terms == 1 ? 0x1p-8 : 0x1p-15;
        for (int n = 0; n < outputs; ++n) {
          double expected =
              biased ? biases[which * static_cast<size_t>(outputs) + static_cast<size_t>(n)] : 0;
          double size = std::fabs(expected);
          for (int k = 0; k < columns; ++k) {
            const double product =
                double{in[static_cast<size_t>(pair / used * columns + k)]} * weight.Value(n, k);
            expected += product;
            size += std::fabs(product);
          }
          ASSERT_NEAR(results[m][static_cast<size_t>(pair * outputs + n)], expected,
                      size * tolerance)
              << "matrix " << m << ", pair " << pair << ", output " << n;
        }
      }
    }
  }

  int rows;
  int used;
  int columns;
  int outputs;
  std::mt19937 random;
  std::vector<float> in;              // [rows, columns]
  std::deque<TestMatrix> weights;     // [matrices, kExperts]
  std::vector<float> biases;          // [matrices, kExperts, outputs]
  std::vector<int32_t> pair_experts;  // [rows, used]
};

using ExpertProduct = EveryFiberOrder;
INSTANTIATE_TEST_SUITE_P(Orders, ExpertProduct, testing::ValuesIn(cuda_shim::kAllFiberOrders));

TEST_P(ExpertProduct, IsThatOfEachPairWithItsExpert) {
  int turn = static_cast<int>(GetParam());
  for (const TestElement& element : kTestElements) {
    const bool quantised = IsQuantised(element.element);
    for (const int tile_pairs : {kTwoTilePairs, kFewTilePairs, kManyTilePairs}) {
      if (tile_pairs == kTwoTilePairs && !quantised) continue;
      const int rows = tile_pairs == kManyTilePairs ? 45 : 1 + turn % 12;
      const int used = 1 + turn % 2;
      const int terms = quantised ? 1 : 1 + turn / 2 % 2;
      const bool biased = turn % 3 == 0;
      const int columns = WholeBlocks(element, turn % 2 == 0 ? 131 : 1284);
      SCOPED_TRACE(GgmlTypeName(element.type) + ", " + std::to_string(rows) + " rows of " +
                   std::to_string(columns));
      const Problem problem(element, rows, used, columns, 19, 1 + turn % 2,
                            static_cast<uint32_t>(turn));
      problem.ExpectTheProduct(problem.Run(0, rows, terms, tile_pairs, biased), terms, biased);
      if (HasFatalFailure()) return;
      ++turn;
    }
  }
}

TEST_P(ExpertProduct, GivesAPairTheSameBitsAloneAndInTilesOfAnySize) {
  for (const TestElement& element : {kTestElements[1], kTestElements[2], kTestElements[4]}) {
    constexpr int kRows = 40;
    const int columns = WholeBlocks(element, 1284);
    const Problem problem(element, kRows, 2, columns, 17, 1, 5);
    const std::vector<float> all = problem.Run(0, kRows, 1, kManyTilePairs, true)[0];
    EXPECT_EQ(problem.Run(0, kRows, 1, kFewTilePairs, true)[0], all);
    for (const int row : {0, 7, kRows - 1}) {
      const std::vector<float> alone = problem.Run(row, 1, 1, kFewTilePairs, true)[0];
      ASSERT_EQ(std::memcmp(alone.data(), &all[static_cast<size_t>(row * 2 * 17)],
                            alone.size() * sizeof(float)),
                0)
          << GgmlTypeName(element.type) << ", row " << row;
    }
  }
}

}  // namespace
}  // namespace baton
