#include "common/engine/engine_stats.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(EngineStatsBoard, ShowsWhatWasPublishedAndTheProgressAndRateOfNow) {
  EngineStatsBoard board;
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  board.totals.generated_tokens = 5;
  EXPECT_EQ(board.Read(now).generated_tokens, 0u) << "not published yet";
  board.Publish(board.totals);
  board.totals.generated_tokens = 6;
  EXPECT_EQ(board.Read(now).generated_tokens, 5u);
  board.Advance();
  board.Advance();
  EXPECT_EQ(board.Read(now).progress, 2u);
  board.StepDone(now, 8);
  EXPECT_EQ(board.Read(now).tokens_per_second, 8 / 4.0);
  EXPECT_EQ(board.Read(now + absl::Seconds(5)).tokens_per_second, 0);
}

TEST(EngineStatsBoard, CountsStepsByTheirTokens) {
  EngineStatsBoard board;
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  for (const int tokens : {1, 8, 9, 20000}) board.StepDone(now, tokens);
  board.Publish(board.totals);
  const StepSizes steps = board.Read(now).steps;
  EXPECT_EQ(steps.tokens, 20018u);
  EXPECT_EQ(steps.counts.front(), 1u) << "a bound belongs to its bucket";
  EXPECT_EQ(steps.counts[1], 1u);
  EXPECT_EQ(steps.counts[2], 1u);
  EXPECT_EQ(steps.counts.back(), 1u) << "above all bounds";
}

}  // namespace
}  // namespace baton
