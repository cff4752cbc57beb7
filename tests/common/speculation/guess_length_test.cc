#include "common/speculation/guess_length.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

constexpr StepWithoutGuesses kAlone = {.fixed_rows = 6.5, .rows = 1};
constexpr StepWithoutGuesses kSixteen = {.fixed_rows = 6.5, .rows = 16, .other_tokens = 15};

TEST(Acceptance, FollowsWhatCameTrueAndForgets) {
  Acceptance acceptance(0.5);
  const double begin = acceptance.rate();
  acceptance.Observe(0, /*refused=*/true);
  EXPECT_LT(acceptance.rate(), begin);
  acceptance.Observe(100, /*refused=*/false);
  EXPECT_GT(acceptance.rate(), 0.9);
  for (int i = 0; i < 100; ++i) acceptance.Observe(0, /*refused=*/true);
  EXPECT_LT(acceptance.rate(), 0.1);
  acceptance.Observe(0, /*refused=*/false);  // nothing was guessed
  EXPECT_LT(acceptance.rate(), 0.1);
  for (int i = 0; i < 100; ++i) acceptance.Fade();
  EXPECT_GT(acceptance.rate(), 0.4);
}

TEST(GuessLength, ExpectsEachGuessOnlyBehindThoseThatCameTrue) {
  EXPECT_EQ(ExpectedTokens({0.5}, 0), 1);
  EXPECT_EQ(ExpectedTokens({0.5}, 1), 1.5);
  EXPECT_EQ(ExpectedTokens({0.5}, 3), 1.875);
  EXPECT_EQ(ExpectedTokens({1}, 16), 17);
}

TEST(GuessLength, IsTheLengthWithTheMostTokensInATime) {
  EXPECT_EQ(BestGuessLength(kAlone, {0.05}, 16), 0);
  EXPECT_EQ(BestGuessLength(kAlone, {1}, 16), 16);
  EXPECT_EQ(BestGuessLength(kAlone, {1}, 3), 3);
  EXPECT_EQ(BestGuessLength(kAlone, {1}, 0), 0);
  for (const double acceptance : {0.2, 0.5, 0.8, 0.95}) {
    const auto tokens_per_row = [&](int guesses) {
      return ExpectedTokens({acceptance}, guesses) / (6.5 + 1 + guesses);
    };
    const int best = BestGuessLength(kAlone, {acceptance}, 16);
    for (int other = 0; other <= 16; ++other) {
      EXPECT_LE(tokens_per_row(other), tokens_per_row(best)) << acceptance << " " << other;
    }
  }
}

TEST(GuessLength, ExpectsOfForcedGuessesWhatBecameOfOtherForcedOnes) {
  EXPECT_EQ(ExpectedTokens({.acceptance = 0.5, .forced = 2}, 2), 3);
  EXPECT_EQ(ExpectedTokens({.acceptance = 0.5, .forced = 2}, 4), 3.75);
  EXPECT_EQ(BestGuessLength(kAlone, {.acceptance = 0.05, .forced = 6}, 16), 6);
  EXPECT_EQ(BestGuessLength(kAlone, {.acceptance = 0.05, .forced = 6}, 4), 4);
  EXPECT_EQ(BestGuessLength(kSixteen, {.acceptance = 0.95, .forced = 6}, 6), 6);
  EXPECT_EQ(ExpectedTokens({.acceptance = 1, .forced = 2, .forced_acceptance = 0.5}, 3), 2);
  EXPECT_EQ(BestGuessLength(kAlone, {.forced = 6, .forced_acceptance = 0.05}, 16), 0);
}

TEST(GuessLength, AsksForMoreConfidenceInALargerBatch) {
  EXPECT_GT(BestGuessLength(kAlone, {0.5}, 16), 0);
  EXPECT_EQ(BestGuessLength(kSixteen, {0.5}, 16), 0);
  EXPECT_GT(BestGuessLength(kSixteen, {0.95}, 16), 0);
}

TEST(GuessLength, IsShorterOrZeroWhereAGuessTakesTimeBeforeItsRow) {
  StepWithoutGuesses step = kAlone;
  step.guess_rows = 4;
  EXPECT_GT(BestGuessLength(step, {0.8}, 16), 0);
  EXPECT_LT(BestGuessLength(step, {0.8}, 16), BestGuessLength(kAlone, {0.8}, 16));
  step.guess_rows = 20;
  EXPECT_EQ(BestGuessLength(step, {0.95}, 16), 0);
}

TEST(GuessLength, IsSoonZeroForASequenceWhoseGuessesNeverComeTrue) {
  Acceptance acceptance(0.5);
  int rows = 0;
  for (int step = 0; step < 100; ++step) {
    const int guesses = BestGuessLength(kAlone, {acceptance.rate()}, 16);
    rows += guesses;
    acceptance.Observe(0, /*refused=*/true);
  }
  EXPECT_GT(rows, 0);
  EXPECT_LT(rows, 10);
}

}  // namespace
}  // namespace baton
