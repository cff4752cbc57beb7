#include "common/backend/cpu/experts/expert_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

using testing::ElementsAre;

// The choices of rows that use two experts each.
ExpertPairs PairsOf(const std::vector<int>& experts) {
  std::vector<ExpertChoice> choices;
  for (const int expert : experts) choices.push_back({.expert = expert, .share = 0});
  ExpertPairs pairs;
  pairs.Sort(choices, /*used=*/2, /*experts=*/6);
  return pairs;
}

TEST(ExpertPairs, AreSortedByExpertAndThenByRow) {
  const ExpertPairs pairs = PairsOf({1, 4, 0, 4, 1, 3, 4, 5});
  std::vector<int> experts;
  std::vector<int> rows;
  for (int pair = 0; pair < pairs.size(); ++pair) {
    experts.push_back(pairs.at(pair).expert);
    rows.push_back(pairs.at(pair).row);
  }
  EXPECT_THAT(experts, ElementsAre(0, 1, 1, 3, 4, 4, 4, 5));
  EXPECT_THAT(rows, ElementsAre(1, 0, 2, 2, 0, 1, 3, 3));
  EXPECT_THAT(pairs.places(), ElementsAre(1, 4, 0, 5, 2, 3, 6, 7));
  EXPECT_EQ(pairs.ExpertEnd(1), 3);
  EXPECT_EQ(pairs.ExpertEnd(6), 7);
}

std::vector<int> WaveEnds(const ExpertPairs& pairs, int most) {
  std::vector<int> ends;
  for (int first = 0; first < pairs.size(); first = ends.back()) {
    ends.push_back(pairs.WaveEnd(first, most));
  }
  return ends;
}

TEST(ExpertPairs, WavesTakeWholeExpertsAndCutOnlyThoseThatAreTooLarge) {
  const ExpertPairs pairs = PairsOf({1, 4, 0, 4, 1, 3, 4, 5});  // 1, 2, 1, 3 and 1 of an expert
  EXPECT_THAT(WaveEnds(pairs, 100), ElementsAre(8));
  EXPECT_THAT(WaveEnds(pairs, 4), ElementsAre(4, 8));
  EXPECT_THAT(WaveEnds(pairs, 3), ElementsAre(3, 4, 7, 8));
  EXPECT_THAT(WaveEnds(pairs, 2), ElementsAre(1, 3, 4, 6, 8));
  EXPECT_THAT(WaveEnds(pairs, 1), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(ExpertPairs, AreThoseOfTheLastSort) {
  ExpertPairs pairs = PairsOf({1, 4, 0, 4, 1, 3, 4, 5});
  pairs.Sort({{.expert = 2, .share = 1}}, /*used=*/1, /*experts=*/3);
  ASSERT_EQ(pairs.size(), 1);
  EXPECT_EQ(pairs.at(0).expert, 2);
  EXPECT_THAT(pairs.places(), ElementsAre(0));
  EXPECT_EQ(pairs.WaveEnd(0, 512), 1);
}

}  // namespace
}  // namespace baton
