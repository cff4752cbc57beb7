#include "common/engine/first_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(FirstSteps, TheLargestStepHasRoomForAPrefillChunkBesideAllDecodes) {
  EXPECT_EQ(LargestStepRows({.max_num_seqs = 64, .max_num_batched_tokens = 512}), 512);
  EXPECT_EQ(LargestStepRows({.max_num_seqs = 500, .max_num_batched_tokens = 512}), 564);
}

TEST(FirstSteps, AStepSamplesForAllSequencesOrAllChoicesOfOne) {
  EXPECT_EQ(MostSamples({.max_num_seqs = 64}), 64);
  EXPECT_EQ(MostSamples({.max_num_seqs = 2}), 16);
}

TEST(FirstSteps, TheSamplerHasRoomForPaddedPassesAndForAllChoices) {
  ModelConfig config;
  config.vocab_size = 50;
  config.context_length = 100;
  EngineOptions options = {.max_num_seqs = 2, .end_of_generation_ids = {3, 7}};
  StepSamplerOptions sampler = SamplerOptionsOf(options, config, /*max_rows=*/4);
  EXPECT_EQ(sampler.vocab_size, 50);
  EXPECT_THAT(sampler.end_of_generation_ids, testing::ElementsAre(3, 7));
  EXPECT_EQ(sampler.max_rows, 16);
  EXPECT_EQ(sampler.max_model_len, 100) << "the model's context";
  options.max_model_len = 60;
  sampler = SamplerOptionsOf(options, config, /*max_rows=*/24);
  EXPECT_EQ(sampler.max_rows, 24);
  EXPECT_EQ(sampler.max_model_len, 60);
}

}  // namespace
}  // namespace baton
