// The messages that a Decode call has yet to write to the router.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "grpcpp/support/server_callback.h"

#include "baton/internal/v1/decode.pb.h"
#include "common/engine/sequence_request.h"
#include "common/rpc/outbox.h"
#include "common/rpc/receiving_service.h"

namespace baton {

// While a message is being written, tokens wait together in the next one. Thread rule: not
// thread-safe; the lock of its call guards it. Borrows the reactor.
class DecodeOutbox {
 public:
  using Reactor =
      grpc::ServerBidiReactor<Received<internal::v1::DecodeRequest>, internal::v1::DecodeResponse>;

  explicit DecodeOutbox(Reactor& reactor) : reactor_(reactor) {}

  // These write the message at once if none is being written. They do nothing once the end was set.
  void PushAccepted(int cached_tokens, const internal::v1::KvShape& shape);
  void PushCommitted(bool exact);
  void PushToken(internal::v1::OutputToken token);
  // Reports the progress of a local prefill. Replaces a progress that still waits.
  void PushProgress(int computed_tokens);
  void PushPromptLogprobs(internal::v1::PromptLogprobs logprobs);
  // Does nothing if the last waiting message already says so.
  void PushPreempted(uint32_t choice);
  // A sign of life. Does nothing if a message waits, or if another one was pushed since the last
  // call.
  void PushAlive();
  // The end of a choice. `local`: its prefill was made here. `exact`: its KV is bit for bit what
  // this worker would compute.
  void PushFinished(const SequenceFinished& timings, bool local, bool exact);

  // Sets the end. An error drops what waits.
  void End(const absl::Status& status);
  // The write that was begun has ended; the next one begins.
  void Written();
  // Begins the next write, or finishes the call when it is time. To be called after End.
  void WriteNext();

  bool ended() const { return outbox_.ended(); }
  bool finished() const { return outbox_.finished(); }
  int waiting_tokens() const { return waiting_tokens_; }

 private:
  void Push(internal::v1::DecodeResponse response);

  Reactor& reactor_;
  Outbox<internal::v1::DecodeResponse> outbox_;
  int waiting_tokens_ = 0;  // tokens that wait in outbox_
  bool pushed_ = false;     // a message was pushed since the last PushAlive
};

}  // namespace baton
