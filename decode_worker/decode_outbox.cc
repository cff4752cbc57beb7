#include "decode_worker/decode_outbox.h"

#include <utility>

#include "common/rpc/duration.h"
#include "common/rpc/status.h"

namespace baton {

using internal::v1::DecodeResponse;

void DecodeOutbox::Push(DecodeResponse response) {
  pushed_ = true;
  outbox_.Push(std::move(response));
  WriteNext();
}

void DecodeOutbox::PushAccepted(int cached_tokens, const internal::v1::KvShape& shape) {
  DecodeResponse response;
  response.mutable_accepted()->set_cached_tokens(static_cast<uint32_t>(cached_tokens));
  *response.mutable_accepted()->mutable_shape() = shape;
  Push(std::move(response));
}

void DecodeOutbox::PushCommitted(bool exact) {
  DecodeResponse response;
  response.mutable_committed()->set_exact(exact);
  Push(std::move(response));
}

void DecodeOutbox::PushToken(internal::v1::OutputToken token) {
  if (ended()) return;
  ++waiting_tokens_;
  if (DecodeResponse* last = outbox_.last(); last != nullptr && last->has_tokens()) {
    *last->mutable_tokens()->add_tokens() = std::move(token);
    return;
  }
  DecodeResponse response;
  *response.mutable_tokens()->add_tokens() = std::move(token);
  Push(std::move(response));
}

void DecodeOutbox::PushProgress(int computed_tokens) {
  const DecodeResponse* last = outbox_.last();
  if (last != nullptr && last->has_prefill_progress()) outbox_.DropLast();
  DecodeResponse response;
  response.mutable_prefill_progress()->set_computed_tokens(static_cast<uint32_t>(computed_tokens));
  Push(std::move(response));
}

void DecodeOutbox::PushPromptLogprobs(internal::v1::PromptLogprobs logprobs) {
  DecodeResponse response;
  *response.mutable_prompt_logprobs() = std::move(logprobs);
  Push(std::move(response));
}

void DecodeOutbox::PushPreempted(uint32_t choice) {
  const DecodeResponse* last = outbox_.last();
  if (last != nullptr && last->has_preempted() && last->preempted().choice() == choice) return;
  DecodeResponse response;
  response.mutable_preempted()->set_choice(choice);
  Push(std::move(response));
}

void DecodeOutbox::PushAlive() {
  if (std::exchange(pushed_, false) || outbox_.last() != nullptr) return;
  DecodeResponse response;
  response.mutable_alive();
  Push(std::move(response));
  pushed_ = false;
}

void DecodeOutbox::PushFinished(const SequenceFinished& timings, bool local, bool exact) {
  DecodeResponse response;
  internal::v1::DecodeFinished& finished = *response.mutable_finished();
  *finished.mutable_decode() = DurationToProto(timings.decode);
  if (local) {
    *finished.mutable_prefill_queue() = DurationToProto(timings.queue);
    *finished.mutable_prefill() = DurationToProto(timings.prefill);
  } else {
    *finished.mutable_queue() = DurationToProto(timings.queue);
  }
  finished.set_preemptions(static_cast<uint32_t>(timings.preemptions));
  finished.set_exact(exact);
  finished.set_choice(static_cast<uint32_t>(timings.choice));
  Push(std::move(response));
}

void DecodeOutbox::End(const absl::Status& status) {
  outbox_.End(ToGrpcStatus(status));
  if (!status.ok()) {
    outbox_.DropAll();
    waiting_tokens_ = 0;
  }
}

void DecodeOutbox::Written() {
  outbox_.Written();
  WriteNext();
}

void DecodeOutbox::WriteNext() {
  const DecodeResponse* writing = outbox_.WriteNext(reactor_);
  if (writing != nullptr && writing->has_tokens()) {
    waiting_tokens_ -= writing->tokens().tokens_size();
  }
}

}  // namespace baton
