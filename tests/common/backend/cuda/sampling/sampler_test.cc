#include "common/backend/cuda/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <vector>

#include "common/backend/cpu/sampling/sampler.h"
#include "tests/common/backend/cuda/sampling/sampler_harness.h"
#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::Pair;

bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

// Checks that the answer is that of the CPU's sampler, to the bit.
void ExpectAsTheCpu(Sampler& sampler, const Question& question, const Answer& answer) {
  SCOPED_TRACE(testing::PrintToString(question));
  const TokenCounts counts = question.Counts();
  const absl::StatusOr<OutputToken> expected =
      sampler.Choose(question.logits, {.sampling = question.params,
                                       .counts = counts,
                                       .choice = question.choice,
                                       .output_index = static_cast<int>(question.output.size()),
                                       .mask = question.mask_or_null()});
  if (!expected.ok()) {
    ASSERT_EQ(answer.error, absl::IsInternal(expected.status()) ? SamplerError::kLogitNotFinite
                                                                : SamplerError::kAllMasked);
    return;
  }
  ASSERT_EQ(answer.error, SamplerError::kNone);
  ASSERT_EQ(answer.token_id, expected->token_id);
  if (question.counts_tokens()) {
    TokenCounts with_output = counts;
    with_output.AddOutput(expected->token_id);
    ASSERT_EQ(answer.counts, (std::map<int32_t, int>(with_output.output_counts().begin(),
                                                     with_output.output_counts().end())));
  }
  if (!expected->logprobs) return;
  const SamplerLogprobs& got = answer.logprobs;
  ASSERT_TRUE(SameBits(got.logprob, expected->logprobs->logprob))
      << got.logprob << " instead of " << expected->logprobs->logprob;
  ASSERT_EQ(static_cast<size_t>(got.top_count), expected->logprobs->top.size());
  for (size_t i = 0; i < expected->logprobs->top.size(); ++i) {
    ASSERT_EQ(got.top_token_ids[i], expected->logprobs->top[i].token_id);
    ASSERT_TRUE(SameBits(got.top_logprobs[i], expected->logprobs->top[i].logprob));
  }
}

std::vector<int32_t> SomeEndIds(Questions& questions, int vocab_size) {
  std::vector<int32_t> ids(questions.Random() % 3);
  for (int32_t& id : ids) id = questions.Token(vocab_size);
  std::sort(ids.begin(), ids.end());
  return ids;
}

constexpr SamplerShape kSmall = {.slice_tokens = 512, .slice_threads = 32, .row_threads = 32};

class CudaSampler : public EveryFiberOrder {};
INSTANTIATE_TEST_SUITE_P(Orders, CudaSampler, testing::ValuesIn(cuda_shim::kAllFiberOrders));

TEST_P(CudaSampler, ChoosesWhatTheCpuChooses) {
  constexpr int kRows = 8;
  const std::vector<int> vocab_sizes = {1,   2,   3,   31,  32,  33,  64,
                                        100, 150, 255, 256, 257, 700, 2500};
  Questions questions(1 + static_cast<uint32_t>(GetParam()));
  for (int round = 0; round < 56; ++round) {
    const int vocab_size = vocab_sizes[static_cast<size_t>(round) % vocab_sizes.size()];
    const std::vector<int32_t> end_ids = SomeEndIds(questions, vocab_size);
    Sampler sampler(vocab_size, end_ids);
    std::vector<Question> batch;
    for (int row = 0; row < kRows; ++row) batch.push_back(questions.Next(vocab_size));
    const std::vector<Answer> answers = Ask(batch, end_ids, kSmall);
    for (size_t row = 0; row < kRows; ++row) {
      ExpectAsTheCpu(sampler, batch[row], answers[row]);
      if (HasFatalFailure()) FAIL() << "round " << round << ", row " << row;
    }
  }
}

// There are several slices, and bins of more tokens than the list in shared memory holds.
TEST_P(CudaSampler, ChoosesWhatTheCpuChoosesFromALargeVocabulary) {
  constexpr int kVocab = 50003;
  constexpr SamplerShape kShape = {.slice_threads = 64, .row_threads = 128};
  Questions questions(7);
  Sampler sampler(kVocab, {2, 49999});
  std::vector<Question> batch;
  for (int row = 0; row < 6; ++row) batch.push_back(questions.Next(kVocab));
  for (float top_p : {1.0f, 0.9f}) {  // flat, over all the vocabulary
    batch.push_back({.logits = std::vector<float>(kVocab, -1.5f),
                     .params = {.top_p = top_p, .top_k = 30000, .seed = 5, .logprobs = 20}});
  }
  const std::vector<Answer> answers = Ask(batch, {2, 49999}, kShape);
  for (size_t row = 0; row < batch.size(); ++row) {
    SCOPED_TRACE(row);
    ExpectAsTheCpu(sampler, batch[row], answers[row]);
  }
}

TEST_P(CudaSampler, GivesTheSameHoweverARowIsCut) {
  constexpr int kVocab = 1900;
  const std::vector<SamplerShape> shapes = {
      {},
      {.slice_tokens = 1},
      {.slice_tokens = 64, .slice_threads = 64, .row_threads = 96},
      {.slice_tokens = 333, .slice_threads = 128, .row_threads = 32}};
  Questions questions(11);
  Sampler sampler(kVocab, {1});
  std::vector<Question> batch;
  for (int row = 0; row < 6; ++row) batch.push_back(questions.Next(kVocab));
  for (const SamplerShape& shape : shapes) {
    const std::vector<Answer> answers = Ask(batch, {1}, shape);
    for (size_t row = 0; row < batch.size(); ++row) {
      SCOPED_TRACE(row);
      ExpectAsTheCpu(sampler, batch[row], answers[row]);
    }
  }
}

// The device counts on by itself, as a captured launch needs it.
TEST_P(CudaSampler, CountsTheTokensOfASequenceOutputAfterOutput) {
  constexpr int kVocab = 40;
  constexpr size_t kRows = 5;
  Questions questions(13);
  Sampler sampler(kVocab, {4});
  std::vector<Question> batch;
  for (size_t row = 0; row < kRows; ++row) {
    batch.push_back({.params = {.presence_penalty = row == 1 ? 1.5f : 0,
                                .frequency_penalty = row == 2 ? 0.4f : 0,
                                .repetition_penalty = row == 3 ? 1.3f : 1,
                                .min_tokens = 7,
                                .seed = row},
                     .prompt = {3, 3, 9}});
  }
  const auto refill = [&] {
    std::vector<float> all;
    for (Question& question : batch) {
      question.logits = questions.Logits(kVocab);
      for (float& logit : question.logits) logit = logit > -5 && logit < 5 ? logit : 0;
      all.insert(all.end(), question.logits.begin(), question.logits.end());
    }
    return all;
  };
  refill();
  DeviceBatch device(batch, {4}, /*counts_capacity=*/kVocab);
  for (int output = 0; output < 60; ++output) {
    device.Launch(kSmall);
    const std::vector<Answer> answers = device.Read();
    for (size_t row = 0; row < kRows; ++row) {
      SCOPED_TRACE(row);
      ExpectAsTheCpu(sampler, batch[row], answers[row]);
      batch[row].output.push_back(answers[row].token_id);
    }
    device.NextOutput(refill());
  }
}

TEST_P(CudaSampler, NamesWhyARowHasNoTokenAndLeavesTheOthersAlone) {
  std::vector<Question> batch(4);
  for (Question& question : batch) question.logits = {1, 4, 2};
  batch[0].logits[1] = std::numeric_limits<float>::quiet_NaN();
  batch[1].params = {.presence_penalty = 1, .min_tokens = 1, .stop_token_ids = {0, 2}};
  batch[2].params = {.temperature = 0, .presence_penalty = 1};
  batch[2].output = {0};
  batch[3].params = {.temperature = 0, .presence_penalty = 1};
  batch[3].output = {1};
  const DeviceBatch device(batch, /*end_ids=*/{1}, /*counts_capacity=*/1);
  device.Launch(kSmall);
  const std::vector<Answer> answers = device.Read();
  EXPECT_EQ(answers[0].error, SamplerError::kLogitNotFinite);
  EXPECT_EQ(answers[1].error, SamplerError::kAllMasked);
  EXPECT_THAT(answers[1].counts, IsEmpty());
  EXPECT_EQ(answers[2].error, SamplerError::kCountsFull);
  EXPECT_THAT(answers[2].counts, ElementsAre(Pair(0, 1)));
  EXPECT_EQ(answers[3].error, SamplerError::kNone);
  EXPECT_EQ(answers[3].token_id, 1);
  EXPECT_THAT(answers[3].counts, ElementsAre(Pair(1, 2)));
  for (const Answer& answer : answers) EXPECT_THAT(answer.token_id, AllOf(Ge(0), Lt(3)));
}

}  // namespace
}  // namespace baton
