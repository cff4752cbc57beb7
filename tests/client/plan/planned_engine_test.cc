#include "client/plan/planned_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/plan/planned_things.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Kind = PlannedSequence::Kind;

class PlannedEngineTest : public testing::Test {
 protected:
  PlannedEngine Engine(int64_t tokens, PlannedEngine::Options options = {.block_tokens = 16}) {
    options.max_step_duration = absl::InfiniteDuration();
    return PlannedEngine(options, costs_,
                         PlannedMemory(0, {.tokens = tokens, .page_tokens = 16}, holders_));
  }
  // The rows that the step computed, by sequence.
  static std::vector<std::pair<uint32_t, int>> Rows(absl::Span<const StepOutcome> outcomes) {
    std::vector<std::pair<uint32_t, int>> rows;
    for (const StepOutcome& outcome : outcomes) {
      rows.emplace_back(outcome.sequence->request, outcome.token_count);
    }
    return rows;
  }
  // Runs the engine until it has nothing to do, and releases what is whole. Returns the steps.
  static int RunAll(PlannedEngine& engine) {
    int steps = 0;
    while (engine.Begin().has_value()) {
      ++steps;
      for (const StepOutcome& outcome : engine.Finish()) {
        PlannedSequence& sequence = *outcome.sequence;
        if (sequence.generated_tokens() == sequence.output_tokens) engine.Release(sequence);
      }
    }
    return steps;
  }

  const StepCosts costs_ = RoundCosts();
  PageHolders holders_;
};

TEST_F(PlannedEngineTest, CutsPromptsIntoChunksAndFillsAStepWithTheNext) {
  PlannedEngine engine = Engine(1 << 16);
  PlannedSequence first{
      .kind = Kind::kPrefillOnly, .request = 0, .prompt_tokens = 700, .output_tokens = 1};
  PlannedSequence second{
      .kind = Kind::kPrefillOnly, .request = 1, .prompt_tokens = 400, .output_tokens = 1};
  engine.Submit(first);
  engine.Submit(second);
  EXPECT_EQ(engine.Begin(), 51'200'000);
  EXPECT_THAT(engine.admitted(), ElementsAre(&first)) << "no room is left for a second prompt";
  EXPECT_THAT(Rows(engine.Finish()), ElementsAre(std::pair(0u, 512)));
  EXPECT_EQ(engine.Begin(), (188 + 320) * 100'000);
  EXPECT_THAT(engine.admitted(), ElementsAre(&second));
  EXPECT_THAT(Rows(engine.Finish()), ElementsAre(std::pair(0u, 188), std::pair(1u, 320)))
      << "a chunk that is not the last ends on a multiple of 64";
  EXPECT_EQ(engine.Begin(), 80 * 100'000);
  engine.Finish();
  EXPECT_EQ(engine.Begin(), std::nullopt);
  EXPECT_EQ(engine.memory().used(), 704 + 400) << "until the last byte has gone";
  engine.Release(first);
  engine.Release(second);
  EXPECT_EQ(engine.memory().used(), 0);
}

TEST_F(PlannedEngineTest, DecodesBesideTheChunksOfAPrompt) {
  PlannedEngine engine = Engine(1 << 16);
  PlannedSequence decoding{
      .kind = Kind::kReceive, .request = 0, .prompt_tokens = 100, .output_tokens = 9};
  PlannedSequence prompt{
      .kind = Kind::kWhole, .request = 1, .prompt_tokens = 600, .output_tokens = 9};
  engine.Submit(decoding);
  EXPECT_EQ(engine.Begin(), std::nullopt);
  EXPECT_THAT(engine.admitted(), ElementsAre(&decoding));
  engine.Commit(decoding);
  engine.Submit(prompt);
  EXPECT_EQ(engine.Begin(), 3'000'000 + 448 * 100'000);
  EXPECT_THAT(Rows(engine.Finish()), ElementsAre(std::pair(0u, 1), std::pair(1u, 448)))
      << "511 rows are left, which end on a multiple of 64";
  EXPECT_EQ(decoding.known_tokens, 102);
}

TEST_F(PlannedEngineTest, BeginsBehindThePagesThatItHolds) {
  PlannedEngine engine = Engine(1 << 16);
  const std::vector<uint64_t> pages = {5, 6, 7, 8};
  PlannedSequence first{.kind = Kind::kPrefillOnly,
                        .request = 0,
                        .prompt_tokens = 64,
                        .output_tokens = 1,
                        .pages = pages};
  PlannedSequence second = first;
  second.request = 1;
  engine.Submit(first);
  EXPECT_EQ(RunAll(engine), 1);
  engine.Submit(second);
  EXPECT_EQ(engine.Begin(), 16 * 100'000) << "a hit never covers the last token";
  EXPECT_EQ(second.cached_tokens, 48);
}

TEST_F(PlannedEngineTest, PreemptsTheYoungestAndRecomputesIt) {
  // Each of two sequences of 32 tokens reserves 3 blocks; both grow to 6, and there are 10.
  PlannedEngine engine = Engine(10 * 16);
  PlannedSequence first{
      .kind = Kind::kWhole, .request = 0, .prompt_tokens = 32, .output_tokens = 64};
  PlannedSequence second = first;
  second.request = 1;
  engine.Submit(first);
  engine.Submit(second);
  RunAll(engine);
  EXPECT_EQ(first.generated_tokens(), 64);
  EXPECT_EQ(second.generated_tokens(), 64);
  EXPECT_FALSE(first.preempted);
  EXPECT_TRUE(second.preempted);
  EXPECT_EQ(engine.counts().preemptions, 1u);
  EXPECT_EQ(engine.memory().used(), 0);
}

TEST_F(PlannedEngineTest, AdmitsInTheOrderOfArrivalAndLetsNobodyPastWhoLacksMemory) {
  PlannedEngine engine = Engine(10 * 16);
  PlannedSequence first{
      .kind = Kind::kReceive, .request = 0, .prompt_tokens = 80, .output_tokens = 2};
  PlannedSequence large = first, small = first;
  large.request = 1;
  small.request = 2;
  small.prompt_tokens = 16;
  for (PlannedSequence* sequence : {&first, &large, &small}) engine.Submit(*sequence);
  EXPECT_EQ(engine.Begin(), std::nullopt);
  EXPECT_THAT(engine.admitted(), ElementsAre(&first));
  EXPECT_EQ(engine.Begin(), std::nullopt);
  EXPECT_THAT(engine.admitted(), IsEmpty());
  engine.Release(first);
  EXPECT_EQ(engine.Begin(), std::nullopt);
  EXPECT_THAT(engine.admitted(), ElementsAre(&large, &small));
}

TEST_F(PlannedEngineTest, ComputesNoMoreSequencesInAStepThanItMay) {
  PlannedEngine engine = Engine(1 << 16, {.max_num_seqs = 2, .block_tokens = 16});
  std::vector<PlannedSequence> sequences(3);
  for (uint32_t i = 0; i < 3; ++i) {
    sequences[i] = {.kind = Kind::kWhole, .request = i, .prompt_tokens = 10, .output_tokens = 4};
    engine.Submit(sequences[i]);
  }
  ASSERT_TRUE(engine.Begin().has_value());
  EXPECT_THAT(Rows(engine.Finish()), ElementsAre(std::pair(0u, 10), std::pair(1u, 10)));
  EXPECT_EQ(engine.waiting(), 1);
  // 4 steps of the first two, then as many of the last: its places are free when they end.
  EXPECT_EQ(RunAll(engine), 3 + 4);
}

}  // namespace
}  // namespace baton
