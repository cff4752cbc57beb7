#include "router/request/attempt.h"

#include <algorithm>

#include "common/base/numerics.h"
#include "common/rpc/status.h"

namespace baton {

std::optional<bool> Attempt::hand_off_exact() const {
  if (const auto* decoding = std::get_if<Decoding>(&state)) return decoding->exact;
  if (const auto* finishing = std::get_if<Finishing>(&state)) return finishing->exact;
  return std::nullopt;
}

bool Attempt::PromptComputed(const RequestState& request) const {
  return std::all_of(choices.begin(), choices.end(), [&](const ChoiceProgress& progress) {
    return request.choices[progress.choice].log.size() > progress.base;
  });
}

bool Attempt::AllEnded(const RequestState& request) const {
  return std::all_of(choices.begin(), choices.end(), [&](const ChoiceProgress& progress) {
    return request.choices[progress.choice].output.ended();
  });
}

bool Attempt::DecodeTold() const {
  return std::all_of(choices.begin(), choices.end(),
                     [](const ChoiceProgress& progress) { return progress.decode_finished; });
}

bool Attempt::AllTold() const {
  const bool decode_told = !decodes() || !calls.decode_open || DecodeTold();
  return decode_told && (!calls.prefill_open || calls.prefill_finished);
}

bool Attempt::OutputsExact() const {
  if (!exact) return false;
  // One worker alone is as exact as its numerics promise. Whether a hand-off was exact the decode
  // worker says when it commits, and again at its end if it lives to say it.
  return decodes() ? hand_off_exact().value_or(true) && calls.decode_exact
                   : Numerics(workers.prefill_numerics).bits_are_equal();
}

std::optional<size_t> Attempt::Find(uint32_t choice) const {
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].choice == choice) return i;
  }
  return std::nullopt;
}

const char* Attempt::stage() const {
  if (!accepted()) return kStageQueue;
  return committed() ? kStageDecode : kStagePrefill;
}

// tests/planted_bugs: attempt_silence
absl::Time Attempt::SilentAt() const {
  absl::Time at = absl::InfiniteFuture();
  if (calls.decode_open) at = std::min(at, calls.decode_silence.at());
  if (calls.prefill_open && Is<Prefilling>()) at = std::min(at, calls.prefill_silence.at());
  return at;
}

absl::Time Attempt::NextTimer() const {
  if (const auto* finishing = std::get_if<Finishing>(&state)) return finishing->finish_by;
  absl::Time next =
      std::min({accept_by.value_or(absl::InfiniteFuture()), hedge.NextTimer(), SilentAt()});
  std::optional<absl::Time> of_state;
  if (const auto* choosing = std::get_if<Choosing>(&state)) of_state = choosing->ask_at;
  if (const auto* prefilling = std::get_if<Prefilling>(&state)) of_state = prefilling->commit_by;
  return std::min(next, of_state.value_or(absl::InfiniteFuture()));
}

std::vector<ChoiceProgress> BeginChoices(const RequestState& request,
                                         const std::vector<ChoiceProgress>& choices) {
  std::vector<ChoiceProgress> begun;
  for (const ChoiceProgress& progress : choices) {
    const size_t tokens = request.choices[progress.choice].log.size();
    begun.push_back({.choice = progress.choice, .base = tokens, .next_from_decode = tokens});
  }
  return begun;
}

}  // namespace baton
