#include "common/backend/cpu/sampling/cpu_step_sampler.h"

#include <optional>
#include <utility>

#include "common/base/check.h"

namespace baton {

CpuStepSampler::CpuStepSampler(const StepSamplerOptions& options)
    : sampler_(options.vocab_size, options.end_of_generation_ids),
      sampled_ids_(static_cast<size_t>(options.max_rows)) {}

void CpuStepSampler::Begin(absl::Span<const SamplingRow> rows) {
  BATON_CHECK(rows.size() <= sampled_ids_.size(), "rows of a step");
  rows_.assign(rows.begin(), rows.end());
  last_sampled_ids_ = sampled_ids_;
  untaken_.emplace_back();
  untaken_scores_.emplace_back();
}

void CpuStepSampler::Sample(int first_row, Tensor logits) {
  BATON_CHECK(static_cast<size_t>(first_row) == untaken_.back().size() &&
                  static_cast<size_t>(first_row + logits.rows) <= rows_.size(),
              "rows of the step, in their order");
  for (int i = 0; i < logits.rows; ++i) {
    const auto place = static_cast<size_t>(first_row + i);
    const SamplingRow& row = rows_[place];
    const absl::Span<const float> row_logits(logits.Row(i), static_cast<size_t>(logits.columns));
    std::optional<TokenCounts> with_pending;
    if (row.pending_row >= 0) {
      with_pending = *row.counts;
      with_pending->AddOutput(last_sampled_ids_[static_cast<size_t>(row.pending_row)]);
    }
    absl::StatusOr<OutputToken> token =
        sampler_.Choose(row_logits, {.sampling = *row.sampling,
                                     .counts = with_pending ? *with_pending : *row.counts,
                                     .choice = row.choice,
                                     .output_index = row.output_index,
                                     .mask = row.mask});
    sampled_ids_[place] = token.ok() ? token->token_id : 0;
    untaken_.back().push_back(std::move(token));
  }
}

void CpuStepSampler::Score(absl::Span<const ScoredToken> tokens, Tensor logits) {
  BATON_CHECK(tokens.size() == static_cast<size_t>(logits.rows), "a row for each token");
  for (int i = 0; i < logits.rows; ++i) {
    const absl::Span<const float> row(logits.Row(i), static_cast<size_t>(logits.columns));
    untaken_scores_.back().push_back(sampler_.Score(row, tokens[static_cast<size_t>(i)]));
  }
}

void CpuStepSampler::End() {
  BATON_CHECK(untaken_.back().size() == rows_.size(), "each row is sampled");
}

std::vector<absl::StatusOr<OutputToken>> CpuStepSampler::Take() {
  BATON_CHECK(!untaken_.empty(), "a step that was not taken");
  std::vector<absl::StatusOr<OutputToken>> tokens = std::move(untaken_.front());
  untaken_.pop_front();
  taken_scores_ = std::move(untaken_scores_.front());
  untaken_scores_.pop_front();
  return tokens;
}

std::vector<absl::StatusOr<TokenLogprobs>> CpuStepSampler::TakeScores() {
  return std::exchange(taken_scores_, {});
}

}  // namespace baton
