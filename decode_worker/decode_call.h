// One Decode call: the life of one attempt on the decode worker, at one choice or several.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "baton/internal/v1/decode.grpc.pb.h"
#include "common/base/thread_group.h"
#include "common/engine/engine.h"
#include "common/rpc/receiving_service.h"
#include "decode_worker/attempt_registry.h"
#include "decode_worker/call_choices.h"
#include "decode_worker/decode_outbox.h"
#include "decode_worker/decode_push.h"
#include "decode_worker/decode_service_options.h"

namespace baton {

// Thread-safe. Keeps itself alive until gRPC is done with the call and the engine is done with its
// sequence. While a message is being written, tokens wait together in the next one. When too many
// wait, the sequence pauses.
class DecodeCall final : public grpc::ServerBidiReactor<Received<internal::v1::DecodeRequest>,
                                                        internal::v1::DecodeResponse>,
                         public std::enable_shared_from_this<DecodeCall> {
 public:
  struct Callbacks {
    // The first read has ended, with a message or without. OK gives a call with a message a place;
    // any other status ends the call.
    std::function<absl::Status(bool message)> heard;
    std::function<void(bool placed)> done;  // the destructor calls it
  };
  // Borrows everything except the callbacks. The call's push runs in `pushes`.
  DecodeCall(Engine& engine, AttemptRegistry& registry, ThreadGroup& pushes,
             const DecodeServiceOptions& options, Callbacks callbacks);
  ~DecodeCall() override;
  void Start();
  // Ends the call with `status`, and the sequence and the push with it.
  void End(const absl::Status& status);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void OnRequest(const internal::v1::DecodeRequest& request);
  void OnStart(const internal::v1::DecodeStart& start);
  void OnStop(uint32_t choice) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void On(const SequenceAdmitted& event);
  void On(const BlocksGranted& event);
  void On(const PrefillStarted& event);
  void On(const LayerComputed&) {}
  void On(const ChunkComputed& event);
  void On(const PromptScored& event);
  void On(const TokenProduced& event);
  void On(const SequencePreempted& event);
  void On(const SequenceFinished& event);
  void On(const SequenceFailed& event);
  void On(const SequenceReleased& event);
  void On(const SequenceAlive&);
  void ExpectPush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnCommitted(const ReceiveAction::CommitSequence& commit);
  std::optional<AuditOrder> OrderAudit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnPushFailed(const absl::Status& status);

  void QueueToken(internal::v1::OutputToken token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A choice has ended. The last one ends the call.
  void ChoiceEnded(const SequenceFinished& timings) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetPaused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndSequence(internal::v1::PushRefused::Reason reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Engine& engine_;
  AttemptRegistry& registry_;
  ThreadGroup& pushes_;
  const DecodeServiceOptions& options_;
  const Callbacks callbacks_;
  std::shared_ptr<DecodeCall> self_;  // keeps the call alive until OnDone

  absl::Mutex mutex_;
  Received<internal::v1::DecodeRequest> request_;  // belongs to gRPC while a read is in flight
  bool heard_ = false;   // whether the first read has ended; written by its reaction
  bool placed_ = false;  // written by the same reaction
  DecodeOutbox outbox_ ABSL_GUARDED_BY(mutex_);

  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool registered_ ABSL_GUARDED_BY(mutex_) = false;
  bool submitted_ ABSL_GUARDED_BY(mutex_) = false;
  internal::v1::AttemptKey key_;  // written once, by OnStart
  bool local_ = false;            // written once, by OnStart
  int token_count_ = 0;           // tokens of the sequence at the start; written once, by OnStart
  std::string pusher_;            // PusherKey of the pusher; written once, by OnStart
  SequenceId sequence_ = 0;       // written once, by OnStart
  CallChoices choices_ ABSL_GUARDED_BY(mutex_) = CallChoices(0, 1);
  DecodePush push_ ABSL_GUARDED_BY(mutex_);
  int start_token_ ABSL_GUARDED_BY(mutex_) = 0;  // first token that is pushed
  bool committed_ ABSL_GUARDED_BY(mutex_) = false;
  bool exact_ ABSL_GUARDED_BY(mutex_) = true;
  bool releasing_ ABSL_GUARDED_BY(mutex_) = false;    // all choices were stopped
  bool flow_paused_ ABSL_GUARDED_BY(mutex_) = false;  // the router has asked for a pause
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;       // the engine has paused the sequence
};

}  // namespace baton
