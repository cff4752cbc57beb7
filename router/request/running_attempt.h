// An attempt while it runs: opens its calls, takes what its workers say, and tells how it broke.
//
// A first token is delivered from whichever worker's copy comes first; unequal copies end the
// request INTERNAL. Once the decode worker has committed, nothing that happens to the prefill
// worker matters. But where the client wants the prompt's log probabilities, no token comes before
// them, and they come from whoever computes the prompt: until they have, what the decode worker
// says behind its acceptance is held back.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "router/request/attempt.h"
#include "router/request/events.h"
#include "router/request/prompt_logprobs.h"
#include "router/request/request_state.h"
#include "router/request/resume.h"

namespace baton {

// Not thread-safe. Borrows the request's state, where its actions, tokens and failures go.
class RunningAttempt {
 public:
  RunningAttempt(RequestState& request, Attempt attempt)
      : request_(request),
        attempt_(std::move(attempt)),
        prompt_logprobs_(request.NewPromptLogprobs()) {}

  const Attempt& attempt() const { return attempt_; }
  Hedge& hedge() { return attempt_.hedge; }
  bool Is(uint32_t number) const { return attempt_.number == number; }
  // Every choice has a token from this attempt.
  bool PromptComputed() const { return attempt_.PromptComputed(request_); }

  // `next` runs in place of the attempt before, whose calls are over or somebody else's.
  void Begin(Attempt next);
  // Placement is asked for its workers now. REQUIRES: Choosing.
  void AskForWorkers();
  // Opens its first call. REQUIRES: Choosing.
  void Open(const WorkersChosen& workers);
  // Its decode call is open to `workers` already, and accepted. REQUIRES: Choosing.
  void OpenAccepted(const WorkersChosen& workers, const internal::v1::DecodeAccepted& accepted);

  // What a worker says in a call that is open.
  void Take(const internal::v1::DecodeResponse& message);
  [[nodiscard]] std::optional<Breakage> Take(const internal::v1::PrefillResponse& message);
  // The call, which was open, has ended.
  [[nodiscard]] std::optional<Breakage> DecodeEnded(const absl::Status& status);
  [[nodiscard]] std::optional<Breakage> PrefillEnded(const absl::Status& status);

  // A worker on which the attempt depends has sent nothing in its call for too long.
  bool silent() const { return request_.now >= attempt_.SilentAt(); }
  // Cancels that call and treats it as ended. REQUIRES: silent().
  [[nodiscard]] std::optional<Breakage> EndSilentCall();

  // Tells the decode worker whether the client is behind.
  void SendFlow();
  // Its choices have all ended, and no account is waited for any longer. REQUIRES: Finishing.
  void FinishNow();
  // Ends its calls and the hedged attempt beside it, in whatever state it is.
  void CancelCalls();
  // It computes no longer; its calls are over.
  void End() { attempt_.state = Attempt::Over{}; }

 private:
  enum class Source { kPrefill, kDecode };
  // Whether the decode worker has to be held back.
  bool lacks_prompt_logprobs() const {
    return request_.lacks_prompt_logprobs && !attempt_.local() && !prompt_logprobs_.complete();
  }
  // The call was opened, or a message came in it.
  void HeardDecode() {
    // tests/planted_bugs: router_misses_what_it_does_not_read
    if (request_.paused) return;
    attempt_.calls.decode_silence.Heard(request_.now, request_.options.silence_timeout);
  }
  void HeardPrefill() {
    attempt_.calls.prefill_silence.Heard(request_.now, request_.options.silence_timeout);
  }
  // So many tokens of the prompt are computed.
  void Computed(uint32_t tokens) {
    if (tokens > attempt_.calls.computed_tokens.value_or(0)) request_.Gained();
    attempt_.calls.computed_tokens = tokens;
  }
  void TakeNow(const internal::v1::DecodeResponse& message);
  void Take(const internal::v1::PromptLogprobs& message, Source source);
  // What was held back, in its order.
  [[nodiscard]] std::optional<Breakage> TakeHeldBack();

  void TakeWorkers(const WorkersChosen& workers);
  void Accepted(const internal::v1::DecodeAccepted& accepted);
  void TakenUp();   // a worker has taken it: it no longer waits for one
  void EndQueue();  // it has its workers
  void Committed(bool exact);
  void Finished(const internal::v1::PrefillFinished& finished);
  void Finished(const internal::v1::DecodeFinished& finished);
  void Preempted();

  // Checks a token, logs it and delivers what it lets through; the request fails if it is wrong.
  void TakeToken(const internal::v1::OutputToken& token, Source source);
  // A choice has ended: asks the decode worker to stop if it does not know yet.
  void ChoiceEnded(uint32_t choice);
  // Ends once the workers have told where the time went.
  void MaybeFinish();
  bool finishing() const { return attempt_.Is<Attempt::Finishing>(); }

  RequestState& request_;
  Attempt attempt_;
  PromptLogprobs prompt_logprobs_;  // that came in this attempt
  std::vector<internal::v1::DecodeResponse> held_back_;
  std::optional<absl::Status> held_back_end_;  // of the decode call, behind what is held back
};

}  // namespace baton
