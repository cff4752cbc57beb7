#include "common/backend/cuda/sampling/sampler_rows.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {
namespace {

SamplerRow PackRow(const SamplingRow& row, int counts_slot, SamplerRows& lists) {
  const SamplingParams& sampling = *row.sampling;
  const SamplerRow packed = {
      .temperature = sampling.temperature,
      .top_p = sampling.top_p,
      .top_k = sampling.top_k,
      .min_p = sampling.min_p,
      .presence_penalty = sampling.presence_penalty,
      .frequency_penalty = sampling.frequency_penalty,
      .repetition_penalty = sampling.repetition_penalty,
      .min_tokens = sampling.min_tokens,
      .seed = sampling.seed,
      .choice = row.choice,
      .output_index = row.output_index,
      .top_logprobs = sampling.logprobs.value_or(-1),
      .first_bias = static_cast<int32_t>(lists.biases.size()),
      .bias_count = static_cast<int32_t>(sampling.logit_bias.size()),
      .first_stop_id = static_cast<int32_t>(lists.stop_ids.size()),
      .stop_id_count = static_cast<int32_t>(sampling.stop_token_ids.size()),
      .counts_slot = counts_slot,
      .masked = row.mask != nullptr ? 1 : 0,
  };
  for (const auto& [id, bias] : sampling.logit_bias) lists.biases.push_back({id, bias});
  lists.stop_ids.insert(lists.stop_ids.end(), sampling.stop_token_ids.begin(),
                        sampling.stop_token_ids.end());
  return packed;
}

}  // namespace

std::vector<CountsSlots::Slot> CountsSlots::Assign(absl::Span<const SamplingRow> rows) {
  ++step_;
  std::vector<Slot> assigned(rows.size());
  // A sequence that has a slot keeps it, before others take the slots that are left.
  for (size_t i = 0; i < rows.size(); ++i) {
    // tests/planted_bugs: guess_counts_stay_on_the_device
    if (rows[i].behind_guess) continue;
    const auto found = slot_of_.find(rows[i].sequence);
    if (found == slot_of_.end()) continue;
    State& state = slots_[found->second];
    assigned[i] = {.index = static_cast<int>(found->second),
                   .filled = state.next_output == rows[i].output_index};
    state.last_step = step_;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!TokenCounts::AskedFor(*rows[i].sampling)) continue;
    if (assigned[i].index < 0) {
      const size_t slot = LeastRecentlyUsed();
      if (slots_[slot].sequence) slot_of_.erase(*slots_[slot].sequence);
      slots_[slot] = {.last_step = step_};
      if (!rows[i].behind_guess) {
        slots_[slot].sequence = rows[i].sequence;
        slot_of_[rows[i].sequence] = slot;
      }
      assigned[i].index = static_cast<int>(slot);
    }
    BATON_CHECK(assigned[i].filled || rows[i].pending_row < 0, "counts of outputs that are known");
    slots_[static_cast<size_t>(assigned[i].index)].next_output = rows[i].output_index + 1;
  }
  return assigned;
}

size_t CountsSlots::LeastRecentlyUsed() const {
  const auto least =
      std::min_element(slots_.begin(), slots_.end(),
                       [](const State& a, const State& b) { return a.last_step < b.last_step; });
  BATON_CHECK(least != slots_.end() && least->last_step < step_, "a slot for each row");
  return static_cast<size_t>(least - slots_.begin());
}

bool UploadedLists::Replace(const SamplerRows& lists, size_t rows) {
  const absl::Span<const SamplerRow> next = absl::MakeConstSpan(lists.rows).first(rows);
  const bool differ =
      next != absl::MakeConstSpan(rows_) || lists.biases != biases_ || lists.stop_ids != stop_ids_;
  rows_.assign(next.begin(), next.end());
  for (SamplerRow& row : rows_) ++row.output_index;
  biases_ = lists.biases;
  stop_ids_ = lists.stop_ids;
  return differ;
}

SamplerRows PackSamplerRows(absl::Span<const SamplingRow> rows, int max_rows, CountsSlots& slots) {
  BATON_CHECK(rows.size() <= static_cast<size_t>(max_rows), "rows of a step");
  SamplerRows packed;
  const std::vector<CountsSlots::Slot> assigned = slots.Assign(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    packed.rows.push_back(PackRow(rows[i], assigned[i].index, packed));
    if (assigned[i].index < 0 || assigned[i].filled) continue;
    packed.fills.push_back({.slot = assigned[i].index, .counts = rows[i].counts});
  }
  packed.rows.resize(static_cast<size_t>(max_rows));
  return packed;
}

}  // namespace baton
