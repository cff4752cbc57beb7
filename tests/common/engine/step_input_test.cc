#include "common/engine/step_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const KvLayout kInputLayout = {.layers = 1, .kv_heads = 1, .head_dim = 4, .block_size = 16};

// A request whose prompt's tokens are 0, 1 and so on.
SequenceRequest CountingRequest(int tokens, SamplingParams sampling = {}) {
  SequenceRequest request;
  request.token_ids.resize(static_cast<size_t>(tokens));
  std::iota(request.token_ids.begin(), request.token_ids.end(), 0);
  request.prompt_length = tokens;
  request.sampling = std::move(sampling);
  return request;
}

std::vector<int32_t> IdsOf(const Batch& batch) {
  std::vector<int32_t> ids;
  for (const InputToken& token : batch.tokens) ids.push_back(token.pending() ? -1 : token.id());
  return ids;
}

TEST(StepInput, RowsOfSequencesFollowEachOtherAndThoseThatProduceHaveLogits) {
  BlockPool pool(3);
  Sequence prefilled(1, 0, CountingRequest(40), 100);
  Sequence decoded(2, 1, CountingRequest(3), 100);
  prefilled.blocks.Add(*pool.TryAllocate());
  prefilled.blocks.Add(*pool.TryAllocate());
  decoded.blocks.Add(*pool.TryAllocate());
  Schedule schedule;
  schedule.batch = {
      {.sequence = &prefilled, .first_token = 14, .token_count = 3},
      {.sequence = &decoded, .first_token = 2, .token_count = 1, .produces_token = true}};
  schedule.batch[1].guesses = {70, 71};
  const StepInput input(schedule, kInputLayout);
  EXPECT_THAT(IdsOf(input.batch), ElementsAre(14, 15, 16, 2, 70, 71));
  ASSERT_EQ(input.batch.sequences.size(), 2u);
  EXPECT_EQ(input.batch.sequences[0].first_position, 14);
  EXPECT_EQ(input.batch.sequences[0].table_entries, 2) << "token 16 is in the second block";
  EXPECT_EQ(input.batch.sequences[0].block_table, prefilled.blocks.table.data());
  EXPECT_EQ(input.batch.sequences[1].first_row, 3);
  EXPECT_EQ(input.batch.sequences[1].row_count, 3);
  EXPECT_EQ(input.batch.sequences[1].table_entries, 1);
  EXPECT_THAT(input.batch.logits_rows, ElementsAre(3, 4, 5));
  EXPECT_THAT(input.first_samples, ElementsAre(0, 1, 2, 3));
  ASSERT_EQ(input.sampled.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const SamplingRow& row = input.sampled[static_cast<size_t>(i)];
    EXPECT_EQ(row.output_index, i);
    EXPECT_EQ(row.behind_guess, i > 0);
    EXPECT_EQ(row.sequence, input.sampled[0].sequence);
    EXPECT_EQ(row.pending_row, -1);
    EXPECT_EQ(row.mask, nullptr);
  }
  EXPECT_TRUE(input.counts.empty()) << "no penalty is set";
}

TEST(StepInput, ARowBehindGuessesCountsThemAsOutputs) {
  Sequence sequence(1, 0, CountingRequest(3, {.presence_penalty = 1}), 100);
  Schedule schedule;
  schedule.batch = {
      {.sequence = &sequence, .first_token = 2, .token_count = 1, .produces_token = true}};
  schedule.batch[0].guesses = {70, 70};
  const StepInput input(schedule, kInputLayout);
  ASSERT_EQ(input.sampled.size(), 3u);
  EXPECT_THAT(input.sampled[0].counts->output_counts(), IsEmpty());
  EXPECT_THAT(input.sampled[1].counts->output_counts(), ElementsAre(testing::Pair(70, 1)));
  EXPECT_THAT(input.sampled[2].counts->output_counts(), ElementsAre(testing::Pair(70, 2)));
}

TEST(StepInput, AllChoicesSampleFromOneRowAndHaveNamesOfTheirOwn) {
  SequenceRequest request = CountingRequest(3);
  request.choice = 4;
  request.choices = 3;
  Sequence sequence(1, 0, std::move(request), 100);
  Sequence next(2, 1, CountingRequest(1), 100);
  Schedule schedule;
  schedule.batch = {
      {.sequence = &sequence, .first_token = 0, .token_count = 3, .produces_token = true},
      {.sequence = &next, .first_token = 0, .token_count = 1, .produces_token = true}};
  const StepInput input(schedule, kInputLayout);
  EXPECT_THAT(input.batch.logits_rows, ElementsAre(2, 3));
  EXPECT_THAT(input.first_samples, ElementsAre(0, 3, 4));
  std::set<uint64_t> names;
  std::vector<int> choices;
  for (const SamplingRow& row : input.sampled) {
    names.insert(row.sequence);
    choices.push_back(row.choice);
  }
  EXPECT_EQ(names.size(), 4u);
  EXPECT_THAT(choices, ElementsAre(4, 5, 6, 0));
}

TEST(StepInput, ATokenThatIsNotKnownYetIsTheRowThatSamplesIt) {
  Sequence sequence(1, 0, CountingRequest(3), 100);
  sequence.tokens.pending_outputs = 1;
  sequence.tokens.pending_row = 5;
  Schedule schedule;
  schedule.batch = {
      {.sequence = &sequence, .first_token = 2, .token_count = 2, .produces_token = true}};
  const StepInput input(schedule, kInputLayout);
  ASSERT_EQ(input.batch.tokens.size(), 2u);
  EXPECT_EQ(input.batch.tokens[0].id(), 2);
  ASSERT_TRUE(input.batch.tokens[1].pending());
  EXPECT_EQ(input.batch.tokens[1].pending_row(), 5);
  ASSERT_EQ(input.sampled.size(), 1u);
  EXPECT_EQ(input.sampled[0].pending_row, 5);
  EXPECT_EQ(input.sampled[0].output_index, 1);
}

TEST(StepInput, RowsOfAScoredPromptGiveTheTokensBehindThem) {
  Sequence sequence(1, 0, CountingRequest(4, {.prompt_logprobs = 2}), 100);
  Schedule schedule;
  schedule.batch = {
      {.sequence = &sequence, .first_token = 0, .token_count = 4, .produces_token = true}};
  const StepInput input(schedule, kInputLayout);
  EXPECT_THAT(input.batch.logits_rows, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(input.first_samples, ElementsAre(0, 0, 0, 0, 1)) << "the last row alone samples";
  ASSERT_EQ(input.scored.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(input.scored[static_cast<size_t>(i)].token_id, i + 1);
    EXPECT_EQ(input.scored[static_cast<size_t>(i)].top_count, 2);
  }
}

}  // namespace
}  // namespace baton
