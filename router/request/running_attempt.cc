#include "router/request/running_attempt.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/failpoint.h"
#include "common/base/numerics.h"
#include "common/rpc/status.h"
#include "router/request/attempt_requests.h"
#include "router/request/errors.h"
#include "router/request/timeline.h"
#include "router/request/token_check.h"

namespace baton {

using internal::v1::DecodeResponse;
using internal::v1::OutputToken;
using internal::v1::PrefillResponse;

namespace {

absl::Status CheckToken(const RequestState& request, const Attempt& attempt,
                        const OutputToken& token, bool from_prefill, bool lacks_prompt_logprobs) {
  const auto broken = [&](const std::string& what) {
    const WorkerName& worker = from_prefill ? *attempt.workers.prefill : *attempt.workers.decode;
    return ProtocolBroken(from_prefill ? kStagePrefill : kStageDecode, worker.name, what);
  };
  if (!from_prefill && !attempt.accepted()) {
    return broken("a token before it accepted the request");
  }
  if (lacks_prompt_logprobs) {
    return broken("a token before the log probabilities of the prompt");
  }
  const std::optional<size_t> found = attempt.Find(token.choice());
  if (!found.has_value()) {
    return broken(absl::StrCat("a token of choice ", token.choice(), ", which is not one of its ",
                               attempt.choices.size()));
  }
  const ChoiceProgress& progress = attempt.choices[*found];
  const RequestState::Choice& choice = request.choices[progress.choice];
  const std::optional<std::string> fault =
      FaultOf(token, {.log = choice.log,
                      .next_index = from_prefill ? progress.base : progress.next_from_decode,
                      .complete = from_prefill && progress.prefill_sent,
                      .ended = choice.output.ended(),
                      .ended_by_stop_string = choice.output.ended_by_stop_string(),
                      .vocab_size = request.table.vocab_size(),
                      .max_tokens = request.spec.sampling.max_tokens()});
  return fault.has_value() ? broken(*fault) : absl::OkStatus();
}

}  // namespace

void RunningAttempt::Begin(Attempt next) {
  attempt_ = std::move(next);
  // tests/planted_bugs: router_prompt_logprobs_of_two_attempts
  prompt_logprobs_ = request_.NewPromptLogprobs();
  held_back_.clear();
  held_back_end_.reset();
  request_.timings.set_attempts(request_.timings.attempts() + 1);
}

void RunningAttempt::AskForWorkers() {
  attempt_.state = Attempt::Choosing{};
  request_.Ask(ChooseWorkers{attempt_.number, NeedsOf(request_, attempt_)});
}

void RunningAttempt::Open(const WorkersChosen& workers) {
  TakeWorkers(workers);
  if (!attempt_.has_decode()) {
    attempt_.state = Attempt::Prefilling{};
    attempt_.calls.prefill_open = true;
    HeardPrefill();
    return request_.Ask(MakeStartPrefill(request_, attempt_, nullptr));
  }
  attempt_.state = Attempt::Opening{};
  attempt_.calls.decode_open = true;
  HeardDecode();
  attempt_.hedge.Plan(request_.options.accept_wait, request_.now);
  request_.Ask(MakeOpenDecode(request_, attempt_, attempt_.number, attempt_.workers));
}

void RunningAttempt::OpenAccepted(const WorkersChosen& workers,
                                  const internal::v1::DecodeAccepted& accepted) {
  TakeWorkers(workers);
  attempt_.state = Attempt::Opening{};
  attempt_.calls.decode_open = true;
  HeardDecode();
  if (request_.paused) SendFlow();
  Accepted(accepted);
}

void RunningAttempt::TakeWorkers(const WorkersChosen& workers) {
  attempt_.workers = workers;
  attempt_.exact &= request_.Continues(workers);
  request_.TellWorkers(workers);
  EndQueue();
}

void RunningAttempt::Take(const DecodeResponse& message) {
  HeardDecode();
  if (message.has_alive()) return;
  const bool of_prompt = message.has_accepted() || message.has_prompt_logprobs();
  // tests/planted_bugs: router_prompt_logprobs_not_waited_for
  if (lacks_prompt_logprobs() && !of_prompt) {
    held_back_.push_back(message);
  } else {
    TakeNow(message);
  }
}

void RunningAttempt::TakeNow(const DecodeResponse& message) {
  switch (message.event_case()) {
    case DecodeResponse::kAccepted:
      return Accepted(message.accepted());
    case DecodeResponse::kCommitted:
      return Committed(message.committed().exact());
    case DecodeResponse::kTokens:
      for (const OutputToken& token : message.tokens().tokens()) {
        if (!request_.failed() && !attempt_.Is<Attempt::Over>()) TakeToken(token, Source::kDecode);
      }
      return;
    case DecodeResponse::kFinished:
      return Finished(message.finished());
    case DecodeResponse::kPrefillProgress:
      return Computed(message.prefill_progress().computed_tokens());
    case DecodeResponse::kPreempted:
      return Preempted();
    case DecodeResponse::kPromptLogprobs:
      return Take(message.prompt_logprobs(), Source::kDecode);
    case DecodeResponse::kAlive:
    case DecodeResponse::EVENT_NOT_SET:  // a newer worker's event, which the router does not need
      return;
  }
}

std::optional<Breakage> RunningAttempt::Take(const PrefillResponse& message) {
  HeardPrefill();
  switch (message.event_case()) {
    case PrefillResponse::kStarted:
      TakenUp();
      Computed(message.started().cached_tokens());
      request_.CountCachedTokens(message.started().cached_tokens());
      break;
    case PrefillResponse::kFirstToken:
      TakeToken(message.first_token(), Source::kPrefill);
      break;
    case PrefillResponse::kFinished:
      Finished(message.finished());
      break;
    case PrefillResponse::kProgress:
      Computed(message.progress().computed_tokens());
      break;
    case PrefillResponse::kPromptLogprobs:
      Take(message.prompt_logprobs(), Source::kPrefill);
      break;
    case PrefillResponse::kAlive:
    case PrefillResponse::EVENT_NOT_SET:
      break;
  }
  if (!lacks_prompt_logprobs()) {
    if (std::optional<Breakage> breakage = TakeHeldBack()) return breakage;
  }
  // The Decode call ended before, and the first tokens have not ended the request.
  const auto* prefilling = attempt_.Get<Attempt::Prefilling>();
  if (prefilling == nullptr || !prefilling->decode_end.has_value() || !PromptComputed()) {
    return std::nullopt;
  }
  return DecodeBroken(attempt_, *prefilling->decode_end);
}

void RunningAttempt::Take(const internal::v1::PromptLogprobs& message, Source source) {
  if (request_.failed() || !request_.lacks_prompt_logprobs) return;
  const bool from_prefill = source == Source::kPrefill;
  std::optional<std::string> fault = prompt_logprobs_.Add(message);
  if (!from_prefill && !attempt_.local()) fault = "log probabilities of a prompt that it received";
  if (fault.has_value()) {
    const WorkerName& worker = from_prefill ? *attempt_.workers.prefill : *attempt_.workers.decode;
    return request_.Fail(ProtocolBroken(kStagePrefill, worker.name, *fault));
  }
  if (prompt_logprobs_.complete()) request_.TakePromptLogprobs(std::move(prompt_logprobs_));
}

std::optional<Breakage> RunningAttempt::TakeHeldBack() {
  // tests/planted_bugs: router_held_back_forgotten
  const std::optional<absl::Status> end = std::exchange(held_back_end_, std::nullopt);
  // Messages from before its end are handled as if the end had not come.
  attempt_.calls.decode_open |= end.has_value();
  for (const DecodeResponse& message : std::exchange(held_back_, {})) {
    if (!request_.failed() && !attempt_.Is<Attempt::Over>()) TakeNow(message);
  }
  if (!end.has_value() || request_.failed() || attempt_.Is<Attempt::Over>()) return std::nullopt;
  return DecodeEnded(*end);
}

void RunningAttempt::Accepted(const internal::v1::DecodeAccepted& accepted) {
  BATON_FAILPOINT("router.accepted");
  if (!attempt_.Is<Attempt::Opening>()) {
    return request_.Fail(
        ProtocolBroken(kStageQueue, attempt_.workers.decode->name, "it accepted twice"));
  }
  attempt_.hedge.Cancel(request_);
  TakenUp();
  attempt_.state = Attempt::Prefilling{};
  if (attempt_.local()) return request_.CountCachedTokens(accepted.cached_tokens());
  EndQueue();
  attempt_.calls.prefill_open = true;
  HeardPrefill();
  request_.Ask(MakeStartPrefill(request_, attempt_, &accepted));
}

void RunningAttempt::TakenUp() {
  request_.admitted = true;
  attempt_.accept_by.reset();
}

void RunningAttempt::EndQueue() {
  const absl::Duration waited = request_.now - attempt_.waits_since;
  request_.CountQueue(waited - attempt_.queued);
  attempt_.queued = waited;
}

void RunningAttempt::Committed(bool exact) {
  BATON_FAILPOINT("router.committed");
  if (attempt_.Is<Attempt::Opening>()) {
    return request_.Fail(ProtocolBroken(kStageTransfer, attempt_.workers.decode->name,
                                        "it committed a prompt that it had not accepted"));
  }
  if (auto* finishing = attempt_.Get<Attempt::Finishing>()) {
    finishing->exact = exact;
  } else {
    attempt_.state = Attempt::Decoding{.exact = exact};
  }
}

void RunningAttempt::Finished(const internal::v1::PrefillFinished& finished) {
  attempt_.calls.prefill_finished = true;
  AddPrefill(finished, &request_.timings);
  if (finishing()) return MaybeFinish();
  auto* prefilling = attempt_.Get<Attempt::Prefilling>();
  if (prefilling != nullptr && attempt_.has_decode()) {
    prefilling->commit_by = request_.now + request_.options.commit_wait;
  }
}

void RunningAttempt::Finished(const internal::v1::DecodeFinished& finished) {
  const std::optional<size_t> found = attempt_.Find(finished.choice());
  if (!found.has_value() || !request_.Ended(finished.choice())) {
    return request_.Fail(ProtocolBroken(
        kStageDecode, attempt_.workers.decode->name,
        absl::StrCat("it finished choice ", finished.choice(), " without a last token")));
  }
  attempt_.choices[*found].decode_finished = true;
  attempt_.calls.decode_exact &= finished.exact();
  AddDecode(finished, attempt_.local(), &request_.timings);
  MaybeFinish();
}

// Choices that are still together stay where they are.
void RunningAttempt::Preempted() {
  if (attempt_.choices.size() > 1 || finishing() || attempt_.hedge.running()) return;
  attempt_.hedge.Plan(request_.options.preempted_wait, request_.now);
}

std::optional<Breakage> RunningAttempt::DecodeEnded(const absl::Status& status) {
  attempt_.calls.decode_open = false;
  if (!held_back_.empty() && !IsDistrust(status)) {
    held_back_end_ = status;
    return std::nullopt;
  }
  if (finishing()) {
    MaybeFinish();
    return std::nullopt;
  }
  // A prefill worker whose first token ends the request aborts its push, and the decode worker may
  // end first. A distrusted prefill worker is not waited for.
  auto* prefilling = attempt_.Get<Attempt::Prefilling>();
  // tests/planted_bugs: router_waits_for_a_wrong_token
  if (prefilling != nullptr && attempt_.calls.prefill_open && !PromptComputed() &&
      !IsDistrust(status)) {
    prefilling->decode_end = status;
    prefilling->commit_by = request_.now + request_.options.broken_attempt_wait;
    return std::nullopt;
  }
  return DecodeBroken(attempt_, status);
}

std::optional<Breakage> RunningAttempt::PrefillEnded(const absl::Status& status) {
  attempt_.calls.prefill_open = false;
  if (finishing()) MaybeFinish();
  auto* prefilling = attempt_.Get<Attempt::Prefilling>();
  // tests/planted_bugs: router_prefill_end_after_commit
  if (prefilling == nullptr) return std::nullopt;
  if (!PromptComputed() || !attempt_.has_decode()) {
    // If the decode worker's call ended first, its error may be the cause of this end, too. A
    // broken transfer is not: it broke because this worker did.
    const std::optional<absl::Status>& decode_end = prefilling->decode_end;
    if (decode_end.has_value() && ErrorReason(*decode_end) != kReasonKvTransferFailed) {
      return DecodeBroken(attempt_, *decode_end);
    }
    return PrefillBroken(attempt_, PromptComputed(), status);
  }
  // The decode worker may have all it needs and be about to say so.
  if (status.ok() && attempt_.calls.prefill_finished) return std::nullopt;
  prefilling->prefill_end = status;
  prefilling->commit_by = request_.now + request_.options.broken_attempt_wait;
  return std::nullopt;
}

std::optional<Breakage> RunningAttempt::EndSilentCall() {
  const AttemptCalls& calls = attempt_.calls;
  const absl::Status silent = AttemptSilent(request_.options.silence_timeout);
  if (calls.decode_open && request_.now >= calls.decode_silence.at()) {
    request_.Ask(CancelDecode{attempt_.number, silent});
    return DecodeEnded(silent);
  }
  request_.Ask(CancelPrefill{attempt_.number, silent});
  return PrefillEnded(silent);
}

// While the client is behind, the router may leave unread what the worker sends.
void RunningAttempt::SendFlow() {
  if (!attempt_.calls.decode_open) return;
  attempt_.calls.decode_silence.Stop();
  HeardDecode();
  request_.Ask(MakeFlow(attempt_, request_.paused));
}

// tests/planted_bugs: token_taken
void RunningAttempt::TakeToken(const OutputToken& token, Source source) {
  const bool from_prefill = source == Source::kPrefill;
  const bool lacks = request_.lacks_prompt_logprobs && !prompt_logprobs_.complete();
  if (absl::Status status = CheckToken(request_, attempt_, token, from_prefill, lacks);
      !status.ok()) {
    return request_.Fail(std::move(status));
  }
  if (request_.lacks_prompt_logprobs) request_.TakePromptLogprobs(std::move(prompt_logprobs_));
  ChoiceProgress& progress = attempt_.choices[*attempt_.Find(token.choice())];
  if (from_prefill) {
    progress.prefill_sent = true;
  } else {
    ++progress.next_from_decode;
    attempt_.hedge.Cancel(request_);  // a preempted sequence runs again
    // It decodes, so it has the prompt.
    if (!attempt_.committed()) {
      Committed(attempt_.local() && Numerics(attempt_.workers.decode_numerics).bits_are_equal());
    }
  }
  const bool copy = token.output_index() < request_.choices[progress.choice].log.size();
  if (copy || request_.Ended(progress.choice)) return;
  if (request_.numerics.empty()) {
    request_.numerics = NumericsOfPrompt(attempt_.workers);
    request_.model = attempt_.workers.model;
  }
  request_.gave_tokens.insert(attempt_.number);
  request_.Append(token);
  if (request_.Ended(progress.choice)) ChoiceEnded(progress.choice);
}

void RunningAttempt::ChoiceEnded(uint32_t choice) {
  const bool worker_knows = request_.choices[choice].log.back().ends_sequence();
  const bool all_ended = attempt_.AllEnded(request_);
  const bool decodes = attempt_.decodes();
  // A stop string in the first token: the hand-off under way is for nothing, unless other choices
  // go on.
  // tests/planted_bugs: stop_of_a_choice
  if (!worker_knows && attempt_.calls.decode_open && (decodes || !all_ended)) {
    request_.Ask(MakeStop(attempt_, choice));
  }
  if (!all_ended) return;
  attempt_.state = Attempt::Finishing{.exact = attempt_.hand_off_exact(),
                                      .finish_by = request_.now + request_.options.timeline_wait};
  attempt_.hedge.Cancel(request_);
  if (!worker_knows && !decodes) return FinishNow();
  MaybeFinish();
}

void RunningAttempt::MaybeFinish() {
  if (finishing() && attempt_.AllTold()) FinishNow();
}

void RunningAttempt::FinishNow() {
  AttemptCalls& calls = attempt_.calls;
  request_.exact &= attempt_.OutputsExact();
  if (calls.decode_open && attempt_.DecodeTold()) {
    calls.decode_open = false;
    request_.Ask(CloseDecode{attempt_.number});
  }
  if (calls.prefill_finished) calls.prefill_open = false;  // the prefill call ends by itself
  CancelCalls();
  End();
}

void RunningAttempt::CancelCalls() {
  attempt_.hedge.Cancel(request_);
  if (attempt_.calls.prefill_open) request_.Ask(CancelPrefill{attempt_.number});
  if (attempt_.calls.decode_open) request_.Ask(CancelDecode{attempt_.number});
  attempt_.calls.prefill_open = attempt_.calls.decode_open = false;
}

}  // namespace baton
