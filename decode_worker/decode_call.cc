#include "decode_worker/decode_call.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/numerics.h"
#include "common/base/status_macros.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"
#include "common/worker/convert.h"

namespace baton {
namespace {

using internal::v1::PushRefused;

// The resume key: equal in every attempt that begins with the same choice of the same request.
std::string ResumeKey(const internal::v1::AttemptKey& key) {
  return absl::StrCat(key.request_id_high(), ".", key.request_id_low(), ".", key.choice());
}

absl::StatusOr<std::vector<OutputToken>> TokensFromProto(
    const std::vector<internal::v1::OutputToken>& tokens, int vocab_size) {
  std::vector<OutputToken> result;
  for (const internal::v1::OutputToken& token : tokens) {
    BATON_ASSIGN_OR_RETURN(result.emplace_back(), OutputTokenFromProto(token, vocab_size));
  }
  return result;
}

}  // namespace

DecodeCall::DecodeCall(Engine& engine, AttemptRegistry& registry, ThreadGroup& pushes,
                       const DecodeServiceOptions& options, Callbacks callbacks)
    : engine_(engine),
      registry_(registry),
      pushes_(pushes),
      options_(options),
      callbacks_(std::move(callbacks)),
      outbox_(*this),
      push_(engine, options) {}

// The metrics may go as soon as the last call is done.
DecodeCall::~DecodeCall() {
  push_.End();
  callbacks_.done(placed_);
}

void DecodeCall::Start() {
  self_ = shared_from_this();
  StartRead(&request_);
}

void DecodeCall::End(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  EndLocked(status);
}

void DecodeCall::OnReadDone(bool ok) {
  if (!std::exchange(heard_, true)) {
    if (absl::Status status = callbacks_.heard(ok); !status.ok()) return End(status);
    placed_ = ok;
  }
  if (!ok) {
    absl::MutexLock lock(&mutex_);
    if (!started_) EndLocked(InvalidField("start", "must be the first message"));
    return;
  }
  const Received<internal::v1::DecodeRequest> request = std::move(request_);
  if (request.status.ok()) {
    OnRequest(request.message);
  } else {
    End(request.status);
  }
  absl::MutexLock lock(&mutex_);
  if (!outbox_.finished()) StartRead(&request_);
}

void DecodeCall::OnRequest(const internal::v1::DecodeRequest& request) {
  switch (request.event_case()) {
    case internal::v1::DecodeRequest::kStart:
      return OnStart(request.start());
    case internal::v1::DecodeRequest::kFlow: {
      absl::MutexLock lock(&mutex_);
      flow_paused_ = request.flow().paused();
      return SetPaused();
    }
    case internal::v1::DecodeRequest::kStop: {
      absl::MutexLock lock(&mutex_);
      return OnStop(request.stop().choice());
    }
    default:
      End(InvalidField("event", "must be set"));
  }
}

// Before the commit the push decides when the blocks can be given back. It is asked to only
// once no choice is left.
void DecodeCall::OnStop(uint32_t choice) {
  if (!started_ || !choices_.Has(choice)) {
    return EndLocked(InvalidField("stop.choice", "is not a choice of this call"));
  }
  if (outbox_.ended() || !choices_.Stop(choice)) return;
  releasing_ = choices_.all_over();
  if (releasing_) {
    EndSequence(PushRefused::REASON_ABORTED);
  } else if (submitted_) {
    engine_.Stop(sequence_, static_cast<int>(choice));
  }
}

void DecodeCall::OnStart(const internal::v1::DecodeStart& start) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(started_, true)) return EndLocked(InvalidField("start", "was sent before"));
  }
  const internal::v1::SequenceSpec& spec = start.sequence();
  const auto mode =
      start.prefill_locally() ? SequenceRequest::Mode::kLocal : SequenceRequest::Mode::kReceive;
  absl::StatusOr<CheckedSequence> sequence =
      SequenceFromProto(spec, engine_.limits(), mode, options_.grammars);
  if (!sequence.ok()) return End(sequence.status());
  if (absl::Status pusher = CheckPusher(start, options_.secure); !pusher.ok()) return End(pusher);
  pusher_ = PusherKey(start.pusher());
  if (options_.audit != nullptr && !start.prefill_locally()) {
    const absl::Status trusted = options_.audit->CheckTrusted(pusher_);
    if (!trusted.ok()) return End(trusted);
  }
  const SequenceRequest& request = sequence->request();
  const auto self = shared_from_this();
  const auto choices = static_cast<uint32_t>(request.choices);
  const absl::Status admitted = registry_.Admit(
      spec.key(), choices, [self](const absl::Status& status) { self->End(status); });
  if (!admitted.ok()) return End(admitted);

  absl::MutexLock lock(&mutex_);
  key_ = spec.key();
  choices_ = CallChoices(key_.choice(), choices);
  registered_ = true;
  if (outbox_.ended()) return;
  local_ = start.prefill_locally();
  token_count_ = static_cast<int>(request.token_ids.size());
  exact_ = Numerics(options_.shape.numerics()).bits_are_equal();
  if (!local_) push_.Prepare(start, request);
  if (absl::Status failure = BATON_FAILPOINT_STATUS("decode.before_submit"); !failure.ok()) {
    return EndLocked(failure);
  }
  sequence_ = engine_.NextId();
  sequence->set_resume_key(ResumeKey(spec.key()));
  sequence->set_kv_source(pusher_);
  sequence->set_on_event([self](const SequenceEvent& event) {
    std::visit([&self](const auto& e) { self->On(e); }, event);
  });
  const absl::Status submitted = engine_.Submit(sequence_, *std::move(sequence));
  submitted_ = submitted.ok();
  BATON_FAILPOINT("decode.submitted");
  if (!submitted.ok()) EndLocked(RefusedByEngine(submitted, options_.worker_name, kStageQueue));
}

void DecodeCall::On(const SequenceAdmitted& event) {
  absl::MutexLock lock(&mutex_);
  if (outbox_.ended() || releasing_) return;
  BATON_FAILPOINT("decode.before_accepted");
  if (!local_) ExpectPush();
  outbox_.PushAccepted(event.cached_tokens, options_.shape);
  BATON_FAILPOINT("decode.accepted");
}

void DecodeCall::ExpectPush() {
  const auto self = shared_from_this();
  DecodePush::Callbacks callbacks;
  callbacks.committed = [self](const auto& commit) { self->OnCommitted(commit); };
  callbacks.failed = [self](const absl::Status& status) { self->OnPushFailed(status); };
  callbacks.received = [self](uint64_t bytes) {
    absl::MutexLock lock(&self->mutex_);
    self->push_.Received(bytes);
  };
  registry_.Expect(key_, push_.Expect(sequence_, pushes_, std::move(callbacks)));
}

void DecodeCall::On(const BlocksGranted& event) {
  BATON_FAILPOINT("decode.before_grant");
  absl::MutexLock lock(&mutex_);
  start_token_ = event.start_token;
  push_.Grant(event.block_table, event.start_token);
}

void DecodeCall::OnCommitted(const ReceiveAction::CommitSequence& commit) {
  absl::StatusOr<std::vector<OutputToken>> tokens =
      TokensFromProto(commit.first_tokens, engine_.model_config().vocab_size);
  absl::MutexLock lock(&mutex_);
  push_.End();
  if (outbox_.ended() || releasing_) return;  // the push releases the blocks
  if (!tokens.ok()) return EndLocked(tokens.status());
  if (options_.audit != nullptr) {
    // It may have been found out while it pushed.
    const absl::Status trusted = options_.audit->CheckTrusted(pusher_);
    if (!trusted.ok()) return EndLocked(trusted);
  }
  BATON_FAILPOINT("decode.before_committed");
  committed_ = true;
  exact_ = commit.exact;
  push_.Committed();
  outbox_.PushCommitted(commit.exact);
  for (const internal::v1::OutputToken& token : commit.first_tokens) QueueToken(token);
  engine_.Commit(sequence_, *std::move(tokens), OrderAudit());
  BATON_FAILPOINT("decode.committed");
  SetPaused();
}

// The audit still holds the sequence's blocks when the sequence has ended, so it keeps the call.
std::optional<AuditOrder> DecodeCall::OrderAudit() {
  if (options_.audit == nullptr || !exact_) return std::nullopt;
  std::optional<AuditOrder> order = options_.audit->Choose(
      {.pusher = pusher_, .key = key_, .start_token = start_token_, .token_count = token_count_});
  if (!order) return std::nullopt;
  order->done = [self = shared_from_this(),
                 judge = std::move(order->done)](const AuditResult& result) { judge(result); };
  return order;
}

void DecodeCall::OnPushFailed(const absl::Status& status) {
  BATON_FAILPOINT("decode.push_failed");
  absl::MutexLock lock(&mutex_);
  push_.End();
  if (outbox_.ended() || releasing_) return;
  push_.Failed(status);
  EndLocked(TransferFailed(status, options_.worker_name));
}

void DecodeCall::On(const PrefillStarted& event) {
  absl::MutexLock lock(&mutex_);
  outbox_.PushProgress(event.cached_tokens);
}

void DecodeCall::On(const ChunkComputed& event) {
  absl::MutexLock lock(&mutex_);
  outbox_.PushProgress(event.end_token);
}

void DecodeCall::On(const PromptScored& event) {
  std::vector<internal::v1::PromptLogprobs> messages = PromptLogprobsToProto(event);
  absl::MutexLock lock(&mutex_);
  for (internal::v1::PromptLogprobs& message : messages) {
    outbox_.PushPromptLogprobs(std::move(message));
  }
}

void DecodeCall::On(const TokenProduced& event) {
  BATON_FAILPOINT("decode.before_token");
  absl::MutexLock lock(&mutex_);
  internal::v1::OutputToken token = OutputTokenToProto(event.token, event.choice);
  token.set_guessed(event.guessed);
  token.set_refused_guesses(static_cast<uint32_t>(event.refused_guesses));
  QueueToken(std::move(token));
}

void DecodeCall::On(const SequencePreempted& event) {
  absl::MutexLock lock(&mutex_);
  outbox_.PushPreempted(static_cast<uint32_t>(event.choice));
}

void DecodeCall::On(const SequenceAlive&) {
  absl::MutexLock lock(&mutex_);
  outbox_.PushAlive();
}

void DecodeCall::On(const SequenceFinished& event) {
  BATON_FAILPOINT("decode.before_finished");
  absl::MutexLock lock(&mutex_);
  ChoiceEnded(event);
}

void DecodeCall::On(const SequenceFailed& event) {
  const char* reason = absl::IsDataLoss(event.status) ? kReasonKvWrong : "SEQUENCE_FAILED";
  End(WithErrorInfo(event.status, {reason, kStageDecode, options_.worker_name, {}}));
}

void DecodeCall::On(const SequenceReleased& event) {
  absl::MutexLock lock(&mutex_);
  if (choices_.stopped(static_cast<uint32_t>(event.timings.choice))) ChoiceEnded(event.timings);
}

void DecodeCall::ChoiceEnded(const SequenceFinished& timings) {
  if (outbox_.ended() || !choices_.End(static_cast<uint32_t>(timings.choice))) return;
  if (options_.metrics != nullptr) {
    options_.metrics->SequenceDone(timings.queue, timings.prefill, timings.decode);
  }
  outbox_.PushFinished(timings, local_, exact_);
  if (choices_.all_ended()) EndLocked(absl::OkStatus());
}

void DecodeCall::EndLocked(const absl::Status& status) {
  if (outbox_.ended()) return;
  outbox_.End(status);
  EndSequence(RefusalAfter(status));
  outbox_.WriteNext();
}

// The push may still write into the blocks. So it decides when they are given back, unless it has
// ended, as it does with the commit.
void DecodeCall::EndSequence(PushRefused::Reason reason) {
  if (!submitted_) return;
  BATON_FAILPOINT("decode.before_release");
  if (!push_.Cancel(reason)) engine_.Release(sequence_);
}

void DecodeCall::QueueToken(internal::v1::OutputToken token) {
  if (choices_.stopped(token.choice())) return;
  outbox_.PushToken(std::move(token));
  SetPaused();
}

void DecodeCall::SetPaused() {
  if (!submitted_ || !(committed_ || local_)) return;
  const bool paused = flow_paused_ || outbox_.waiting_tokens() >= options_.max_queued_tokens;
  if (paused == paused_) return;
  paused_ = paused;
  engine_.SetPaused(sequence_, paused);
}

void DecodeCall::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  if (!ok) EndLocked(absl::CancelledError("the router is gone"));
  outbox_.Written();
  SetPaused();
}

void DecodeCall::OnCancel() { End(absl::CancelledError("the call was cancelled")); }

void DecodeCall::OnDone() {
  BATON_FAILPOINT("decode.done");
  const std::shared_ptr<DecodeCall> self = std::move(self_);
  std::shared_ptr<ReceiveDriver> push;  // destroyed without the lock
  bool registered = false;
  {
    absl::MutexLock lock(&mutex_);
    push = push_.Take();
    registered = registered_;
  }
  if (registered) registry_.Remove(key_);
}

}  // namespace baton
