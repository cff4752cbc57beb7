#include "decode_worker/decode_call.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/numerics.h"
#include "common/base/status_macros.h"
#include "common/handoff/kv_digest.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"
#include "common/worker/convert.h"

namespace baton {
namespace {

using internal::v1::DecodeResponse;
using internal::v1::PushRefused;

// The resume key: equal in every attempt that begins with the same choice of the same request.
std::string ResumeKey(const internal::v1::AttemptKey& key) {
  return absl::StrCat(key.request_id_high(), ".", key.request_id_low(), ".", key.choice());
}

// What the push of a call that ended with `status` is told.
PushRefused::Reason RefusalAfter(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  if (reason == kReasonSuperseded) return PushRefused::REASON_SUPERSEDED;
  if (reason == kReasonDraining) return PushRefused::REASON_DRAINING;
  return PushRefused::REASON_ABORTED;
}

absl::StatusOr<std::vector<OutputToken>> TokensFromProto(
    const std::vector<internal::v1::OutputToken>& tokens, int vocab_size) {
  std::vector<OutputToken> result;
  for (const internal::v1::OutputToken& token : tokens) {
    BATON_ASSIGN_OR_RETURN(result.emplace_back(), OutputTokenFromProto(token, vocab_size));
  }
  return result;
}

ReceiveConfig PushConfig(const DecodeServiceOptions& options, const KvLayout& layout,
                         int vocab_size, const internal::v1::SequenceSpec& spec,
                         const SequenceRequest& request) {
  ReceiveConfig config{
      .key = spec.key(),
      .capability = spec.capability(),
      .identity = options.identity,
      .shape = options.shape,
      .layout = layout,
      .token_ids = request.token_ids,
      .page_hashes = PageHashes(options.identity, spec.cache_salt(), options.shape.numerics(),
                                request.token_ids),
      .cache_salt = spec.cache_salt(),
      .strict_kv_dtype = options.strict_kv_dtype,
      .prompt_length = static_cast<int>(spec.prompt_length()),
      .choices = request.choices,
      .vocab_size = vocab_size,
      .limits = options.limits,
  };
  if (spec.has_remaining_ms()) {
    config.limits.reservation_timeout = std::min<absl::Duration>(
        config.limits.reservation_timeout, absl::Milliseconds(spec.remaining_ms()));
  }
  return config;
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
      meter_(options.metrics) {}

// The metrics may go as soon as the last call is done.
DecodeCall::~DecodeCall() {
  meter_.End();
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
  if (!started_ || choice < key_.choice() || choice - key_.choice() >= choices_) {
    return EndLocked(InvalidField("stop.choice", "is not a choice of this call"));
  }
  if (outbox_.ended() || ended_.count(choice) > 0 || !stopped_.insert(choice).second) return;
  std::set<uint32_t> over = ended_;
  over.insert(stopped_.begin(), stopped_.end());
  releasing_ = over.size() == choices_;
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
  absl::StatusOr<CheckedSequence> sequence = SequenceFromProto(spec, engine_.limits(), mode);
  if (!sequence.ok()) return End(sequence.status());
  const SequenceRequest& request = sequence->request();
  const auto self = shared_from_this();
  const absl::Status admitted =
      registry_.Admit(spec.key(), static_cast<uint32_t>(request.choices),
                      [self](const absl::Status& status) { self->End(status); });
  if (!admitted.ok()) return End(admitted);

  absl::MutexLock lock(&mutex_);
  key_ = spec.key();
  choices_ = static_cast<uint32_t>(request.choices);
  registered_ = true;
  if (outbox_.ended()) return;
  local_ = start.prefill_locally();
  exact_ = Numerics(options_.shape.numerics()).bits_are_equal();
  if (!local_) {
    push_config_ = PushConfig(options_, engine_.cache().layout(), engine_.model_config().vocab_size,
                              spec, request);
  }
  if (absl::Status failure = BATON_FAILPOINT_STATUS("decode.before_submit"); !failure.ok()) {
    return EndLocked(failure);
  }
  sequence_ = engine_.NextId();
  sequence->set_resume_key(ResumeKey(spec.key()));
  sequence->set_on_event([self](const SequenceEvent& event) {
    std::visit([&self](const auto& e) { self->On(e); }, event);
  });
  const absl::Status submitted = engine_.Submit(sequence_, *std::move(sequence));
  submitted_ = submitted.ok();
  BATON_FAILPOINT("decode.submitted");
  if (!submitted.ok()) EndLocked(submitted);
}

void DecodeCall::On(const SequenceAdmitted& event) {
  absl::MutexLock lock(&mutex_);
  if (outbox_.ended() || releasing_) return;
  BATON_FAILPOINT("decode.before_accepted");
  if (!local_) ExpectPush();
  DecodeResponse response;
  response.mutable_accepted()->set_cached_tokens(static_cast<uint32_t>(event.cached_tokens));
  *response.mutable_accepted()->mutable_shape() = options_.shape;
  outbox_.Push(std::move(response));
  BATON_FAILPOINT("decode.accepted");
}

// take_blocks and release_blocks call the engine without the lock: its functions are thread-safe.
void DecodeCall::ExpectPush() {
  const auto self = shared_from_this();
  ReceiveDriver::Callbacks callbacks;
  callbacks.take_blocks = [self](const ReceiveAction::TakeBlocks& take) {
    self->engine_.OpenReceive(self->sequence_, take.numerics);
  };
  callbacks.release_blocks = [self](const ReceiveAction::ReleaseBlocks& release) {
    self->engine_.Release(self->sequence_, release.resume_tokens);
  };
  callbacks.committed = [self](const ReceiveAction::CommitSequence& commit) {
    self->OnCommitted(commit);
  };
  callbacks.failed = [self](const absl::Status& status) { self->OnPushFailed(status); };
  callbacks.received = [self](uint64_t bytes) {
    absl::MutexLock lock(&self->mutex_);
    self->meter_.Received(bytes, SteadyNow());
  };
  push_ = std::make_shared<ReceiveDriver>(*std::move(push_config_), engine_.cache(),
                                          options_.staging, std::move(callbacks));
  push_config_.reset();
  pushes_.Start([push = push_] { push->Run(); });
  registry_.Expect(key_, push_);
}

void DecodeCall::On(const BlocksGranted& event) {
  BATON_FAILPOINT("decode.before_grant");
  absl::MutexLock lock(&mutex_);
  meter_.Begin();
  if (push_ != nullptr) push_->Grant(event.block_table, event.start_token);
}

void DecodeCall::OnCommitted(const ReceiveAction::CommitSequence& commit) {
  absl::StatusOr<std::vector<OutputToken>> tokens =
      TokensFromProto(commit.first_tokens, engine_.model_config().vocab_size);
  absl::MutexLock lock(&mutex_);
  meter_.End();
  if (outbox_.ended() || releasing_) return;  // the push was told to release the blocks
  if (!tokens.ok()) return EndLocked(tokens.status());
  BATON_FAILPOINT("decode.before_committed");
  committed_ = true;
  exact_ = commit.exact;
  meter_.Committed(SteadyNow());
  DecodeResponse response;
  response.mutable_committed()->set_exact(commit.exact);
  outbox_.Push(std::move(response));
  for (const internal::v1::OutputToken& token : commit.first_tokens) QueueToken(token);
  engine_.Commit(sequence_, *std::move(tokens));
  BATON_FAILPOINT("decode.committed");
  SetPaused();
}

void DecodeCall::OnPushFailed(const absl::Status& status) {
  BATON_FAILPOINT("decode.push_failed");
  absl::MutexLock lock(&mutex_);
  meter_.End();
  if (outbox_.ended() || releasing_) return;
  meter_.Failed(status);
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

void DecodeCall::On(const TokenProduced& event) {
  BATON_FAILPOINT("decode.before_token");
  absl::MutexLock lock(&mutex_);
  QueueToken(OutputTokenToProto(event.token, event.choice));
}

void DecodeCall::On(const SequencePreempted& event) {
  absl::MutexLock lock(&mutex_);
  outbox_.PushPreempted(static_cast<uint32_t>(event.choice));
}

void DecodeCall::On(const SequenceFinished& event) {
  BATON_FAILPOINT("decode.before_finished");
  absl::MutexLock lock(&mutex_);
  ChoiceEnded(event);
}

void DecodeCall::On(const SequenceFailed& event) {
  absl::MutexLock lock(&mutex_);
  EndLocked(
      WithErrorInfo(event.status, {"SEQUENCE_FAILED", kStageDecode, options_.worker_name, {}}));
}

void DecodeCall::On(const SequenceReleased& event) {
  absl::MutexLock lock(&mutex_);
  if (stopped_.count(static_cast<uint32_t>(event.timings.choice)) > 0) ChoiceEnded(event.timings);
}

void DecodeCall::ChoiceEnded(const SequenceFinished& timings) {
  if (outbox_.ended() || !ended_.insert(static_cast<uint32_t>(timings.choice)).second) return;
  if (options_.metrics != nullptr) {
    options_.metrics->SequenceDone(timings.queue, timings.prefill, timings.decode);
  }
  outbox_.PushFinished(timings, local_, exact_);
  if (ended_.size() == choices_) EndLocked(absl::OkStatus());
}

void DecodeCall::EndLocked(const absl::Status& status) {
  if (outbox_.ended()) return;
  outbox_.End(status);
  EndSequence(RefusalAfter(status));
  outbox_.WriteNext();
}

// The push may still write into the blocks. So it decides when they are given back, and which
// pages are retained for a higher attempt; unless it has ended, as it does with the commit.
void DecodeCall::EndSequence(PushRefused::Reason reason) {
  if (!submitted_) return;
  BATON_FAILPOINT("decode.before_release");
  if (push_ != nullptr && push_->Cancel(reason)) return;
  engine_.Release(sequence_);
}

void DecodeCall::QueueToken(internal::v1::OutputToken token) {
  if (stopped_.count(token.choice()) > 0) return;
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

void DecodeCall::OnCancel() {
  absl::MutexLock lock(&mutex_);
  EndLocked(absl::CancelledError("the call was cancelled"));
}

void DecodeCall::OnDone() {
  BATON_FAILPOINT("decode.done");
  const std::shared_ptr<DecodeCall> self = std::move(self_);
  std::shared_ptr<ReceiveDriver> push;  // destroyed without the lock
  bool registered = false;
  {
    absl::MutexLock lock(&mutex_);
    push = std::move(push_);
    registered = registered_;
  }
  if (registered) registry_.Remove(key_);
}

}  // namespace baton
