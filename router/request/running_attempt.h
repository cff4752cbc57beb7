// An attempt while it runs: opens its calls, handles the messages of its workers, and reports how
// it broke.
//
// The first token is delivered from the worker whose copy arrives first; unequal copies end the
// request with INTERNAL. After the decode worker has committed, failures of the prefill worker do
// not matter. If the client wants the prompt's log probabilities, they precede all tokens and come
// from the worker that computes the prompt. Until they are complete, messages of the decode worker
// after its acceptance are held back.
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

// Not thread-safe. Borrows the request's state, to which it adds actions, tokens and failures.
class RunningAttempt {
 public:
  RunningAttempt(RequestState& request, Attempt attempt)
      : request_(request),
        attempt_(std::move(attempt)),
        prompt_logprobs_(request.NewPromptLogprobs()) {}

  const Attempt& attempt() const { return attempt_; }
  Hedge& hedge() { return attempt_.hedge; }
  bool Is(uint32_t number) const { return attempt_.number == number; }
  // Whether every choice has a token from this attempt.
  bool PromptComputed() const { return attempt_.PromptComputed(request_); }

  // Runs `next` in place of the previous attempt, whose calls have ended or were handed over.
  void Begin(Attempt next);
  // Asks placement for the attempt's workers. REQUIRES: Choosing.
  void AskForWorkers();
  // Opens its first call. REQUIRES: Choosing.
  void Open(const WorkersChosen& workers);
  // Goes on with a decode call to `workers` that is already open and accepted. REQUIRES: Choosing.
  void OpenAccepted(const WorkersChosen& workers, const internal::v1::DecodeAccepted& accepted);

  // Handles a worker's message in an open call.
  void Take(const internal::v1::DecodeResponse& message);
  [[nodiscard]] std::optional<Breakage> Take(const internal::v1::PrefillResponse& message);
  // Handles the end of an open call.
  [[nodiscard]] std::optional<Breakage> DecodeEnded(const absl::Status& status);
  [[nodiscard]] std::optional<Breakage> PrefillEnded(const absl::Status& status);

  // Whether a worker that the attempt depends on has sent nothing in its call for too long.
  bool silent() const { return request_.now >= attempt_.SilentAt(); }
  // Cancels that call and treats it as ended. REQUIRES: silent().
  [[nodiscard]] std::optional<Breakage> EndSilentCall();

  // Sends the decode worker whether the client is behind.
  void SendFlow();
  // Finishes without waiting any longer for the workers' final reports; all choices have ended.
  // REQUIRES: Finishing.
  void FinishNow();
  // Cancels the calls of this attempt and of the hedged attempt beside it, in any state.
  void CancelCalls();
  // Marks the attempt as over. Its calls have ended.
  void End() { attempt_.state = Attempt::Over{}; }

 private:
  enum class Source { kPrefill, kDecode };
  // Whether messages of the decode worker have to be held back.
  bool lacks_prompt_logprobs() const {
    return request_.lacks_prompt_logprobs && !attempt_.local() && !prompt_logprobs_.complete();
  }
  // Restarts the silence timeout: the call was opened, or a message came in it.
  void HeardDecode() {
    // tests/planted_bugs: router_misses_what_it_does_not_read
    if (request_.paused) return;
    attempt_.calls.decode_silence.Heard(request_.now, request_.options.silence_timeout);
  }
  void HeardPrefill() {
    attempt_.calls.prefill_silence.Heard(request_.now, request_.options.silence_timeout);
  }
  // Records that `tokens` tokens of the prompt are computed.
  void Computed(uint32_t tokens) {
    if (tokens > attempt_.calls.computed_tokens.value_or(0)) request_.Gained();
    attempt_.calls.computed_tokens = tokens;
  }
  void TakeNow(const internal::v1::DecodeResponse& message);
  void Take(const internal::v1::PromptLogprobs& message, Source source);
  // Handles the messages that were held back, in their order.
  [[nodiscard]] std::optional<Breakage> TakeHeldBack();

  void TakeWorkers(const WorkersChosen& workers);
  void Accepted(const internal::v1::DecodeAccepted& accepted);
  void TakenUp();   // records that a worker has accepted the attempt
  void EndQueue();  // counts the time until the attempt had its workers
  void Committed(bool exact);
  void Finished(const internal::v1::PrefillFinished& finished);
  void Finished(const internal::v1::DecodeFinished& finished);
  void Preempted();

  // Checks a token, logs it and delivers the tokens that are complete now. Fails the request if the
  // token is wrong.
  void TakeToken(const internal::v1::OutputToken& token, Source source);
  // Asks the decode worker to stop the choice, which has ended, unless it knows already.
  void ChoiceEnded(uint32_t choice);
  // Finishes if the workers have reported their times.
  void MaybeFinish();
  bool finishing() const { return attempt_.Is<Attempt::Finishing>(); }

  RequestState& request_;
  Attempt attempt_;
  PromptLogprobs prompt_logprobs_;  // received in this attempt
  std::vector<internal::v1::DecodeResponse> held_back_;
  std::optional<absl::Status> held_back_end_;  // end of the decode call, after `held_back_`
};

}  // namespace baton
