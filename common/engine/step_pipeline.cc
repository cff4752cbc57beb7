#include "common/engine/step_pipeline.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/backend/device_copies.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/engine/page_crcs.h"
#include "common/engine/step_input.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

// Whether the step's layers are reported, for a push. Each layer of a chunk is reported when it is
// computed, then the chunk, then the next chunk's layers. So such a step is not replayed from a
// recording, and its results are applied before the next step.
bool TellsLayers(const Schedule& schedule) {
  return std::any_of(schedule.batch.begin(), schedule.batch.end(),
                     [](const ScheduledTokens& scheduled) {
                       return scheduled.sequence->request.mode == Mode::kPrefillOnly;
                     });
}

bool MakesChoicesPart(const Schedule& schedule) {
  return std::any_of(schedule.batch.begin(), schedule.batch.end(),
                     [](const ScheduledTokens& scheduled) {
                       return scheduled.produces_token && scheduled.sequence->forks();
                     });
}

// Returns the number of the step's sampled tokens that belong to `scheduled`.
size_t TokensOf(const ScheduledTokens& scheduled) {
  if (!scheduled.produces_token) return 0;
  const bool stays_one = scheduled.sequence->request.mode == Mode::kPrefillOnly;
  if (stays_one) return scheduled.sequence->choices.size();
  return 1 + scheduled.parted.size() + scheduled.guesses.size();
}

// The values of the first token that is computed.
[[maybe_unused]] uint8_t* FirstRow(const KvCache& cache, const ScheduledTokens& scheduled,
                                   int layer) {
  const KvLayout& layout = cache.layout();
  const size_t entry = layout.TableIndex(layer, scheduled.first_token);
  return cache.Block(scheduled.sequence->blocks.table[entry]) +
         layout.RowOffset(layer, KvLayout::kValues, scheduled.first_token % layout.block_size);
}

// Notes for each sequence, parted or not, the row of this step that samples its next output.
void SetPendingRows(const Schedule& schedule, absl::Span<const int> first_samples) {
  size_t row = 0;
  for (const ScheduledTokens& scheduled : schedule.batch) {
    row += static_cast<size_t>(scheduled.scored_count());
    if (!scheduled.produces_token) continue;
    int sample = first_samples[row];
    row += 1 + scheduled.guesses.size();
    scheduled.sequence->tokens.pending_row = sample;
    for (Sequence* other : scheduled.parted) other->tokens.pending_row = ++sample;
  }
}

// `status` is that of a row without a token. Where its mask allowed none, the form says why.
absl::Status WhyNoToken(Sequence& sequence, const absl::Status& status) {
  std::optional<SequenceForm>& form = sequence.tokens.form;
  if (!form || !absl::IsInvalidArgument(status)) return status;
  absl::Status of_form = form->why;
  if (form->mask.empty()) {
    std::vector<uint32_t> mask = form->EmptyMask();
    of_form = form->state.FillMask(absl::MakeSpan(mask));
  }
  if (of_form.ok() || absl::IsUnavailable(of_form)) return status;
  if (!absl::IsFailedPrecondition(of_form)) return of_form;
  const size_t output =
      sequence.tokens.ids.size() - static_cast<size_t>(sequence.request.prompt_length);
  return absl::InvalidArgumentError(
      absl::StrCat("response_format: at output ", output, " ", of_form.message()));
}

}  // namespace

StepPipeline::StepPipeline(const EngineOptions& options, const Parts& parts)
    : steps_ahead_(static_cast<size_t>(options.steps_ahead.value())),
      parts_(parts),
      sizer_(options.max_num_batched_tokens, options.max_step_duration) {}

void StepPipeline::Run(Schedule schedule) {
  const size_t ahead = TellsLayers(schedule) ? 0 : steps_ahead_;
  Enqueue(std::move(schedule));
  ApplyUntil(ahead);
}

void StepPipeline::Enqueue(Schedule schedule) {
  BATON_FAILPOINT("engine.before_step");
  StepInput step(schedule, parts_.cache.layout());
  int rows = 0;
  for (const ScheduledTokens& scheduled : schedule.batch) rows += scheduled.token_count;
  const absl::Time start = SteadyNow();
  for (const BlockCopy& copy : schedule.copies) parts_.cache.CopyBlock(copy.from, copy.to);
  parts_.sampler.Begin(step.sampled);
  step.batch.sampled_ids = parts_.sampler.sampled_ids();
  const bool replayable =
      !TellsLayers(schedule) && !MakesChoicesPart(schedule) && !step.masked && step.scored.empty();
  parts_.model.Enqueue(
      step.batch, parts_.cache, replayable ? &parts_.recordings : nullptr,
      [&](int layer) { LayerDone(schedule, layer); },
      [&](int first_row, Tensor logits) {
        // Many forms may take long together.
        if (first_row == 0) step.FillMasks([this] { Advance(); });
        Sample(step, first_row, logits);
      });
  parts_.sampler.End();
  parts_.sequences.StepEnqueued(schedule);
  SetPendingRows(schedule, step.first_samples);
  in_flight_.push_back({.schedule = std::move(schedule), .rows = rows, .enqueued = start});
}

// Consecutive rows with one sample each are sampled together, and so are the padding rows behind
// them. Choices that part take their samples from one row, one after the other.
// Consecutive rows without a sample are scored together.
void StepPipeline::Sample(StepInput& step, int first_row, Tensor logits) {
  const std::vector<int>& first_samples = step.first_samples;
  const auto sample_of = [&](int row) {
    const size_t index = static_cast<size_t>(first_row) + static_cast<size_t>(row);
    const size_t last = first_samples.size() - 1;
    return index <= last ? first_samples[index]
                         : first_samples[last] + static_cast<int>(index - last);
  };
  for (int row = 0; row < logits.rows;) {
    int end = row + 1;
    const int samples = sample_of(end) - sample_of(row);
    if (samples <= 1) {
      while (end < logits.rows && sample_of(end + 1) - sample_of(end) == samples) ++end;
    }
    const Tensor rows = {logits.Row(row), end - row, logits.columns};
    for (int i = 0; i < samples; ++i) parts_.sampler.Sample(sample_of(row) + i, rows);
    if (samples == 0) {
      const auto count = static_cast<size_t>(rows.rows);
      parts_.sampler.Score(absl::MakeConstSpan(step.scored).subspan(step.scores_enqueued, count),
                           rows);
      step.scores_enqueued += count;
    }
    row = end;
  }
}

void StepPipeline::Advance() {
  parts_.stats.Advance();
  // tests/planted_bugs: signs_only_between_steps
  parts_.signs.Give(SteadyNow());
}

void StepPipeline::LayerDone(const Schedule& schedule, int layer) {
  Advance();
  BATON_FAILPOINT("engine.layer_done");
  KvCache& cache = parts_.cache;
  uint64_t mark = 0;  // made where a peer copies this layer from the device's memory
  for (const ScheduledTokens& scheduled : schedule.batch) {
    const Sequence& sequence = *scheduled.sequence;
    // Before its page has a CRC, so that only an audit can notice.
    BATON_FAILPOINT_BYTES("engine.page", FirstRow(cache, scheduled, layer),
                          cache.layout().row_bytes());
    StorePageCrcs(cache, sequence.blocks.table, layer, scheduled.first_token,
                  scheduled.end_token());
    if (sequence.request.mode != Mode::kPrefillOnly) continue;
    if (mark == 0 && !cache.host_memory()) mark = cache.device_copies()->Mark();
    Tell(sequence, LayerComputed{.layer = layer,
                                 .first_token = scheduled.first_token,
                                 .token_count = scheduled.token_count,
                                 .block_table = sequence.blocks.table,
                                 .copies_after = mark});
  }
}

void StepPipeline::ApplyUntil(size_t count) {
  while (in_flight_.size() > count) {
    const Step step = std::move(in_flight_.front());
    in_flight_.pop_front();
    std::vector<absl::StatusOr<OutputToken>> tokens = parts_.sampler.Take();
    std::vector<absl::StatusOr<TokenLogprobs>> scores = parts_.sampler.TakeScores();
    BATON_FAILPOINT("engine.step_done");
    const absl::Time now = SteadyNow();
    const absl::Duration duration = now - std::max(step.enqueued, last_done_);
    last_done_ = now;
    sizer_.Observe(step.rows, duration);
    parts_.guesser.StepDone(step.schedule, duration);
    const std::vector<StepsInFlight::Leaving> leaving = parts_.sequences.StepDone();
    const int accepted = Apply(step.schedule, absl::MakeSpan(tokens), absl::MakeSpan(scores));
    parts_.stats.StepDone(now, step.rows + accepted);
  }
}

int StepPipeline::Apply(const Schedule& schedule, absl::Span<absl::StatusOr<OutputToken>> tokens,
                        absl::Span<absl::StatusOr<TokenLogprobs>> scores) {
  BATON_FAILPOINT("engine.before_token");
  int accepted = 0;
  for (const ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    const auto made = tokens.subspan(0, TokensOf(scheduled));
    tokens.remove_prefix(made.size());
    const auto scored = scores.subspan(0, static_cast<size_t>(scheduled.scored_count()));
    scores.remove_prefix(scored.size());
    // It ended with the previous step, so the results of this step for it are not needed.
    if (sequence.state() == Sequence::State::kEnded) continue;
    if (parts_.auditor.Has(sequence)) {
      parts_.auditor.Computed(scheduled, made);
      continue;
    }
    if (sequence.tokens.form && std::exchange(sequence.tokens.form->missed, false)) {
      ComputeAnew(scheduled);
      continue;
    }
    if (!TellScores(scheduled, scored)) continue;
    ApplyComputed(scheduled);
    if (made.empty()) continue;
    if (sequence.request.mode == Mode::kPrefillOnly) {
      ProducePrefilled(sequence, made);
      continue;
    }
    for (Sequence* other : scheduled.parted) {
      other->times.prefill_end = sequence.times.prefill_end;
    }
    if (scheduled.parted.empty()) {
      accepted += ApplyRun(scheduled, made);
      continue;
    }
    std::vector<Sequence*> choices = scheduled.parted;
    choices.insert(choices.begin(), &sequence);
    for (size_t i = 0; i < choices.size(); ++i) {
      if (Produce(*choices[i], std::move(made[i]), {})) parts_.guesser.Continue(*choices[i]);
    }
  }
  return accepted;
}

// A decode's row, whose output was sampled without its mask: the sequence stands where it was. What
// was written for its last token is written over.
void StepPipeline::ComputeAnew(const ScheduledTokens& scheduled) {
  Sequence& sequence = *scheduled.sequence;
  BATON_CHECK(scheduled.token_count == 1 && scheduled.parted.empty(), "the row of a decode");
  --sequence.tokens.pending_outputs;
  // tests/planted_bugs: mask_missed_and_computed
  sequence.kv.computed_tokens = scheduled.first_token;
  parts_.guesser.Missed(sequence);
}

bool StepPipeline::TellScores(const ScheduledTokens& scheduled,
                              absl::Span<absl::StatusOr<TokenLogprobs>> scores) {
  if (scores.empty()) return true;
  Sequence& sequence = *scheduled.sequence;
  PromptScored told{.first_token = scheduled.first_scored() + 1, .tokens = {}};
  for (absl::StatusOr<TokenLogprobs>& score : scores) {
    if (!score.ok()) {
      for (Sequence* other : scheduled.parted) parts_.ending.Fail(*other, score.status());
      parts_.ending.Fail(sequence, score.status());
      return false;
    }
    told.tokens.push_back(*std::move(score));
  }
  // tests/planted_bugs: prompt_logprobs_told_again_after_a_preemption
  sequence.tokens.scored = told.first_token + static_cast<int>(told.tokens.size());
  Tell(sequence, told);
  return true;
}

// The tokens that the row of the last known token and those of true guesses have sampled. Whatever
// the other rows have computed is written over.
int StepPipeline::ApplyRun(const ScheduledTokens& scheduled,
                           absl::Span<absl::StatusOr<OutputToken>> tokens) {
  Sequence& sequence = *scheduled.sequence;
  const int accepted = CountAccepted(scheduled, tokens);
  const int refused = scheduled.guess_count() - accepted;
  if (tokens[0].ok()) parts_.guesser.Checked(scheduled, accepted, *tokens[0]);
  parts_.stats.totals.accepted_guesses += static_cast<uint64_t>(accepted);
  parts_.stats.totals.refused_guesses += static_cast<uint64_t>(refused);
  const int end = scheduled.end_token();
  for (int layer = 0; accepted > 0 && layer < parts_.cache.layout().layers; ++layer) {
    StorePageCrcs(parts_.cache, sequence.blocks.table, layer, end, end + accepted);
  }
  for (int i = 0; i <= accepted; ++i) {
    // tests/planted_bugs: guess_refused_row_counts_as_computed
    if (i > 0) parts_.sequences.MarkComputed(sequence, end + i);
    const Guessed guessed = {.is_guess = i < accepted, .refused = refused};
    if (!Produce(sequence, std::move(tokens[static_cast<size_t>(i)]), guessed)) return accepted;
  }
  parts_.guesser.Continue(sequence);
  return accepted;
}

// Returns the number of guesses that equal the sampled tokens, up to one that ends the sequence.
int StepPipeline::CountAccepted(const ScheduledTokens& scheduled,
                                absl::Span<const absl::StatusOr<OutputToken>> tokens) const {
  size_t accepted = 0;
  for (const int32_t guess : scheduled.guesses) {
    const absl::StatusOr<OutputToken>& token = tokens[accepted];
    if (!token.ok() || token->token_id != guess) break;
    ++accepted;
    // tests/planted_bugs: guess_behind_the_last_token_counts
    if (parts_.ending.ReasonOf(*scheduled.sequence, *token) != FinishReason::kNone) break;
  }
  return static_cast<int>(accepted);
}

void StepPipeline::ApplyComputed(const ScheduledTokens& scheduled) {
  Sequence& sequence = *scheduled.sequence;
  parts_.sequences.MarkComputed(sequence, scheduled.end_token());
  if (scheduled.first_token >= sequence.kv.prefill_tokens) return;
  EngineStats& totals = parts_.stats.totals;
  totals.prompt_tokens_computed += static_cast<uint64_t>(scheduled.token_count);
  if (scheduled.first_token == sequence.kv.cached_tokens) {
    totals.prompt_tokens_cached += static_cast<uint64_t>(sequence.kv.cached_tokens);
  }
  if (sequence.times.prefill_end || sequence.kv.committed) return;
  if (scheduled.produces_token) sequence.times.prefill_end = SteadyNow();
  Tell(sequence, ChunkComputed{.end_token = scheduled.end_token()});
}

bool StepPipeline::Produce(Sequence& sequence, absl::StatusOr<OutputToken> token, Guessed guessed) {
  if (token.ok()) {
    token->finish_reason = parts_.ending.ReasonOf(sequence, *token);
    if (absl::Status status = sequence.tokens.AddOutput(token->token_id); !status.ok()) {
      token = std::move(status);
    }
  }
  if (!token.ok()) {
    parts_.ending.Fail(sequence, WhyNoToken(sequence, token.status()));
    return false;
  }
  ++parts_.stats.totals.generated_tokens;
  const bool ends = token->finish_reason != FinishReason::kNone;
  const bool steps_last = ends || !guessed.is_guess;
  Tell(sequence, TokenProduced{.token = *std::move(token),
                               .choice = sequence.choice(),
                               .guessed = guessed.is_guess,
                               .refused_guesses = steps_last ? guessed.refused : 0});
  if (ends) parts_.ending.Finish(sequence);
  return !ends;
}

void StepPipeline::ProducePrefilled(Sequence& sequence,
                                    absl::Span<absl::StatusOr<OutputToken>> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    absl::StatusOr<OutputToken>& token = tokens[i];
    if (!token.ok()) return parts_.ending.Fail(sequence, WhyNoToken(sequence, token.status()));
    token->finish_reason = parts_.ending.ReasonOf(sequence, *token);
    ++parts_.stats.totals.generated_tokens;
    Tell(sequence, TokenProduced{.token = *std::move(token), .choice = sequence.choices[i]});
  }
  parts_.ending.Finish(sequence);
}

}  // namespace baton
