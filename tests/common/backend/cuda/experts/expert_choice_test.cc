#include "common/backend/cuda/experts/expert_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {
namespace {

using ExpertChoice = EveryFiberOrder;
INSTANTIATE_TEST_SUITE_P(Orders, ExpertChoice, testing::ValuesIn(cuda_shim::kAllFiberOrders));

struct Choices {
  std::vector<int32_t> experts;
  std::vector<float> shares;
};

Choices Choose(const std::vector<float>& logits, int rows, int used) {
  const auto pairs = static_cast<size_t>(rows * used);
  const DeviceArray<float> router(logits);
  const DeviceArray<int32_t> experts(pairs);
  const DeviceArray<float> shares(pairs);
  LaunchChooseExperts({router.data(), rows, static_cast<int>(logits.size()) / rows}, used,
                      experts.data(), shares.data(), nullptr);
  return {experts.Download(), shares.Download()};
}

// The experts in the order in which a row of logits would choose them.
std::vector<int32_t> Ranking(const float* logits, int experts) {
  std::vector<int32_t> ids(static_cast<size_t>(experts));
  std::iota(ids.begin(), ids.end(), 0);
  const auto ranked = [logits](int32_t id) {
    return std::isnan(logits[id]) ? -std::numeric_limits<float>::infinity() : logits[id];
  };
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return ranked(a) > ranked(b); });
  return ids;
}

// Logits of few values, so that many are equal; both zeros, and here and there no number.
std::vector<float> Logits(int count, bool any, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits;
  for (int i = 0; i < count; ++i) {
    const unsigned draw = random() % 16;
    logits.push_back(draw < 6           ? normal(random)
                     : draw == 6        ? -0.0f
                     : any && draw == 7 ? NAN
                     : any && draw == 8 ? -INFINITY
                                        : static_cast<float>(static_cast<int>(random() % 5) - 2));
  }
  return logits;
}

TEST_P(ExpertChoice, IsTheGreatestLogitsAndTheirSoftmax) {
  std::mt19937 random(1);
  struct Shape {
    int experts;
    int used;
  };
  for (const auto& [experts, used] :
       {Shape{1, 1}, {8, 2}, {6, 3}, {32, 4}, {33, 33}, {128, 8}, {500, 9}, {512, 40}}) {
    const int rows = 1 + static_cast<int>(random() % 9);
    const std::vector<float> logits = Logits(rows * experts, false, random);
    const Choices choices = Choose(logits, rows, used);
    for (int row = 0; row < rows; ++row) {
      const float* own = &logits[static_cast<size_t>(row * experts)];
      std::vector<int32_t> expected = Ranking(own, experts);
      expected.resize(static_cast<size_t>(used));
      const double greatest = own[expected[0]];
      std::sort(expected.begin(), expected.end());
      double sum = 0;
      for (const int32_t id : expected) sum += std::exp(own[id] - greatest);
      for (int i = 0; i < used; ++i) {
        const auto pair = static_cast<size_t>(row * used + i);
        const int32_t id = expected[static_cast<size_t>(i)];
        ASSERT_EQ(choices.experts[pair], id) << experts << " experts, row " << row;
        ASSERT_NEAR(choices.shares[pair], std::exp(own[id] - greatest) / sum, 1e-6);
      }
    }
  }
}

TEST_P(ExpertChoice, HasDistinctExpertsWhateverTheLogits) {
  std::mt19937 random(2);
  for (const int experts : {3, 31, 64}) {
    constexpr int kRows = 20;
    std::vector<float> logits = Logits(kRows * experts, true, random);
    for (int i = 0; i < experts; ++i) logits[static_cast<size_t>(i)] = NAN;
    const Choices choices = Choose(logits, kRows, 3);
    for (int row = 0; row < kRows; ++row) {
      const float* own = &logits[static_cast<size_t>(row * experts)];
      std::vector<int32_t> expected = Ranking(own, experts);
      expected.resize(3);
      const float greatest = own[expected[0]];
      std::sort(expected.begin(), expected.end());
      bool none = std::isinf(greatest);
      for (size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(choices.experts[static_cast<size_t>(row) * 3 + i], expected[i]);
        none |= std::isnan(own[expected[i]]);
      }
      for (size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(std::isnan(choices.shares[static_cast<size_t>(row) * 3 + i]), none);
      }
    }
  }
}

}  // namespace
}  // namespace baton
