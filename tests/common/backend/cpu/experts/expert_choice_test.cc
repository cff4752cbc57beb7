#include "common/backend/cpu/experts/expert_choice.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/instruction_sets.h"
#include "tests/support/random_values.h"

namespace baton {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<ExpertChoice> Choose(std::vector<float> logits, int rows, int used,
                                 CpuIsa isa = CpuIsa::kPortable, int threads = 1) {
  ThreadPool pool(threads, {});
  std::vector<ExpertChoice> choices(static_cast<size_t>(rows * used));
  const int experts = static_cast<int>(logits.size()) / rows;
  ChooseExperts(isa, pool, {logits.data(), rows, experts}, used, choices.data());
  return choices;
}

std::vector<int> ChosenExperts(const std::vector<ExpertChoice>& choices) {
  std::vector<int> experts;
  for (const ExpertChoice& choice : choices) experts.push_back(choice.expert);
  return experts;
}

TEST(ChooseExperts, TakesTheGreatestLogitsAndSharesTheirSoftmax) {
  for (const int experts : {1, 2, 7, 64}) {
    for (const int used : {1, 2, 7, 8, 64}) {
      if (used > experts) continue;
      constexpr int kRows = 9;
      const auto size = static_cast<size_t>(kRows * experts);
      const std::vector<float> logits = NormalValues(size, static_cast<uint32_t>(experts + used));
      const std::vector<ExpertChoice> choices = Choose(logits, kRows, used);
      for (int row = 0; row < kRows; ++row) {
        const float* own = logits.data() + row * experts;
        std::vector<int> best(static_cast<size_t>(experts));
        std::iota(best.begin(), best.end(), 0);
        std::sort(best.begin(), best.end(), [own](int a, int b) { return own[a] > own[b]; });
        best.resize(static_cast<size_t>(used));
        std::sort(best.begin(), best.end());
        double sum = 0;
        for (const int expert : best) sum += std::exp(double{own[expert]});
        for (int i = 0; i < used; ++i) {
          const ExpertChoice& choice = choices[static_cast<size_t>(row * used + i)];
          const int expert = best[static_cast<size_t>(i)];
          ASSERT_EQ(choice.expert, expert) << "row " << row << ", " << used << " of " << experts;
          ASSERT_NEAR(choice.share, std::exp(double{own[expert]}) / sum, 1e-6);
        }
      }
    }
  }
}

TEST(ChooseExperts, TakesTheLowerExpertOfEqualLogits) {
  const std::vector<ExpertChoice> equal = Choose({2, 2, 2, 2}, 1, 3);
  EXPECT_EQ(ChosenExperts(equal), std::vector<int>({0, 1, 2}));
  for (const ExpertChoice& choice : equal) EXPECT_EQ(choice.share, 1.0f / 3);
  EXPECT_EQ(ChosenExperts(Choose({1, 0, 1, 3, 1}, 1, 3)), std::vector<int>({0, 2, 3}));
  EXPECT_EQ(ChosenExperts(Choose({-0.0f, 0.0f}, 1, 1)), std::vector<int>({0}));
}

TEST(ChooseExperts, StaysWithinTheExpertsWhateverTheLogits) {
  EXPECT_EQ(ChosenExperts(Choose({kNan, 1, kNan, -5}, 1, 2)), std::vector<int>({1, 3}));
  EXPECT_EQ(ChosenExperts(Choose({kNan, kNan, kNan}, 1, 2)), std::vector<int>({0, 1}));
  EXPECT_EQ(ChosenExperts(Choose({0, -kInfinity, kNan, kInfinity}, 1, 3)),
            std::vector<int>({0, 1, 3}));
  // A logit of -infinity has no share, and a NaN that had to be chosen shows.
  EXPECT_EQ(Choose({-kInfinity, 4}, 1, 2)[0].share, 0);
  EXPECT_TRUE(std::isnan(Choose({kNan, 1}, 1, 2)[0].share));
}

TEST(ChooseExperts, GivesARowTheSameBitsAloneAndOnEveryInstructionSet) {
  constexpr int kRows = 21;
  constexpr int kExperts = 40;
  constexpr int kUsed = 6;
  const std::vector<float> logits = NormalValues(kRows * kExperts, 5);
  const std::vector<ExpertChoice> expected = Choose(logits, kRows, kUsed);
  for (const CpuIsa isa : InstructionSets()) {
    const std::vector<ExpertChoice> all = Choose(logits, kRows, kUsed, isa, /*threads=*/3);
    EXPECT_EQ(std::memcmp(all.data(), expected.data(), sizeof(ExpertChoice) * all.size()), 0)
        << CpuIsaName(isa);
    for (int row = 0; row < kRows; ++row) {
      const auto first = logits.begin() + row * kExperts;
      const std::vector<ExpertChoice> alone = Choose({first, first + kExperts}, 1, kUsed, isa);
      EXPECT_EQ(std::memcmp(alone.data(), expected.data() + row * kUsed,
                            sizeof(ExpertChoice) * alone.size()),
                0)
          << CpuIsaName(isa) << ", row " << row;
    }
  }
}

}  // namespace
}  // namespace baton
