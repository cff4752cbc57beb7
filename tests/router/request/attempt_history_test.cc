#include "router/request/attempt_history.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

using Place = AttemptHistory::Place;
using Verdict = AttemptHistory::Verdict;

constexpr absl::Duration kPatience = absl::Seconds(30);

Place AtOutput(size_t output_index) {
  return {.phase = Place::Phase::kDecode, .output_index = output_index};
}

TEST(AttemptHistory, ARequestThatKillsItsWorkersAtOnePlaceRunsAloneAndThenNoMore) {
  AttemptHistory history(kPatience);
  const absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(history.Broke(AtOutput(5), false, now), Verdict::kResume);
  EXPECT_FALSE(history.isolate());
  EXPECT_EQ(history.Broke(AtOutput(5), false, now), Verdict::kResume);
  EXPECT_TRUE(history.isolate());
  EXPECT_EQ(history.Broke(std::nullopt, false, now), Verdict::kResume) << "a refusal is no death";
  EXPECT_TRUE(history.isolate()) << "and changes nothing";
  EXPECT_EQ(history.Broke(AtOutput(5), false, now), Verdict::kResume);
  EXPECT_EQ(history.Broke(AtOutput(5), false, now), Verdict::kPoison);
}

TEST(AttemptHistory, ARequestThatKillsWhoeverOpensItOpensAloneAndThenNoMore) {
  AttemptHistory history(kPatience);
  const absl::Time now = absl::UnixEpoch();
  const Place opening = {.phase = Place::Phase::kOpening, .output_index = 3};
  EXPECT_EQ(history.Broke(opening, false, now), Verdict::kResume);
  EXPECT_FALSE(history.opens_alone());
  EXPECT_EQ(history.Broke(opening, false, now), Verdict::kResume);
  EXPECT_TRUE(history.opens_alone());
  EXPECT_FALSE(history.isolate()) << "its steps are those of others";
  EXPECT_EQ(history.Broke(AtOutput(3), false, now), Verdict::kResume) << "another place";
  EXPECT_EQ(history.Broke(opening, false, now), Verdict::kResume);
  EXPECT_EQ(history.Broke(opening, false, now), Verdict::kPoison);
}

TEST(AttemptHistory, AnAttemptThatDecodedLetsTheNextOnesOpenBesideOthers) {
  AttemptHistory history(kPatience);
  const absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < 2; ++i) history.Broke(Place{.phase = Place::Phase::kOpening}, false, now);
  EXPECT_TRUE(history.opens_alone());
  history.Broke(AtOutput(40), true, now);
  EXPECT_FALSE(history.opens_alone());
}

TEST(AttemptHistory, DeathsElsewhereDoNotMakeItPoison) {
  AttemptHistory history(kPatience);
  absl::Time now = absl::UnixEpoch();
  for (size_t token = 0; token < 1000; token += AttemptHistory::kGuessedOutputs) {
    ASSERT_EQ(history.Broke(AtOutput(token), true, now), Verdict::kResume) << token;
    ASSERT_FALSE(history.isolate()) << token;
    now += absl::Seconds(60);
  }
}

TEST(AttemptHistory, GettingBeyondThePlaceEndsTheIsolation) {
  AttemptHistory history(kPatience);
  const absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < 2; ++i) history.Broke(AtOutput(5), false, now);
  EXPECT_TRUE(history.isolate());
  history.Broke(AtOutput(40), true, now);
  EXPECT_FALSE(history.isolate());
}

TEST(AttemptHistory, APlaceOfAPrefillIsAStepOfIt) {
  AttemptHistory history(kPatience);
  const absl::Time now = absl::UnixEpoch();
  for (const uint32_t computed : {0u, 512u, 1024u}) {
    history.Broke(Place{.computed_tokens = computed}, false, now);
    EXPECT_FALSE(history.isolate()) << computed;
  }
  history.Broke(Place{.computed_tokens = 1024 + 511}, false, now);
  EXPECT_TRUE(history.isolate());
}

TEST(AttemptHistory, DeathsWithinTheReachOfGuessesIsolateButOnlyThoseAtOneOutputArePoison) {
  AttemptHistory history(kPatience);
  const absl::Time now = absl::UnixEpoch();
  for (const size_t output : {15, 16, 32}) {
    history.Broke(AtOutput(output), true, now);
    EXPECT_FALSE(history.isolate()) << output;
  }
  for (const size_t output : {18, 19, 20, 21, 31}) {
    EXPECT_EQ(history.Broke(AtOutput(output), true, now), Verdict::kResume) << output;
    EXPECT_TRUE(history.isolate()) << output;
  }
}

TEST(AttemptHistory, GivesUpWhenNothingWasGainedForItsPatienceButNeverAtTheFirstBreak) {
  AttemptHistory history(kPatience);
  absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(history.Broke(std::nullopt, false, now), Verdict::kResume);
  EXPECT_EQ(history.Broke(std::nullopt, false, now + kPatience / 2), Verdict::kResume);
  now += kPatience;
  EXPECT_EQ(history.Broke(std::nullopt, true, now), Verdict::kResume) << "it decoded";
  now += kPatience;
  EXPECT_EQ(history.Broke(std::nullopt, false, now), Verdict::kGiveUp);
}

TEST(AttemptHistory, WaitsLongerEachTimeThatNothingWasGained) {
  AttemptHistory history(kPatience);
  const absl::Time now = absl::UnixEpoch();
  history.Broke(std::nullopt, false, now);
  EXPECT_EQ(history.delay(), absl::ZeroDuration());
  absl::Duration before = absl::ZeroDuration();
  for (int i = 0; i < 6; ++i) {
    history.Broke(std::nullopt, false, now);
    EXPECT_GT(history.delay(), before);
    before = history.delay();
  }
  for (int i = 0; i < 100; ++i) history.Broke(std::nullopt, false, now);
  EXPECT_EQ(history.delay(), absl::Seconds(2));
  history.Broke(std::nullopt, true, now);
  EXPECT_EQ(history.delay(), absl::ZeroDuration());
}

}  // namespace
}  // namespace baton
