#include "common/engine/step_input.h"

#include <algorithm>
#include <iterator>

#include "common/base/max_choices.h"

namespace baton {
namespace {

// The sequence's name towards the sampler, which keeps token counts for it. Each choice has its
// own.
uint64_t SamplerName(const Sequence& sequence, int choice) {
  return sequence.id * kMaxChoices + static_cast<uint64_t>(choice);
}

}  // namespace

StepInput::StepInput(const Schedule& schedule, const KvLayout& layout) {
  for (const ScheduledTokens& scheduled : schedule.batch) {
    AddTokens(scheduled, layout);
    AddScores(scheduled);
    if (!scheduled.produces_token) continue;
    const uint32_t* const row_masks = OrderMasks(scheduled);
    AddSamples(*scheduled.sequence, row_masks);
    AddSamplesOfGuesses(scheduled, row_masks);
    for (int i = scheduled.guess_count(); i >= 0; --i) {
      batch.logits_rows.push_back(batch.rows() - 1 - i);
    }
  }
  first_samples.push_back(static_cast<int>(sampled.size()));
}

void StepInput::AddTokens(const ScheduledTokens& scheduled, const KvLayout& layout) {
  const Sequence& sequence = *scheduled.sequence;
  const SequenceTokens& tokens = sequence.tokens;
  batch.sequences.push_back(
      {.first_row = batch.rows(),
       .row_count = scheduled.row_count(),
       .first_position = scheduled.first_token,
       .block_table = sequence.blocks.table.data(),
       .table_entries = layout.TableEntriesFor(scheduled.first_token + scheduled.row_count())});
  const auto first = tokens.ids.begin() + scheduled.first_token;
  std::transform(first, first + scheduled.token_count - tokens.pending_outputs,
                 std::back_inserter(batch.tokens), InputToken::Id);
  if (tokens.pending_outputs > 0)
    batch.tokens.push_back(InputToken::PendingRow(tokens.pending_row));
  std::transform(scheduled.guesses.begin(), scheduled.guesses.end(),
                 std::back_inserter(batch.tokens), InputToken::Id);
}

void StepInput::AddScores(const ScheduledTokens& scheduled) {
  const Sequence& sequence = *scheduled.sequence;
  const int first_row = batch.sequences.back().first_row - scheduled.first_token;
  const int first = scheduled.first_scored();
  for (int token = first; token < first + scheduled.scored_count(); ++token) {
    batch.logits_rows.push_back(first_row + token);
    first_samples.push_back(static_cast<int>(sampled.size()));
    // tests/planted_bugs: prompt_logprob_of_the_token_itself
    scored.push_back({.token_id = sequence.tokens.ids[static_cast<size_t>(token) + 1],
                      .top_count = *sequence.request.sampling.prompt_logprobs});
  }
}

// Where the masks of its rows are or will be; null if it is held to no form.
const uint32_t* StepInput::OrderMasks(const ScheduledTokens& scheduled) {
  std::optional<SequenceForm>& form = scheduled.sequence->tokens.form;
  if (!form) return nullptr;
  masked = true;
  if (!form->mask.empty()) return form->mask.data();
  MaskOrder& order = masks.emplace_back();
  order.form = &*form;
  order.guesses = scheduled.guesses;
  order.masks.resize((1 + scheduled.guesses.size()) * MaskWords(form->state.vocab_size()));
  return order.masks.data();
}

void StepInput::AddSamples(const Sequence& sequence, const uint32_t* mask) {
  const SequenceTokens& tokens = sequence.tokens;
  first_samples.push_back(static_cast<int>(sampled.size()));
  for (const int choice : sequence.choices) {
    // tests/planted_bugs: guess_moves_randomness_on
    sampled.push_back({.sequence = SamplerName(sequence, choice),
                       .sampling = &sequence.request.sampling,
                       .counts = &tokens.counts,
                       .choice = choice,
                       .output_index = sequence.output_count(),
                       .pending_row = tokens.pending_outputs > 0 ? tokens.pending_row : -1,
                       .mask = mask});
  }
}

// Each row behind a guess samples as if the guesses before it were the sequence's tokens.
void StepInput::AddSamplesOfGuesses(const ScheduledTokens& scheduled, const uint32_t* mask) {
  const Sequence& sequence = *scheduled.sequence;
  const bool counted = TokenCounts::AskedFor(sequence.request.sampling);
  const TokenCounts* guessed_counts = &sequence.tokens.counts;
  // tests/planted_bugs: rows_behind_guesses
  for (int i = 0; i < scheduled.guess_count(); ++i) {
    if (counted) {
      counts.push_back(*guessed_counts);
      counts.back().AddOutput(scheduled.guesses[static_cast<size_t>(i)]);
      guessed_counts = &counts.back();
    }
    if (mask != nullptr) mask += MaskWords(sequence.tokens.form->state.vocab_size());
    first_samples.push_back(static_cast<int>(sampled.size()));
    sampled.push_back({.sequence = SamplerName(sequence, sequence.choice()),
                       .behind_guess = true,
                       .sampling = &sequence.request.sampling,
                       .counts = guessed_counts,
                       .choice = sequence.choice(),
                       .output_index = sequence.output_count() + i + 1,
                       .mask = mask});
  }
}

void StepInput::FillMasks(absl::FunctionRef<void()> done) {
  for (MaskOrder& order : masks) {
    SequenceForm& form = *order.form;
    // Not where that of another choice was slow a moment ago.
    if (!form.is_slow()) form.state.FillMasks(order.guesses, absl::MakeSpan(order.masks));
    *form.slow |= form.state.stalled();
    // tests/planted_bugs: mask_missed_and_the_token_counts
    form.missed = form.is_slow();
    done();
  }
}

}  // namespace baton
