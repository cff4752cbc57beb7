#include "router/planner/step_time.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace baton {
namespace {

constexpr double kAlone = 0.020, kMore = 0.001;

StepTime::Sample Of(double sequences, double error = 0) {
  const double seconds = kAlone + kMore * sequences;
  return {.sequences = sequences + error, .tokens_per_second = sequences / seconds};
}

// What a worker showed that had from 1 to `most` sequences.
StepTime Shown(int most) {
  StepTime steps;
  for (int i = 0; i < 100; ++i) steps.Add(Of(1 + i % most));
  return steps;
}

TEST(StepTime, FindsTheLineAndWhereItMeetsTheObjective) {
  const auto found = Shown(40).Find(0.050);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->sequences, 30, 0.5);
  EXPECT_NEAR(found->seconds_per_token, 0.050, 1e-4);
  EXPECT_EQ(found->bound, StepTime::Bound::kObjective);
  EXPECT_NEAR(found->tokens_per_second(), 600, 10);
  EXPECT_NEAR(found->alone_seconds, kAlone, 1e-6);
  EXPECT_NEAR(found->more_seconds, kMore, 1e-6);
  EXPECT_EQ(found->limit_seconds, 0.050);
}

TEST(StepTime, WithoutAnObjectiveATokenMayTakeTwiceWhatItTakesALoneSequence) {
  const auto found = Shown(40).Find(0);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->sequences, kAlone / kMore, 0.5);
  EXPECT_NEAR(found->seconds_per_token, 2 * kAlone, 1e-3);
}

TEST(StepTime, AnObjectiveThatALoneSequenceMissesDoesNotCount) {
  const auto found = Shown(40).Find(0.015);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->objective_is_missed);
  EXPECT_NEAR(found->sequences, kAlone / kMore, 0.5);
  EXPECT_FALSE(Shown(40).Find(0.050)->objective_is_missed);
}

TEST(StepTime, NothingIsKnownBeforeTheSequencesHaveVaried) {
  StepTime steps;
  EXPECT_FALSE(steps.Find(0).has_value());
  for (int i = 0; i < 100; ++i) steps.Add(Of(8));
  EXPECT_FALSE(steps.Find(0).has_value()) << "always 8: how it is with 9 nobody knows";
  StepTime few;
  for (int i = 1; i <= 7; ++i) few.Add(Of(i));
  EXPECT_FALSE(few.Find(0).has_value());
  few.Add(Of(8));
  EXPECT_TRUE(few.Find(0).has_value());
}

TEST(StepTime, ErrorsInTheNumberOfSequencesDoNotPassForGrowth) {
  StepTime steps;
  for (int i = 0; i < 600; ++i) {
    const double sequences = 4 + i % 9;
    steps.Add(Of(sequences, (i / 9 % 2 == 0 ? 1 : -1) * 0.4 * sequences));
  }
  const auto found = steps.Find(0);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->sequences, kAlone / kMore, 3) << "a plain regression finds 4";
}

TEST(StepTime, NoWorkerIsSaidToCarryMoreThanTwiceWhatOneWasSeenTo) {
  const auto found = Shown(6).Find(1.0);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->sequences, 12, 0.5);
  EXPECT_EQ(found->bound, StepTime::Bound::kSeen);
  EXPECT_NEAR(found->seconds_per_token, kAlone + 12 * kMore, 1e-3);
}

TEST(StepTime, MemoryBoundsTheSequences) {
  StepTime steps;
  for (int i = 0; i < 100; ++i) {
    StepTime::Sample sample = Of(1 + i % 20);
    sample.used_blocks = 10 * sample.sequences;
    sample.total_blocks = 150;
    steps.Add(sample);
  }
  const auto found = steps.Find(1.0);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->sequences, 15, 0.1);
  EXPECT_EQ(found->bound, StepTime::Bound::kMemory);
}

TEST(StepTime, AWorkerThatLetsOthersWaitHasNoMorePlaces) {
  StepTime steps;
  for (int i = 0; i < 100; ++i) {
    StepTime::Sample sample = Of(1 + i % 16);
    sample.always_waited = sample.sequences == 16;
    steps.Add(sample);
  }
  const auto found = steps.Find(1.0);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->sequences, 16, 0.5);
  EXPECT_EQ(found->bound, StepTime::Bound::kPlaces);
}

TEST(StepTime, AFasterUnitOfTimeScalesTheTokensAlone) {
  StepTime slow, fast;
  for (int i = 0; i < 100; ++i) {
    StepTime::Sample sample = Of(1 + i % 40);
    slow.Add(sample);
    sample.tokens_per_second *= 10;
    fast.Add(sample);
  }
  EXPECT_NEAR(slow.Find(0)->sequences, fast.Find(0)->sequences, 1e-6);
  EXPECT_NEAR(10 * slow.Find(0)->tokens_per_second(), fast.Find(0)->tokens_per_second(), 1e-6);
}

TEST(StepTime, WhatIsLongAgoFades) {
  StepTime steps = Shown(40);
  for (int i = 0; i < 3000; ++i) {
    StepTime::Sample sample = Of(1 + i % 40);
    sample.tokens_per_second /= 3;  // another model, say
    steps.Add(sample);
  }
  EXPECT_NEAR(steps.Find(0)->seconds_per_token, 3 * 2 * kAlone, 0.003);
}

TEST(StepTime, WhereBatchesDoNotHelpOneSequenceIsCapacityEnough) {
  StepTime steps;
  for (int i = 0; i < 50; ++i) {
    const double sequences = 1 + i % 4;
    // Tokens hardly grow, and what grows them is no fixed time.
    steps.Add({.sequences = sequences, .tokens_per_second = i % 4 == 0 ? 88.0 : 104.0});
  }
  const auto found = steps.Find(0);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->sequences, 1);
  EXPECT_NEAR(found->tokens_per_second(), 100, 15);
}

}  // namespace
}  // namespace baton
