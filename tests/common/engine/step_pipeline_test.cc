#include "common/engine/step_pipeline.h"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

#include "tests/common/engine/engine_parts.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

void RunNext(EngineParts& parts) {
  parts.pipeline.Run(parts.scheduler.Next(parts.pipeline.row_budget()));
}

TEST(StepPipeline, AppliesTheResultsOfAStepBeforeItReturnsWhereNoneIsAhead) {
  EngineParts parts(/*steps_ahead=*/0);
  const Sequence& sequence = parts.Add(1, 20, 10);
  RunNext(parts);
  EXPECT_TRUE(parts.pipeline.empty());
  EXPECT_EQ(sequence.tokens.count(), 21);
  EXPECT_EQ(sequence.tokens.pending_outputs, 0);
  EXPECT_EQ(parts.TokenIds(), std::vector<int32_t>{sequence.tokens.ids.back()});
}

TEST(StepPipeline, KeepsOneStepInFlightWhereOneIsAheadAndMakesTheSameTokens) {
  EngineParts behind(/*steps_ahead=*/0);
  behind.Add(1, 20, 6);
  for (int i = 0; i < 6; ++i) RunNext(behind);
  EngineParts parts(/*steps_ahead=*/1);
  const Sequence& sequence = parts.Add(1, 20, 6);
  RunNext(parts);
  EXPECT_FALSE(parts.pipeline.empty());
  EXPECT_TRUE(parts.TokenIds().empty());
  EXPECT_EQ(sequence.tokens.pending_outputs, 1);
  RunNext(parts);
  EXPECT_EQ(parts.TokenIds().size(), 1u);
  for (int i = 2; i < 6; ++i) RunNext(parts);
  parts.pipeline.ApplyUntil(0);
  EXPECT_TRUE(parts.pipeline.empty());
  EXPECT_EQ(parts.TokenIds().size(), 6u);
  EXPECT_EQ(parts.TokenIds(), behind.TokenIds());
  EXPECT_EQ(parts.sequences.Find(1), nullptr) << "it finished";
  EXPECT_EQ(parts.pool.used_blocks(), 0);
}

TEST(StepPipeline, TellsAPeerOfEachLayerOfAChunkBeforeTheChunkAndIsNeverAheadOfIt) {
  EngineParts parts(/*steps_ahead=*/1);
  parts.Add(1, 100, 10, Mode::kPrefillOnly);
  parts.pipeline.Run(parts.scheduler.Next(/*row_budget=*/64));
  EXPECT_TRUE(parts.pipeline.empty());
  const size_t layers = static_cast<size_t>(parts.model->config().layers);
  ASSERT_EQ(parts.events.size(), layers + 1);
  for (size_t layer = 0; layer < layers; ++layer) {
    const auto& computed = std::get<LayerComputed>(parts.events[layer]);
    EXPECT_EQ(computed.layer, static_cast<int>(layer));
    EXPECT_EQ(computed.first_token, 0);
    EXPECT_EQ(computed.token_count, 64);
  }
  EXPECT_EQ(std::get<ChunkComputed>(parts.events[layers]).end_token, 64);
  EXPECT_EQ(parts.stats.Read(absl::Now()).progress, layers);
}

TEST(StepPipeline, DropsTheResultsOfASequenceThatHasEndedMeanwhile) {
  EngineParts parts(/*steps_ahead=*/1);
  Sequence& sequence = parts.Add(1, 20, 10);
  RunNext(parts);
  parts.sequences.Remove(sequence);
  EXPECT_GT(parts.pool.used_blocks(), 0) << "the step may touch them";
  parts.pipeline.ApplyUntil(0);
  EXPECT_TRUE(parts.TokenIds().empty());
  EXPECT_EQ(parts.pool.used_blocks(), 0);
}

}  // namespace
}  // namespace baton
