#include "common/engine/step_pipeline.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "common/backend/device_copies.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/max_choices.h"
#include "common/engine/page_crcs.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

// Whether a peer hears of the step's layers. It hears of each layer of a chunk as it is computed,
// then of the chunk, then of the next chunk's layers. So such a step is not replayed from a
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

// How many of the step's sampled tokens belong to it.
size_t TokensOf(const ScheduledTokens& scheduled) {
  if (!scheduled.produces_token) return 0;
  const bool stays_one = scheduled.sequence->request.mode == Mode::kPrefillOnly;
  return stays_one ? scheduled.sequence->choices.size() : 1 + scheduled.parted.size();
}

// The input of a step's pass, and what is sampled from its logits.
struct StepInput {
  Batch batch;
  std::vector<SamplingRow> sampled;
  std::vector<int> first_samples;  // [logits rows + 1]; see StepPipeline::Sample
};

void AddTokens(const ScheduledTokens& scheduled, const KvLayout& layout, Batch& batch) {
  const Sequence& sequence = *scheduled.sequence;
  const SequenceTokens& tokens = sequence.tokens;
  batch.sequences.push_back({.first_row = batch.rows(),
                             .row_count = scheduled.token_count,
                             .first_position = scheduled.first_token,
                             .block_table = sequence.blocks.table.data(),
                             .block_count = layout.BlocksFor(scheduled.end_token())});
  const auto first = tokens.ids.begin() + scheduled.first_token;
  std::transform(first, first + scheduled.token_count - tokens.pending_outputs,
                 std::back_inserter(batch.tokens), InputToken::Id);
  if (tokens.pending_outputs > 0)
    batch.tokens.push_back(InputToken::PendingRow(tokens.pending_row));
}

void AddSamples(const Sequence& sequence, StepInput& step) {
  const SequenceTokens& tokens = sequence.tokens;
  step.first_samples.push_back(static_cast<int>(step.sampled.size()));
  for (const int choice : sequence.choices) {
    // Each choice has a name of its own towards the sampler, which keeps token counts for it.
    step.sampled.push_back({.sequence = sequence.id * kMaxChoices + static_cast<uint64_t>(choice),
                            .sampling = &sequence.request.sampling,
                            .counts = &tokens.counts,
                            .choice = choice,
                            .output_index = sequence.output_count(),
                            .pending_row = tokens.pending_outputs > 0 ? tokens.pending_row : -1});
  }
  step.batch.logits_rows.push_back(step.batch.rows() - 1);
}

StepInput InputOf(const Schedule& schedule, const KvLayout& layout) {
  StepInput step;
  for (const ScheduledTokens& scheduled : schedule.batch) {
    AddTokens(scheduled, layout, step.batch);
    if (scheduled.produces_token) AddSamples(*scheduled.sequence, step);
  }
  step.first_samples.push_back(static_cast<int>(step.sampled.size()));
  return step;
}

// The values of the first token that is computed.
[[maybe_unused]] uint8_t* FirstRow(const KvCache& cache, const ScheduledTokens& scheduled,
                                   int layer) {
  const int block_size = cache.layout().block_size;
  const auto index = static_cast<size_t>(scheduled.first_token / block_size);
  return cache.Block(scheduled.sequence->blocks.table[index]) +
         cache.layout().RowOffset(layer, KvLayout::kValues, scheduled.first_token % block_size);
}

// Notes for each sequence, parted or not, the row of this step that samples its next output.
void SetPendingRows(const Schedule& schedule, absl::Span<const int> first_samples) {
  size_t row = 0;
  for (const ScheduledTokens& scheduled : schedule.batch) {
    if (!scheduled.produces_token) continue;
    int sample = first_samples[row++];
    scheduled.sequence->tokens.pending_row = sample;
    for (Sequence* other : scheduled.parted) other->tokens.pending_row = ++sample;
  }
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
  StepInput step = InputOf(schedule, parts_.cache.layout());
  const int rows = step.batch.rows();
  const absl::Time start = SteadyNow();
  for (const BlockCopy& copy : schedule.copies) parts_.cache.CopyBlock(copy.from, copy.to);
  parts_.sampler.Begin(step.sampled);
  step.batch.sampled_ids = parts_.sampler.sampled_ids();
  const bool replayable = !TellsLayers(schedule) && !MakesChoicesPart(schedule);
  parts_.model.Enqueue(
      step.batch, parts_.cache, replayable ? &parts_.recordings : nullptr,
      [&](int layer) { LayerDone(schedule, layer); },
      [&](int first_row, Tensor logits) { Sample(step.first_samples, first_row, logits); });
  parts_.sampler.End();
  parts_.sequences.StepEnqueued(schedule);
  SetPendingRows(schedule, step.first_samples);
  in_flight_.push_back({.schedule = std::move(schedule), .rows = rows, .enqueued = start});
}

// Consecutive rows with one sample each are sampled together, and so are the padding rows behind
// them. Choices that part take their samples from one row, one after the other.
void StepPipeline::Sample(absl::Span<const int> first_samples, int first_row, Tensor logits) {
  const auto sample_of = [&](int row) {
    const auto index = static_cast<size_t>(first_row + row);
    const size_t last = first_samples.size() - 1;
    return index <= last ? first_samples[index]
                         : first_samples[last] + static_cast<int>(index - last);
  };
  for (int row = 0; row < logits.rows;) {
    int end = row + 1;
    const int samples = sample_of(end) - sample_of(row);
    if (samples == 1) {
      while (end < logits.rows && sample_of(end + 1) - sample_of(end) == 1) ++end;
    }
    const Tensor rows = {logits.Row(row), end - row, logits.columns};
    for (int i = 0; i < samples; ++i) parts_.sampler.Sample(sample_of(row) + i, rows);
    row = end;
  }
}

void StepPipeline::LayerDone(const Schedule& schedule, int layer) {
  parts_.stats.LayerDone();
  BATON_FAILPOINT("engine.layer_done");
  KvCache& cache = parts_.cache;
  uint64_t mark = 0;  // made where a peer copies this layer from the device's memory
  for (const ScheduledTokens& scheduled : schedule.batch) {
    const Sequence& sequence = *scheduled.sequence;
    // Before its page has a CRC, so that only an audit can tell.
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
    BATON_FAILPOINT("engine.step_done");
    const absl::Time now = SteadyNow();
    sizer_.Observe(step.rows, now - std::max(step.enqueued, last_done_));
    last_done_ = now;
    parts_.stats.StepDone(now, step.rows);
    const std::vector<StepsInFlight::Leaving> leaving = parts_.sequences.StepDone();
    Apply(step.schedule, absl::MakeSpan(tokens));
  }
}

void StepPipeline::Apply(const Schedule& schedule, absl::Span<absl::StatusOr<OutputToken>> tokens) {
  BATON_FAILPOINT("engine.before_token");
  for (const ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    const auto made = tokens.subspan(0, TokensOf(scheduled));
    tokens.remove_prefix(made.size());
    // It ended with the step before, so nobody needs what this step computed for it.
    if (sequence.state() == Sequence::State::kEnded) continue;
    if (parts_.auditor.Has(sequence)) {
      parts_.auditor.Computed(scheduled, made);
      continue;
    }
    ApplyComputed(scheduled);
    if (made.empty()) continue;
    if (sequence.request.mode == Mode::kPrefillOnly) {
      ProducePrefilled(sequence, made);
      continue;
    }
    for (Sequence* other : scheduled.parted) {
      other->times.prefill_end = sequence.times.prefill_end;
    }
    Produce(sequence, std::move(made[0]));
    for (size_t i = 0; i < scheduled.parted.size(); ++i) {
      Produce(*scheduled.parted[i], std::move(made[i + 1]));
    }
  }
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

void StepPipeline::Produce(Sequence& sequence, absl::StatusOr<OutputToken> token) {
  if (!token.ok()) return parts_.ending.Fail(sequence, token.status());
  token->finish_reason = parts_.ending.ReasonOf(sequence, *token);
  ++parts_.stats.totals.generated_tokens;
  const bool ends = token->finish_reason != FinishReason::kNone;
  sequence.tokens.AddOutput(token->token_id);
  Tell(sequence, TokenProduced{*std::move(token), sequence.choice()});
  if (ends) parts_.ending.Finish(sequence);
}

void StepPipeline::ProducePrefilled(Sequence& sequence,
                                    absl::Span<absl::StatusOr<OutputToken>> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    absl::StatusOr<OutputToken>& token = tokens[i];
    if (!token.ok()) return parts_.ending.Fail(sequence, token.status());
    token->finish_reason = parts_.ending.ReasonOf(sequence, *token);
    ++parts_.stats.totals.generated_tokens;
    Tell(sequence, TokenProduced{*std::move(token), sequence.choices[i]});
  }
  parts_.ending.Finish(sequence);
}

}  // namespace baton
