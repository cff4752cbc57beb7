#include "tests/simulation/router/told_kills.h"

#include <algorithm>
#include <string>
#include <variant>

#include "common/rpc/status.h"

namespace baton {
namespace {

// What docs/scheduling.md promises: so many deaths within 16 outputs of a decode isolate, and so
// many at one place end the request.
constexpr int kDeathsThatIsolate = 2;
constexpr int kDeathsThatEnd = 4;
// An output and the 16 before it, from which guesses reach it, lie in two runs of 16 outputs.
constexpr int kRuns = 2;
// In each run every death before the one that isolates leaves the next attempt guessing. After all
// of these, any further death isolates: no attempt guesses from then on.
constexpr int kMostByGuesses = kRuns * (kDeathsThatIsolate - 1) + 1;
// A worker that does not guess dies when it has told all outputs before the deadly one. No attempt
// decodes up to that one again: the next ones compute it at the end of their prompt.
constexpr int kMostWithoutGuesses = 1;
constexpr int kMostAtThePromptsEnd = kDeathsThatEnd;

// As AttemptHistory has it: a decode worker gives the last token of what was pushed once more.
bool HasDecoded(const Attempt& attempt) {
  return std::any_of(attempt.choices.begin(), attempt.choices.end(), [&](const auto& progress) {
    return progress.next_from_decode > progress.base + (attempt.local() ? 0 : 1);
  });
}

// The router hears that a call of the attempt broke with its worker.
bool IsDeathIn(const RequestEvent& event, uint32_t attempt) {
  const auto broke = [attempt](const auto* ended) {
    if (ended == nullptr || ended->attempt != attempt) return false;
    const std::string reason = ErrorReason(ended->status);
    return reason.empty() || reason == kReasonWorkerLost;
  };
  return broke(std::get_if<DecodeEnded>(&event)) || broke(std::get_if<PrefillEnded>(&event));
}

// The router has heard all that the worker had told before it died.
bool IsTold(const SimRequest::Kill& kill, const Attempt& attempt, size_t outputs) {
  const auto* prefilling = std::get_if<Attempt::Prefilling>(&attempt.state);
  // The attempt broke with its other call, and that is what counts.
  if (prefilling != nullptr && prefilling->decode_end.has_value()) return false;
  return static_cast<int>(outputs) >= kill.outputs &&
         (kill.decoded ? attempt.committed()
                       : attempt.calls.computed_tokens == static_cast<uint32_t>(kill.computed));
}

}  // namespace

void ToldKills::Handled(const SimRequest& right, const RequestEvent& event, const Attempt* attempt,
                        size_t outputs) {
  if (right.deadly_opening) return HandledOpening(right, event, attempt);
  // A chunk that kills may be computed by the other choices too.
  if (right.deadly_output < 0 || right.deadly_chunk >= 0) return;
  Chain& chain = chains_[right.index];
  const std::optional<Attempt>& left = chain.running;
  if (left.has_value() && (attempt == nullptr || attempt->number != left->number)) {
    const auto kill = right.kills.find(left->number);
    const bool killed = kill != right.kills.end();
    const bool told =
        killed && IsDeathIn(event, left->number) && IsTold(kill->second, *left, outputs);
    chain.kills += told ? 1 : 0;
    // It went beyond a place alone, so the next attempt may guess.
    chain.isolations_left += !told && left->isolate && HasDecoded(*left) ? 1 : 0;
    sim_.coverage.told_kills += told ? 1 : 0;
    sim_.coverage.untold_kills += killed && !told ? 1 : 0;
  }
  chain.running.reset();
  if (attempt != nullptr) chain.running = *attempt;
  const int most =
      kMostByGuesses + chain.isolations_left + kMostWithoutGuesses + kMostAtThePromptsEnd;
  if (chain.kills > most) {
    sim_.Violation("request ", right.index, " kills ", chain.kills, " workers by output ",
                   right.deadly_output, ", and all that they told was heard");
  }
}

void ToldKills::HandledOpening(const SimRequest& right, const RequestEvent& event,
                               const Attempt* attempt) {
  Chain& chain = chains_[right.index];
  const std::optional<Attempt>& left = chain.running;
  const bool told = left.has_value() && (attempt == nullptr || attempt->number != left->number) &&
                    right.kills.count(left->number) > 0 && IsDeathIn(event, left->number);
  chain.kills += told ? 1 : 0;
  sim_.coverage.opening_kills += told ? 1 : 0;
  sim_.coverage.opened_alone += told && left->needs.alone ? 1 : 0;
  chain.running.reset();
  if (attempt != nullptr) chain.running = *attempt;
  if (chain.kills > kDeathsThatEnd) {
    sim_.Violation("request ", right.index, " kills ", chain.kills, " workers that open it");
  }
}

}  // namespace baton
