#include "common/backend/cpu/sampling/cpu_step_sampler.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace baton {
namespace {

constexpr int kSmallVocab = 50;

class CpuSteps : public testing::Test {
 protected:
  Tensor Logits(int rows) {
    logits_.resize(static_cast<size_t>(rows * kSmallVocab));
    for (float& logit : logits_) logit = std::normal_distribution<float>(0, 3)(random_);
    return {logits_.data(), rows, kSmallVocab};
  }

  std::mt19937 random_{1};
  std::vector<float> logits_;
};

TEST_F(CpuSteps, ChooseAsTheSamplerOfARowAndGiveTheOldestStepFirst) {
  const SamplingParams sampling = {.temperature = 0.8f, .seed = 5, .logprobs = 2};
  const TokenCounts counts(sampling, {}, 0);
  CpuStepSampler steps({.vocab_size = kSmallVocab, .max_rows = 3});
  Sampler sampler(kSmallVocab, {});
  std::vector<std::vector<OutputToken>> expected;
  for (int step = 0; step < 2; ++step) {
    const int rows = 3 - step;
    std::vector<SamplingRow> asked;
    for (int i = 0; i < rows; ++i) {
      asked.push_back({.sequence = static_cast<uint64_t>(i),
                       .sampling = &sampling,
                       .counts = &counts,
                       .choice = i,
                       .output_index = 7 + step});
    }
    const Tensor logits = Logits(rows);
    expected.emplace_back();
    for (int i = 0; i < rows; ++i) {
      expected.back().push_back(*sampler.Choose(
          {logits.Row(i), kSmallVocab},
          {.sampling = sampling, .counts = counts, .choice = i, .output_index = 7 + step}));
    }
    steps.Begin(asked);
    steps.Sample(0, logits.First(1));
    steps.Sample(1, {logits.Row(1), rows - 1, kSmallVocab});
    steps.End();
    for (int i = 0; i < rows; ++i) {
      EXPECT_EQ(steps.sampled_ids()[i], expected.back()[static_cast<size_t>(i)].token_id);
    }
  }
  for (const std::vector<OutputToken>& tokens : expected) {
    const auto taken = steps.Take();
    ASSERT_EQ(taken.size(), tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(taken[i]->token_id, tokens[i].token_id);
      EXPECT_EQ(taken[i]->output_index, tokens[i].output_index);
      EXPECT_EQ(taken[i]->logprobs->logprob, tokens[i].logprobs->logprob);
    }
  }
}

TEST_F(CpuSteps, CountThePendingOutputAndFailOnlyTheRowWithoutAToken) {
  const SamplingParams sampling = {.temperature = 0, .presence_penalty = 2};
  const TokenCounts counts(sampling, {}, 0);
  CpuStepSampler steps({.vocab_size = kSmallVocab, .max_rows = 2});
  std::vector<float> logits(2 * kSmallVocab, 0);
  logits[3] = 1.5f;
  logits[4] = 1;
  logits[kSmallVocab] = std::numeric_limits<float>::quiet_NaN();
  std::vector<SamplingRow> rows = {{.sequence = 1, .sampling = &sampling, .counts = &counts},
                                   {.sequence = 2, .sampling = &sampling, .counts = &counts}};
  for (int step = 0; step < 2; ++step) {
    steps.Begin(rows);
    steps.Sample(0, {logits.data(), 2, kSmallVocab});
    steps.End();
    for (SamplingRow& row : rows) row.output_index = 1;
    rows[0].pending_row = 0;
  }
  const auto first = steps.Take();
  EXPECT_EQ(first[0]->token_id, 3);
  EXPECT_EQ(first[1].status().code(), absl::StatusCode::kInternal);
  const auto second = steps.Take();
  EXPECT_EQ(second[0]->token_id, 4);  // not the pending 3 again
  EXPECT_EQ(second[0]->output_index, 1);
}

}  // namespace
}  // namespace baton
