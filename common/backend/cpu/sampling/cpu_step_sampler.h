// The StepSampler of the CPU: it samples tokens at once, in Sample.
#pragma once

#include <deque>
#include <vector>

#include "common/backend/cpu/sampling/sampler.h"
#include "common/backend/step_sampler.h"

namespace baton {

class CpuStepSampler final : public StepSampler {
 public:
  explicit CpuStepSampler(const StepSamplerOptions& options);

  void Begin(absl::Span<const SamplingRow> rows) override;
  void Sample(int first_row, Tensor logits) override;
  void Score(absl::Span<const ScoredToken> tokens, Tensor logits) override;
  void End() override;
  std::vector<absl::StatusOr<OutputToken>> Take() override;
  std::vector<absl::StatusOr<TokenLogprobs>> TakeScores() override;
  const int32_t* sampled_ids() const override { return sampled_ids_.data(); }

 private:
  Sampler sampler_;
  std::vector<SamplingRow> rows_;          // rows of the step that has begun
  std::vector<int32_t> sampled_ids_;       // [max_rows]; tokens sampled in this step
  std::vector<int32_t> last_sampled_ids_;  // [max_rows]; tokens sampled in the step before
  // Tokens of the steps that were not taken, the oldest step first.
  std::deque<std::vector<absl::StatusOr<OutputToken>>> untaken_;
  // What these steps have scored, and what the step has that was taken last.
  std::deque<std::vector<absl::StatusOr<TokenLogprobs>>> untaken_scores_;
  std::vector<absl::StatusOr<TokenLogprobs>> taken_scores_;
};

}  // namespace baton
