// The device's steps against the CPU's: random sequences that come, miss steps, begin anew and go,
// their tokens taken a step late.
#include "common/backend/cuda/sampling/cuda_step_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "common/backend/cpu/sampling/cpu_step_sampler.h"
#include "tests/common/backend/cuda/sampling/sampler_harness.h"

namespace baton {
namespace {

constexpr int kVocab = 300;
constexpr int kRows = 5;

using Tokens = std::vector<absl::StatusOr<OutputToken>>;

void ExpectSame(const absl::StatusOr<OutputToken>& cuda, const absl::StatusOr<OutputToken>& cpu) {
  ASSERT_EQ(cuda.status(), cpu.status());
  if (!cpu.ok()) return;
  EXPECT_EQ(cuda->token_id, cpu->token_id);
  EXPECT_EQ(cuda->output_index, cpu->output_index);
  ASSERT_EQ(cuda->logprobs.has_value(), cpu->logprobs.has_value());
  if (!cpu->logprobs) return;
  EXPECT_EQ(std::bit_cast<uint32_t>(cuda->logprobs->logprob),
            std::bit_cast<uint32_t>(cpu->logprobs->logprob));
  ASSERT_EQ(cuda->logprobs->top.size(), cpu->logprobs->top.size());
  for (size_t i = 0; i < cpu->logprobs->top.size(); ++i) {
    EXPECT_EQ(cuda->logprobs->top[i].token_id, cpu->logprobs->top[i].token_id);
    EXPECT_EQ(std::bit_cast<uint32_t>(cuda->logprobs->top[i].logprob),
              std::bit_cast<uint32_t>(cpu->logprobs->top[i].logprob));
  }
}

struct TestSequence {
  TestSequence(Questions& questions, uint64_t sequence_id)
      : id(sequence_id), question(questions.Next(kVocab)), counts(question.Counts()) {
    output_index = static_cast<int>(question.output.size());
  }

  uint64_t id;
  Question question;
  TokenCounts counts;
  int output_index = 0;
  int pending_row = -1;  // its row in the step that is not taken
};

class TwoSamplers {
 public:
  explicit TwoSamplers(unsigned seed) : questions_(seed) {
    const StepSamplerOptions options = {.vocab_size = kVocab,
                                        .end_of_generation_ids = {4, 7},
                                        .max_rows = kRows,
                                        .max_model_len = 400};
    stream_ = MakeCudaStream();
    auto cuda = CudaStepSampler::Create(0, stream_.get(), options, moves_);
    EXPECT_TRUE(cuda.ok()) << cuda.status();
    cuda_ = *std::move(cuda);
    cpu_ = std::make_unique<CpuStepSampler>(options);
  }

  void Step() {
    // A sequence whose row has failed gets no more rows.
    std::erase_if(sequences_, [](const auto& sequence) { return sequence.second == nullptr; });
    while (sequences_.size() < 2 * kRows) {
      ++last_id_;
      sequences_[last_id_] = std::make_unique<TestSequence>(questions_, last_id_);
    }
    if (questions_.OneIn(4)) ForgetAnOutput();
    // Often the same as in the last step.
    if (questions_.OneIn(2)) {
      last_ids_.clear();
      for (const auto& [id, sequence] : sequences_) {
        if (last_ids_.size() < kRows && questions_.OneIn(2)) last_ids_.push_back(id);
      }
    }
    std::vector<TestSequence*> chosen;
    for (const uint64_t id : last_ids_) {
      const auto found = sequences_.find(id);
      if (found != sequences_.end()) chosen.push_back(found->second.get());
    }
    Ask(chosen);
  }

  void TakeAll() {
    while (!asked_.empty()) Take();
  }
  int sampled() const { return sampled_; }
  int scored() const { return scored_; }

 private:
  struct Asked {
    uint64_t id;
    int row;
  };

  // Begins a sequence anew, in other company, from the tokens that were delivered.
  void ForgetAnOutput() {
    TestSequence& sequence = *sequences_.begin()->second;
    if (sequence.pending_row >= 0 || sequence.question.output.empty()) return;
    sequence.question.output.pop_back();
    sequence.counts = sequence.question.Counts();
    --sequence.output_index;
  }

  void Ask(const std::vector<TestSequence*>& chosen) {
    std::vector<SamplingRow> rows;
    std::vector<float> logits;
    std::vector<std::vector<uint32_t>> masks;  // filled once the step has begun
    const bool masked = questions_.OneIn(2);
    for (TestSequence* sequence : chosen) {
      masks.emplace_back(masked && questions_.OneIn(3) ? MaskWords(kVocab) : 0);
      rows.push_back({.sequence = sequence->id,
                      .sampling = &sequence->question.params,
                      .counts = &sequence->counts,
                      .choice = sequence->question.choice,
                      .output_index = sequence->output_index,
                      .pending_row = sequence->pending_row,
                      .mask = masks.back().empty() ? nullptr : masks.back().data()});
      const std::vector<float> row = questions_.Logits(kVocab);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const int count = static_cast<int>(rows.size());
    cpu_->Begin(rows);
    cuda_->Begin(rows);
    for (std::vector<uint32_t>& mask : masks) {
      if (mask.empty()) continue;
      const std::vector<uint32_t> allowed = questions_.Mask(kVocab);
      std::copy(allowed.begin(), allowed.end(), mask.begin());
    }
    if (count > 0) {
      cpu_->Sample(0, {logits.data(), count, kVocab});
      // Rows that the step does not have are sampled too.
      logits.resize(kRows * kVocab, 0);
      const DeviceArray<float> device(logits);
      const int first = static_cast<int>(questions_.Random() % kRows);
      cuda_->Sample(0, {device.data(), first, kVocab});
      cuda_->Sample(first, {device.data() + first * kVocab, kRows - first, kVocab});
      EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    }
    Score();
    cpu_->End();
    cuda_->End();
    asked_.emplace_back();
    for (size_t i = 0; i < chosen.size(); ++i) {
      asked_.back().push_back({chosen[i]->id, static_cast<int>(i)});
      chosen[i]->pending_row = static_cast<int>(i);
      ++chosen[i]->output_index;
    }
    if (asked_.size() > 1) Take();
  }

  // A few tokens of other rows of the step; now and then more than are scored together, or a row
  // that has no number in a place.
  void Score() {
    for (uint64_t calls = questions_.Random() % 3; calls > 0; --calls) {
      std::vector<ScoredToken> tokens(1 + questions_.Random() % (questions_.OneIn(8) ? 80 : 4));
      std::vector<float> logits;
      for (ScoredToken& token : tokens) {
        token = {.token_id = static_cast<int32_t>(questions_.Random() % kVocab),
                 .top_count = static_cast<int>(questions_.Random() % 21)};
        const std::vector<float> row = questions_.Logits(kVocab);
        logits.insert(logits.end(), row.begin(), row.end());
      }
      if (questions_.Random() % 4 == 0) logits[questions_.Random() % logits.size()] = NAN;
      const DeviceArray<float> device(logits);
      const auto rows = static_cast<int>(tokens.size());
      cpu_->Score(tokens, {logits.data(), rows, kVocab});
      cuda_->Score(tokens, {device.data(), rows, kVocab});
      EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    }
  }

  void TakeScores() {
    const auto cuda = cuda_->TakeScores();
    const auto cpu = cpu_->TakeScores();
    ASSERT_EQ(cuda.size(), cpu.size());
    for (size_t i = 0; i < cpu.size(); ++i) {
      ASSERT_EQ(cuda[i].status(), cpu[i].status());
      if (!cpu[i].ok()) continue;
      ++scored_;
      ExpectSame(OutputToken{.logprobs = *cuda[i]}, OutputToken{.logprobs = *cpu[i]});
    }
  }

  void Take() {
    const Tokens cuda = cuda_->Take();
    const Tokens cpu = cpu_->Take();
    TakeScores();
    const std::vector<Asked> asked = asked_.front();
    asked_.erase(asked_.begin());
    ASSERT_EQ(cuda.size(), asked.size());
    ASSERT_EQ(cpu.size(), asked.size());
    for (size_t i = 0; i < asked.size(); ++i) {
      const auto found = sequences_.find(asked[i].id);
      if (found == sequences_.end() || found->second == nullptr) continue;
      TestSequence& sequence = *found->second;
      SCOPED_TRACE(testing::PrintToString(sequence.question));
      ExpectSame(cuda[i], cpu[i]);
      if (!cpu[i].ok()) {
        found->second = nullptr;
        continue;
      }
      ++sampled_;
      sequence.question.output.push_back(cpu[i]->token_id);
      sequence.counts.AddOutput(cpu[i]->token_id);
      if (cpu[i]->output_index + 1 == sequence.output_index) sequence.pending_row = -1;
    }
  }

  Questions questions_;
  CudaStream stream_;
  MemoryMoves moves_;
  std::unique_ptr<CudaStepSampler> cuda_;
  std::unique_ptr<CpuStepSampler> cpu_;
  std::map<uint64_t, std::unique_ptr<TestSequence>> sequences_;
  uint64_t last_id_ = 0;
  std::vector<uint64_t> last_ids_;         // the sequences of the last step
  std::vector<std::vector<Asked>> asked_;  // the oldest step first
  int sampled_ = 0;
  int scored_ = 0;
};

TEST(CudaStepSampler, ChoosesWhatTheCpuChoosesAStepLate) {
  int sampled = 0;
  int scored = 0;
  for (unsigned seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    TwoSamplers samplers(seed);
    for (int step = 0; step < 60; ++step) {
      samplers.Step();
      if (testing::Test::HasFailure()) return;
    }
    samplers.TakeAll();
    sampled += samplers.sampled();
    scored += samplers.scored();
  }
  EXPECT_GT(sampled, 300);
  EXPECT_GT(scored, 1000);
}

TEST(UploadedLists, StayWhileTheSameSequencesGoOn) {
  const SamplingParams plain = {.temperature = 0.5F};
  const SamplingParams biased = {.stop_token_ids = {7}, .logit_bias = {{3, 1.0F}}};
  const SamplingParams other_bias = {.stop_token_ids = {7}, .logit_bias = {{3, 2.0F}}};
  const SamplingParams other_stop = {.stop_token_ids = {8}, .logit_bias = {{3, 1.0F}}};
  CountsSlots slots(4);
  UploadedLists uploaded;
  const auto differ = [&](const std::vector<SamplingRow>& rows) {
    return uploaded.Replace(PackSamplerRows(rows, 4, slots), rows.size());
  };
  const auto row = [](const SamplingParams& sampling, int output_index) {
    return SamplingRow{.sampling = &sampling, .output_index = output_index};
  };
  EXPECT_TRUE(differ({row(plain, 0), row(biased, 5)}));
  EXPECT_FALSE(differ({row(plain, 1), row(biased, 6)}));
  EXPECT_FALSE(differ({row(plain, 2), row(biased, 7)}));
  EXPECT_TRUE(differ({row(plain, 3), row(biased, 7)})) << "an output again";
  EXPECT_TRUE(differ({row(plain, 4)})) << "a row less: what was there would be sampled as padding";
  EXPECT_FALSE(differ({row(plain, 5)}));
  EXPECT_TRUE(differ({row(plain, 6), row(biased, 8)}));
  EXPECT_TRUE(differ({row(plain, 7), row(other_bias, 9)}));
  EXPECT_TRUE(differ({row(plain, 8), row(biased, 10)}));
  EXPECT_TRUE(differ({row(plain, 9), row(other_stop, 11)}));
  EXPECT_TRUE(differ({row(other_stop, 12), row(plain, 10)})) << "in another order";
  EXPECT_FALSE(differ({row(other_stop, 13), row(plain, 11)}));
}

TEST(CountsSlots, OfRowsBehindGuessesServeNobodyAfterTheirStep) {
  const SamplingParams counting = {.presence_penalty = 1};
  CountsSlots slots(4);
  const auto row = [&](int output_index, bool behind_guess) {
    return SamplingRow{.sequence = 1,
                       .behind_guess = behind_guess,
                       .sampling = &counting,
                       .output_index = output_index};
  };
  auto assigned = slots.Assign({row(0, false), row(1, true), row(2, true)});
  const int first = assigned[0].index;
  EXPECT_NE(assigned[1].index, first);
  EXPECT_NE(assigned[2].index, first);
  EXPECT_NE(assigned[1].index, assigned[2].index);
  // All guesses were refused: only the sequence's own slot has gained the right token.
  assigned = slots.Assign({row(1, false), row(2, true), row(3, true)});
  EXPECT_EQ(assigned[0].index, first);
  EXPECT_TRUE(assigned[0].filled);
  EXPECT_FALSE(assigned[1].filled);
  EXPECT_FALSE(assigned[2].filled);
  // All came true: the slot lacks their tokens.
  assigned = slots.Assign({row(4, false)});
  EXPECT_EQ(assigned[0].index, first);
  EXPECT_FALSE(assigned[0].filled);
}

TEST(CountsSlots, BelongToASequenceUntilItMissesAStepAndAnotherNeedsOne) {
  const SamplingParams counting = {.presence_penalty = 1};
  const SamplingParams plain;
  CountsSlots slots(2);
  const auto row = [&](uint64_t sequence, int output_index, bool counts = true) {
    return SamplingRow{.sequence = sequence,
                       .sampling = counts ? &counting : &plain,
                       .output_index = output_index};
  };
  auto assigned = slots.Assign({row(1, 0), row(2, 5, /*counts=*/false)});
  EXPECT_EQ(assigned[1].index, -1);
  const int first = assigned[0].index;
  EXPECT_FALSE(assigned[0].filled);
  assigned = slots.Assign({row(3, 9), row(1, 1)});
  EXPECT_EQ(assigned[1].index, first);
  EXPECT_TRUE(assigned[1].filled);
  EXPECT_NE(assigned[0].index, first);
  // Sequence 1 keeps its slot though it comes last; 4 gets the slot of 3.
  assigned = slots.Assign({row(4, 0), row(1, 2)});
  EXPECT_EQ(assigned[1].index, first);
  EXPECT_TRUE(assigned[1].filled);
  EXPECT_FALSE(assigned[0].filled);
  // Sequence 3 is back, and 4 repeats an output.
  assigned = slots.Assign({row(3, 10), row(4, 0)});
  EXPECT_FALSE(assigned[0].filled);
  EXPECT_FALSE(assigned[1].filled);
}

}  // namespace
}  // namespace baton
