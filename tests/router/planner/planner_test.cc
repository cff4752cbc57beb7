#include "router/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace baton {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A load by its rates.
struct Asked {
  double requests = 10;  // a second
  double prompt_tokens = 1000, output_tokens = 100;
  double uncached = 1;  // share of the prompts
};
// A lone sequence has a token in 20 ms, each more makes it 1 ms later: 20 sequences at 40 ms, which
// is 500 tokens/s.
StepTime Steps() {
  StepTime steps;
  for (int i = 0; i < 100; ++i) {
    const double sequences = 1 + i % 40;
    steps.Add(
        {.sequences = sequences, .tokens_per_second = sequences / (0.020 + 0.001 * sequences)});
  }
  return steps;
}

// A planner second by second. Prefill workers compute 4000 tokens/s.
class PlannerTest : public testing::Test {
 protected:
  static constexpr double kRate = 4000;

  explicit PlannerTest(const Planner::Options& options = {}) : planner_(options) {}

  const Advice& Play(const Asked& asked, int seconds) {
    for (int i = 0; i < seconds; ++i) {
      requests_ += asked.requests;
      prompts_ += asked.requests * asked.prompt_tokens;
      uncached_ += asked.requests * asked.prompt_tokens * asked.uncached;
      outputs_ += asked.requests * asked.output_tokens;
      load_.demand.requests = load_.demand.ended = static_cast<uint64_t>(requests_);
      load_.demand.prompt_tokens = load_.demand.placed_tokens = static_cast<uint64_t>(prompts_);
      load_.demand.uncached_tokens = static_cast<uint64_t>(uncached_);
      load_.demand.output_tokens = static_cast<uint64_t>(outputs_);
      load_.computed_tokens = uncached_;
      load_.busy_seconds = uncached_ / kRate;
      Tick();
    }
    return advice_;
  }
  const Advice& Tick() {
    now_ += absl::Seconds(1);
    advice_ = planner_.Take(load_, steps_, now_);
    return advice_;
  }
  // What is needed of a load that stays.
  static std::pair<double, double> Needed(const Asked& asked, Planner::Options options = {}) {
    struct One : PlannerTest {
      using PlannerTest::PlannerTest;
      void TestBody() override {}
    } one(options);
    const Advice& advice = one.Play(asked, 60);
    return {advice.prefill.needed.value_or(-1), advice.decode.needed.value_or(-1)};
  }

  Planner planner_;
  StepTime steps_ = Steps();
  FleetLoad load_{.prefill_workers = 4, .decode_workers = 3};
  double requests_ = 0, prompts_ = 0, uncached_ = 0, outputs_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  Advice advice_;
};

TEST_F(PlannerTest, NothingIsAdvisedBeforeItWasMeasured) {
  steps_ = StepTime();
  const Advice& advice = Play({.requests = 0}, 300);
  for (const RoleAdvice& role : {advice.prefill, advice.decode}) {
    EXPECT_FALSE(role.needed.has_value());
    EXPECT_EQ(role.advised, 0u);
    EXPECT_EQ(role.balanced, 0u);
    EXPECT_THAT(role.why, StartsWith("not known yet"));
  }
  EXPECT_FALSE(advice.colocated.has_value());
  EXPECT_EQ(advice.prefill.ready, 4u);
  EXPECT_EQ(advice.decode.ready, 3u);
}

TEST_F(PlannerTest, NothingIsAdvisedOfAFewSeconds) {
  EXPECT_FALSE(Play({}, 9).prefill.needed.has_value());
  EXPECT_TRUE(Play({}, 3).prefill.needed.has_value());
}

TEST_F(PlannerTest, NeedsWhatTheHeaderSays) {
  const Advice& advice = Play({}, 60);
  EXPECT_NEAR(*advice.prefill.needed, 10 * 1000 / (kRate * 0.8), 0.05);
  EXPECT_EQ(advice.prefill.advised, 3u);
  EXPECT_THAT(advice.prefill.why, StartsWith("10000 prompt tokens/s to compute, 4000/s by a busy"));
  EXPECT_NEAR(*advice.decode.needed, 10 * 100 / (500 * 0.8), 0.05);
  EXPECT_EQ(advice.decode.advised, 3u);
  EXPECT_THAT(advice.decode.why, StartsWith("1000 output tokens/s asked for, 500/s by a worker"));
}

TEST_F(PlannerTest, SaysWhyItAdvisesMoreThanTheLoadNeedsNow) {
  for (const RoleAdvice& role : {Play({}, 60).prefill, advice_.decode}) {
    EXPECT_THAT(role.why, Not(HasSubstr("held"))) << "as many as are needed";
  }
  for (const RoleAdvice& role : {Play({.requests = 0.5}, 60).prefill, advice_.decode}) {
    EXPECT_LT(*role.needed, 1);
    EXPECT_EQ(role.advised, 3u);
    EXPECT_THAT(role.why, HasSubstr("; held at 3 until fewer have sufficed, with a tenth to spare, "
                                    "for 2m"));
  }
  for (const RoleAdvice& role : {Play({.requests = 0.5}, 120).prefill, advice_.decode}) {
    EXPECT_EQ(role.advised, 1u);
    EXPECT_THAT(role.why, Not(HasSubstr("held")));
  }
}

TEST_F(PlannerTest, TwiceTheLoadNeedsTwiceTheWorkers) {
  const auto [prefill, decode] = Needed({});
  const auto [prefill2, decode2] = Needed({.requests = 20});
  EXPECT_NEAR(prefill2, 2 * prefill, 1e-6);
  EXPECT_NEAR(decode2, 2 * decode, 1e-6);
  const auto [busier, decode3] = Needed({}, {.utilisation = 0.4});
  EXPECT_NEAR(busier, 2 * prefill, 1e-6);
  EXPECT_NEAR(decode3, 2 * decode, 1e-6);
}

TEST_F(PlannerTest, MoreOfAnythingNeverNeedsFewer) {
  const Asked base{.requests = 8, .prompt_tokens = 700, .output_tokens = 90};
  const auto before = Needed(base);
  for (const double factor : {1.0, 1.01, 1.5, 7.0, 300.0}) {
    Asked more = base;
    more.requests *= factor;
    EXPECT_GE(Needed(more).first, before.first - 1e-9);
    EXPECT_GE(Needed(more).second, before.second - 1e-9);
    more = base;
    more.prompt_tokens *= factor;
    EXPECT_GE(Needed(more).first, before.first - 1e-9);
    EXPECT_NEAR(Needed(more).second, before.second, 1e-9);
    more = base;
    more.output_tokens *= factor;
    EXPECT_NEAR(Needed(more).first, before.first, 1e-9);
    EXPECT_GE(Needed(more).second, before.second - 1e-9);
  }
}

TEST_F(PlannerTest, TheSlightestLoadNeedsAWorkerOfEachRoleAndSoDoesNone) {
  Play({}, 60);
  const Advice& advice = Play({.requests = 0.02, .prompt_tokens = 1, .output_tokens = 1}, 600);
  EXPECT_EQ(advice.prefill.advised, 1u);
  EXPECT_EQ(advice.decode.advised, 1u);
  Play({.requests = 0}, 600);
  EXPECT_EQ(advice.prefill.advised, 1u);
  EXPECT_EQ(advice.decode.advised, 1u);
  EXPECT_EQ(*advice.prefill.needed, 0);
}

TEST_F(PlannerTest, WhatIsCachedIsNotComputed) {
  EXPECT_NEAR(Needed({.uncached = 0.25}).first, Needed({}).first / 4, 0.01);
}

TEST_F(PlannerTest, PromptsThatWaitAreToBeComputedWithinAWindow) {
  const double before = *Play({}, 60).prefill.needed;
  load_.demand.waiting_tokens = 30 * 8000;
  EXPECT_NEAR(*Tick().prefill.needed, before + 8000 / (kRate * 0.8), 0.2);
}

TEST_F(PlannerTest, RequestsThatWereTurnedAwayCountAtMostOnceForEachThatWasTaken) {
  const double prefill = *Play({}, 60).prefill.needed, decode = *advice_.decode.needed;
  for (int i = 0; i < 40; ++i) {
    load_.refused += 5;
    Play({}, 1);
  }
  EXPECT_NEAR(*advice_.prefill.needed, 1.5 * prefill, 0.05);
  EXPECT_NEAR(*advice_.decode.needed, 1.5 * decode, 0.05);
  for (int i = 0; i < 40; ++i) {
    load_.refused += 5000;
    Play({}, 1);
  }
  EXPECT_NEAR(*advice_.prefill.needed, 2 * prefill, 0.05);
}

TEST_F(PlannerTest, FollowsALastingChangeWithinAWindowAndALesserLoadAfterFourMore) {
  EXPECT_EQ(Play({}, 120).prefill.advised, 3u);
  const Advice& more = Play({.requests = 30}, 30);
  EXPECT_EQ(more.prefill.advised, 9u);
  EXPECT_EQ(more.decode.advised, 8u);
  EXPECT_EQ(Play({}, 120).prefill.advised, 9u) << "the load may come again";
  EXPECT_EQ(Play({}, 35).prefill.advised, 4u) << "a little more than it needs";
}

TEST_F(PlannerTest, LongerAnswersShowBeforeTheFirstOfThemHasEnded) {
  EXPECT_EQ(Play({}, 60).decode.advised, 3u);
  load_.decoding = 120;
  for (int i = 0; i < 6; ++i) Play({}, 1);
  EXPECT_NEAR(*advice_.decode.needed, 120 / (20 * 0.8), 0.1);
  EXPECT_THAT(advice_.decode.why, HasSubstr("120 sequences are generated for"));
}

TEST_F(PlannerTest, OfTwoMeasuresOfAWorkersSpeedTheHigherCounts) {
  const double before = *Play({}, 60).prefill.needed;
  load_.told_tokens = 80000;
  load_.told_seconds = 10;
  EXPECT_NEAR(*Tick().prefill.needed, before / 2, 0.1);
}

TEST_F(PlannerTest, ALoadThatIsNoisyAroundAMeanDoesNotMoveTheNumber) {
  std::mt19937_64 random(3);
  std::poisson_distribution<int> arrivals(20);
  std::pair<uint32_t, uint32_t> last;
  int changes = 0;
  for (int second = 0; second < 3600; ++second) {
    Play({.requests = static_cast<double>(arrivals(random))}, 1);
    const std::pair<uint32_t, uint32_t> now = {advice_.prefill.advised, advice_.decode.advised};
    if (second > 300) changes += now != last ? 1 : 0;
    last = now;
  }
  EXPECT_LE(changes, 4) << "of both roles, in 55 minutes";
}

TEST_F(PlannerTest, TheSplitOfWhatIsThereStaysWhileItIsNearlyTheBest) {
  EXPECT_EQ(Play({}, 60).prefill.balanced, 4u) << "3.1 to 2.5 of seven";
  EXPECT_EQ(advice_.decode.balanced, 3u);
  EXPECT_EQ(BalancedPrefill(2.4, 2.5, 7), 3u);
  EXPECT_EQ(Play({.prompt_tokens = 768}, 60).prefill.balanced, 4u) << "2.4 to 2.5";
  EXPECT_EQ(Play({.prompt_tokens = 200}, 60).prefill.balanced, 2u);
  EXPECT_EQ(advice_.decode.balanced, 5u);
}

TEST_F(PlannerTest, TellsHowFewWorkersWouldDoBothWhereTheyAreFewer) {
  const Advice& advice = Play({.requests = 0.8}, 400);
  ASSERT_TRUE(advice.colocated.has_value()) << "0.25 and 0.2 of a worker";
  EXPECT_EQ(advice.colocated->workers, 1u);
  EXPECT_NEAR(advice.colocated->prompt_share, 0.2, 0.01) << "800 tokens/s at 4000/s";
  EXPECT_FALSE(Play({.requests = 2}, 60).colocated.has_value()) << "0.62 and 0.5: two as well";
}

TEST_F(PlannerTest, WhoDoesBothNeedsMoreTimeForPromptsBecauseTokensWaitMeanwhile) {
  // A lone sequence takes half of the time that a token may take: each prompt counts twice.
  const Advice& advice = Play({.requests = 7.2, .output_tokens = 55}, 60);
  EXPECT_NEAR(*advice.prefill.needed, 2.25, 0.01);
  EXPECT_NEAR(*advice.decode.needed, 0.99, 0.01);
  EXPECT_FALSE(advice.colocated.has_value())
      << "six for four, though 2.25 + 0.99 is less than four";
  Play({.requests = 4.5, .output_tokens = 55}, 400);
  EXPECT_EQ(advice_.prefill.advised + advice_.decode.advised, 3u);
  EXPECT_FALSE(advice_.colocated.has_value()) << "2 * 1.41 + 0.62 is more than three";
  Play({.requests = 3.6, .output_tokens = 12}, 400);
  EXPECT_EQ(advice_.prefill.advised + advice_.decode.advised, 3u);
  EXPECT_FALSE(advice_.colocated.has_value()) << "2 * 1.13 + 0.11: three as well";
}

class WithoutPrefillWorkers : public PlannerTest {
 protected:
  WithoutPrefillWorkers() : PlannerTest({.prompts_on_decode_workers = true}) {}
};

TEST_F(WithoutPrefillWorkers, ThereIsNoneToAdvise) {
  const Advice& advice = Play({}, 60);
  EXPECT_EQ(advice.prefill.advised, 0u);
  EXPECT_EQ(*advice.prefill.needed, 0);
  EXPECT_THAT(advice.prefill.why, HasSubstr("--disaggregate"));
  EXPECT_EQ(advice.decode.advised, 3u);
  EXPECT_FALSE(advice.colocated.has_value());
}

}  // namespace
}  // namespace baton
