#include "common/speculation/ngram_proposer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int32_t> Propose(const std::vector<int32_t>& token_ids, int most = 4) {
  return NgramProposer().Propose(token_ids, most);
}

TEST(NgramProposer, GoesOnAsAfterTheSameThreeTokensBefore) {
  EXPECT_THAT(Propose({9, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3}), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(Propose({9, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3}, 2), ElementsAre(4, 5));
}

TEST(NgramProposer, ProposesNothingWhereNoThreeTokensCameBefore) {
  EXPECT_THAT(Propose({}), IsEmpty());
  EXPECT_THAT(Propose({1, 2}), IsEmpty());
  EXPECT_THAT(Propose({1, 2, 3}), IsEmpty());
  EXPECT_THAT(Propose({8, 2, 3, 4, 1, 2, 3}), IsEmpty()) << "only two agree";
}

TEST(NgramProposer, PrefersThePlaceThatAgreesWithTheMostTokensThenTheLatest) {
  EXPECT_THAT(Propose({5, 1, 2, 3, 40, 6, 1, 2, 3, 50, 5, 1, 2, 3}, 1), ElementsAre(40));
  EXPECT_THAT(Propose({6, 1, 2, 3, 40, 7, 1, 2, 3, 50, 5, 1, 2, 3}, 1), ElementsAre(50));
}

TEST(NgramProposer, RepeatsALoopBeyondItsEnd) {
  EXPECT_THAT(Propose({7, 7, 7, 7}), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(Propose({1, 2, 1, 2, 1}, 5), ElementsAre(2, 1, 2, 1, 2));
}

TEST(NgramProposer, FollowsACopiedPassageThroughWordsThatAreFrequent) {
  // A passage, then its three last tokens forty times with something else behind, then its copy.
  std::vector<int32_t> tokens = {50, 51, 52, 1, 2, 3, 60, 61};
  for (int i = 0; i < 40; ++i) tokens.insert(tokens.end(), {100 + i, 1, 2, 3, 200 + i});
  NgramProposer proposer;
  for (const int32_t token : {50, 51, 52}) tokens.push_back(token);
  EXPECT_THAT(proposer.Propose(tokens, 3), ElementsAre(1, 2, 3));
  for (const int32_t token : {1, 2, 3}) tokens.push_back(token);
  EXPECT_THAT(proposer.Propose(tokens, 2), ElementsAre(60, 61));
}

}  // namespace
}  // namespace baton
