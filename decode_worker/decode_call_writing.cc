// How DecodeCall writes to the router: waiting tokens are joined in one message, and the sequence
// pauses while the router is behind.
#include <utility>

#include "absl/status/status.h"

#include "common/rpc/duration.h"
#include "decode_worker/decode_call.h"

namespace baton {

using internal::v1::DecodeResponse;

void DecodeCall::QueueFinished(const SequenceFinished& timings) {
  DecodeResponse response;
  internal::v1::DecodeFinished& finished = *response.mutable_finished();
  *finished.mutable_decode() = DurationToProto(timings.decode);
  if (local_) {
    *finished.mutable_prefill_queue() = DurationToProto(timings.queue);
    *finished.mutable_prefill() = DurationToProto(timings.prefill);
  } else {
    *finished.mutable_queue() = DurationToProto(timings.queue);
  }
  finished.set_preemptions(static_cast<uint32_t>(timings.preemptions));
  finished.set_exact(exact_);
  finished.set_choice(static_cast<uint32_t>(timings.choice));
  Queue(std::move(response));
}

void DecodeCall::QueueToken(internal::v1::OutputToken token) {
  if (outbox_.ended() || stopped_.count(token.choice()) > 0) return;
  ++queued_tokens_;
  if (DecodeResponse* last = outbox_.last(); last != nullptr && last->has_tokens()) {
    *last->mutable_tokens()->add_tokens() = std::move(token);
  } else {
    DecodeResponse response;
    *response.mutable_tokens()->add_tokens() = std::move(token);
    Queue(std::move(response));
  }
  SetPaused();
}

void DecodeCall::Queue(DecodeResponse response) {
  outbox_.Push(std::move(response));
  WriteNext();
}

void DecodeCall::WriteNext() {
  const DecodeResponse* writing = outbox_.WriteNext(*this);
  if (writing == nullptr || !writing->has_tokens()) return;
  queued_tokens_ -= writing->tokens().tokens_size();
  SetPaused();
}

void DecodeCall::SetPaused() {
  if (!submitted_ || !(committed_ || local_)) return;
  const bool paused = flow_paused_ || queued_tokens_ >= options_.max_queued_tokens;
  if (paused == paused_) return;
  paused_ = paused;
  engine_.SetPaused(sequence_, paused);
}

void DecodeCall::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  outbox_.Written();
  if (!ok) EndLocked(absl::CancelledError("the router is gone"));
  WriteNext();
}

}  // namespace baton
